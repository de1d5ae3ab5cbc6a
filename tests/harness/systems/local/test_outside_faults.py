"""Inputs that change, consumers, paused workers and lost folders, for jobs in real processes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import JOB_FAILED, JOB_FINISHED, LEAK
from onceproof.harness.model.scenario import Fault
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.kit.job_history import JobHistory
from onceproof.harness.systems.local.system import LocalSystem, LocalWorkersSystem
from onceproof.harness.systems.process.visible_outputs import read_json_rows
from onceproof.harness.trials.trial import as_run, scenario_of, try_scenario
from tests.harness.systems.words import scenario_with
from tests.left_processes import marked
from tests.planted.catalogue import file_of, with_bug

pytestmark = pytest.mark.local_kill

WORD_COUNT = load_family("word_count")
MUTANTS = str(Path(__file__).with_name("outside_mutants.py"))
BOTH = pytest.mark.parametrize("system", [LocalSystem, LocalWorkersSystem])
MEANS = pytest.mark.parametrize("means", ["", "replaced"])

KILL = Fault("kill_process", "completed", occurrence=2)


def change(means):
    """Change the input as the second checkpoint is complete: the first one covers some of it."""
    return Fault("change_input", "completed", occurrence=2, means=means)


def tried(system, *faults, checkpoint_interval_ms=30, **options):
    """Run a scenario with these faults; return its history, the causes of its end, and its verdict."""
    scenario = scenario_with(*faults, checkpoint_interval_ms=checkpoint_interval_ms)
    history = system(**options).run(WORD_COUNT, scenario)
    causes = [details["cause"] for _, kind, _, details in history.events if kind == JOB_FAILED]
    return history, causes, judge(scenario, history, PythonOracle(WORD_COUNT, scenario))


def signatures(verdict):
    return {(each.property, each.anomaly) for each in verdict.violations}


@MEANS
def test_job_whose_input_changed_before_a_restore_fails_and_names_the_file(means):
    faults = change(means), KILL
    history, causes, verdict = tried(LocalSystem, *faults)
    assert verdict.violations == ()
    assert history.statistics.coverage["change_input", "completed"] == 1
    (cause,) = causes
    assert "input-0.jsonl is not the one that was read" in cause


def test_change_that_is_taken_for_the_end_of_the_input_is_found():
    faults = change(""), KILL
    _, _, verdict = tried(LocalSystem, *faults, **with_bug("file-that-has-changed-is-at-its-end"))
    assert ("completeness", "unread input") in signatures(verdict)


def test_rows_of_two_files_that_are_mixed_are_found():
    faults = change("replaced"), KILL
    _, _, verdict = tried(LocalSystem, *faults, **with_bug("content-of-a-file-is-not-compared"))
    assert "exactly_once" in {name for name, _ in signatures(verdict)}


@BOTH
@pytest.mark.parametrize("kill", ["kill_process", "kill_all"])
def test_output_that_a_consumer_takes_away_is_committed_once(system, kill):
    faults = Fault("move_output", "committed"), Fault(kill, "committed")
    history, _, verdict = tried(system, *faults)
    assert verdict.violations == ()
    assert history.statistics.coverage["move_output", "committed"] == 1
    assert history.statistics.attempts == 2


def test_worker_that_is_paused_is_noticed_and_replaced():
    history, _, verdict = tried(LocalWorkersSystem, Fault("pause_worker", "element", occurrence=40))
    assert verdict.violations == ()
    assert history.statistics.coverage["pause_worker", "element"] == 1
    assert history.statistics.attempts == 2
    assert JOB_FINISHED in [kind for _, kind, _, _ in history.events]


@BOTH
def test_job_whose_checkpoints_vanish_ends_and_does_not_begin_anew(system):
    history, causes, verdict = tried(system, Fault("lose_folder", "completed", occurrence=2))
    assert verdict.violations == ()
    assert history.statistics.coverage["lose_folder", "completed"] == 1
    (cause,) = causes
    assert "checkpoint folder of job 'word_count' was deleted, moved or replaced" in cause


def test_job_that_has_written_elsewhere_does_not_begin_anew_either():
    # The second process writes into another folder than the first one, which has shown nothing.
    faults = Fault("kill_process", "element"), Fault("lose_folder", "completed", occurrence=2)
    history, causes, verdict = tried(LocalSystem, *faults)
    assert verdict.violations == ()
    assert history.statistics.coverage == Counter(
        dict.fromkeys([(each.kind, each.point) for each in faults], 1)
    )
    assert "checkpoint folder of job 'word_count' was deleted, moved or replaced" in causes[0]


def test_job_whose_checkpoints_vanish_at_its_end_has_finished():
    # The interval is longer than the job: its last checkpoint is the only one.
    fault = Fault("lose_folder", "completed")
    history, _, verdict = tried(LocalSystem, fault, checkpoint_interval_ms=60_000)
    assert verdict.violations == ()
    assert history.statistics.coverage["lose_folder", "completed"] == 1
    assert history.statistics.attempts == 1
    assert JOB_FINISHED in [kind for _, kind, _, _ in history.events]


def test_open_files_of_a_job_that_has_lost_its_checkpoints_are_no_leak(tmp_path):
    history = JobHistory((), {}, tmp_path, ".txt", read_json_rows, parallelism=1)
    (tmp_path / ".part-1.txt.1.inprogress").touch()
    history.disown_unfinished()
    (tmp_path / ".part-2.txt.2.inprogress").touch()
    history.at_rest(tmp_path / "checkpoints")
    assert [name for _, kind, _, name in history.run.history.events if kind == LEAK] == [
        {"name": ".part-2.txt.2.inprogress"}
    ]


@pytest.fixture
def without_orphans() -> Iterator[None]:
    """Kill what a planted bug leaves behind: a forked child that runs the job outlives its parent."""
    yield
    for process_id, _ in marked(f"{os.getpid()}:"):
        with suppress(psutil.Error):
            process = psutil.Process(process_id)
            if process.ppid() == 1:
                process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "mutant", "file", "kind", "number"),
    [
        (LocalSystem, "exit-of-a-function-ends-the-process", "", "function_leaves", 31),
        (LocalSystem, "forked-child-runs-the-job", MUTANTS, "function_leaves", 13),
        (LocalSystem, "relative-path-stays-relative", MUTANTS, "function_leaves", 1),
        (LocalSystem, "file-that-has-changed-is-at-its-end", "", "change_input", 11),
        (LocalSystem, "content-of-a-file-is-not-compared", "", "change_input", 16),
        (LocalSystem, "file-that-was-taken-away-is-lost", "", "move_output", 9),
        (LocalSystem, "folder-is-looked-at-once", MUTANTS, "lose_folder", 106),
        (LocalWorkersSystem, "silence-of-a-worker-is-no-death", MUTANTS, "pause_worker", 93),
    ],
    ids=lambda value: value if isinstance(value, str) and "." not in value else "",
)
@pytest.mark.usefixtures("without_orphans")
def test_planted_bug_is_found_in_a_drawn_scenario(system, mutant, file, kind, number):
    """The numbers are those of scenarios of a run with seed 1, among the first six that have the fault."""
    file = file or file_of(mutant)
    sound, broken = system(), system(mutant=mutant, mutant_file=file, process_seconds=30)
    scenario = as_run(sound, WORD_COUNT, scenario_of(WORD_COUNT, scenario_seed(1, "word_count", number)))
    assert kind in {fault.kind for fault in scenario.faults}
    assert not try_scenario(WORD_COUNT, scenario, system=broken).verdict.passed
    assert try_scenario(WORD_COUNT, scenario, system=sound).verdict.passed


def test_job_with_rows_where_it_cannot_see_them_ends_with_its_checkpoints():
    family, system = load_family("word_batches"), LocalSystem()
    scenario = scenario_of(family, 4010115730246790615)
    trial = try_scenario(family, scenario, system=system)
    assert trial.verdict.violations == ()
    assert trial.history.statistics.coverage["lose_folder", "completed"] == 1
    assert JOB_FINISHED not in [kind for _, kind, _, _ in trial.history.events]
