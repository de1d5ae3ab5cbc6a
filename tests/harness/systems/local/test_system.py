"""Real processes under real SIGKILLs: word count survives one at every point of the protocol."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path

import pytest
from msgspec import structs

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import COORDINATOR_POINTS, POINTS
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    ERROR,
    INPUT_READ,
    JOB_FINISHED,
    TRANSACTION_VISIBLE,
)
from onceproof.harness.model.mutants import MutantError
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.kit.run_history import OUTSIDE
from onceproof.harness.systems.local.attempt_leaks import (
    OPEN_FILE,
    SNAPSHOT,
    TASK,
    THREAD,
    TIMER,
    VOID_SNAPSHOT,
)
from onceproof.harness.systems.local.run import main
from onceproof.harness.systems.local.system import LocalRun, LocalSystem
from onceproof.harness.systems.process.job_specification import spec_of
from tests.harness.systems.words import WORDS, scenario_with
from tests.planted.catalogue import with_bug

pytestmark = pytest.mark.local_kill

WORD_COUNT = load_family("word_count")
IDENTITY_MUTANTS = Path(__file__).parent / "identity_mutants.py"
LOCAL_MUTANTS = str(Path(__file__).with_name("local_mutants.py"))
AT_A_SNAPSHOT = Fault("kill_task", "snapshotted", "count-0", checkpoint=2)
AMONG_RECORDS = Fault("kill_task", "element", "count-0", occurrence=18)
RESTORES = ("restoring", "restored")


def tried(scenario, **options):
    """Run a scenario; return its history and verdict."""
    history = LocalSystem(**options).run(WORD_COUNT, scenario)
    return history, judge(scenario, history, PythonOracle(WORD_COUNT, scenario))


def records_of(scenario) -> int:
    """Return the number of records of all splits."""
    return sum(map(len, scenario.records.values()))


def kill(point, kind="kill_process", **details) -> tuple[Fault, ...]:
    """Return a kill at a point. A point that only a restore passes needs another kill before it."""
    if point in (*RESTORES, "aborted"):
        # Each attempt restores six subtasks. The kill strikes the fourth one of the second attempt.
        passes = 1 if point == "aborted" else 10
        return Fault("kill_process", "completed", checkpoint=2), Fault(
            kind, point, occurrence=passes, **details
        )
    checkpoint = 0 if point in ("element", "end_of_data") else 2
    return (Fault(kind, point, checkpoint=checkpoint, **details),)


@pytest.mark.parametrize("point", POINTS)
def test_process_killed_at_any_point_loses_and_repeats_no_rows(point):
    faults = kill(point)
    history, verdict = tried(scenario_with(*faults))
    assert verdict.violations == ()
    assert history.statistics.coverage[("kill_process", point)] == 1
    assert history.statistics.attempts == len(faults) + 1
    assert len(history.statistics.recoveries) == len(faults)
    assert all(recovery.seconds is not None for recovery in history.statistics.recoveries)
    # Each process takes some time to its first event.
    assert 0 < history.statistics.waited_milliseconds < history.statistics.milliseconds


@pytest.mark.parametrize("kind", ["kill_task", "kill_all"])
def test_tasks_killed_one_after_another_lose_and_repeat_no_rows(kind):
    # All tasks run in one process. Each kill fails tasks at a checkpoint of its own.
    points = [point for point in POINTS if kind == "kill_all" or point not in COORDINATOR_POINTS]
    faults = [
        Fault(kind, point, checkpoint=checkpoint, occurrence=10 if point in RESTORES else 1)
        for number, point in enumerate(points, 1)
        for checkpoint in [0 if point in (*RESTORES, "aborted", "element", "end_of_data") else number]
    ]
    history, verdict = tried(scenario_with(*faults, checkpoint_interval_ms=12))
    assert verdict.violations == ()
    struck = {point for (_, point), times in history.statistics.coverage.items() if times == 1}
    assert struck == set(points)
    assert history.statistics.attempts > len(points) // 2


@pytest.mark.parametrize("point", ["element", "snapshotted", "completed", "committing"])
def test_endless_job_that_is_killed_is_drained_by_its_user(point):
    history, verdict = tried(scenario_with(*kill(point), endless=True))
    assert verdict.violations == ()
    assert history.statistics.attempts > 1
    assert sum(history.statistics.coverage.values()) == 1


def test_endless_job_without_records_is_drained_as_well():
    scenario = scenario_with(endless=True)
    _, verdict = tried(structs.replace(scenario, records=dict.fromkeys(scenario.records, ())))
    assert verdict.violations == ()


def test_job_restarts_with_the_parallelism_that_each_kill_requests():
    faults = (
        Fault("kill_process", "notified", checkpoint=1, rescale_to=3),
        Fault("kill_task", "committed", checkpoint=2, rescale_to=1),
        Fault("kill_process", "snapshotted", checkpoint=3),
    )
    history, verdict = tried(scenario_with(*faults, source_parallelism=0, sink_parallelism=0))
    assert verdict.violations == ()
    parallelisms = [
        payload["parallelism"] for _, kind, _, payload in history.events if kind == ATTEMPT_STARTED
    ]
    assert parallelisms == [2, 3, 1, 1]


@pytest.mark.parametrize(
    "kind", sorted(kind for kind, row in FAULTS.items() if row.strikes == "commit" and row.delay == "none")
)
def test_commit_that_fails_or_reports_an_error_takes_effect_once(kind):
    history, verdict = tried(scenario_with(Fault(kind, "committing", "sink-0")))
    assert verdict.violations == ()
    assert history.statistics.coverage == {(kind, "committing"): 1}
    assert history.statistics.attempts == 2


def test_unsupported_faults_are_counted_and_the_others_strike():
    lost, killed = Fault("lose_message", "notified"), Fault("kill_process", "notified", checkpoint=1)
    history, verdict = tried(scenario_with(lost, killed))
    assert verdict.passed
    assert history.statistics.not_applicable == {("lose_message", "notified"): 1}
    assert history.statistics.coverage == {("kill_process", "notified"): 1}


@pytest.mark.parametrize(
    "mutant", ["commit-before-completion", "pending-dropped-on-restore", "offsets-missing"]
)
def test_a_planted_bug_is_caught(mutant):
    # The kill strikes between the first commit of a checkpoint and the second.
    faults = (Fault("kill_process", "committing", checkpoint=2, occurrence=2),)
    _, verdict = tried(scenario_with(*faults), **with_bug(mutant))
    assert {"exactly_once", "consistent_cut"} & set(verdict.failed_properties())


def test_files_of_another_job_that_are_deleted_are_noticed():
    _, verdict = tried(scenario_with(), **with_bug("sweep-takes-all-for-its-own"))
    assert verdict.failed_properties() == ("no_leaks",)
    assert {violation.anomaly for violation in verdict.violations} == {"lost transaction of another job"}


def test_pending_files_that_are_sought_in_another_folder_are_missed():
    # Every second process writes into another folder than the one before it.
    faults = (Fault("kill_process", "completed", checkpoint=2),)
    assert tried(scenario_with(*faults))[1].passed
    _, verdict = tried(
        scenario_with(*faults), mutant="pending-sought-in-the-new-folder", mutant_file=LOCAL_MUTANTS
    )
    assert "no_error" in verdict.failed_properties()


def test_files_of_a_transaction_that_are_not_all_committed_are_missed():
    # The second process writes into buckets, in files of a few rows.
    faults = (Fault("kill_process", "completed", checkpoint=1),)
    history, verdict = tried(scenario_with(*faults))
    assert verdict.passed
    names = [name for _, kind, name, _ in history.events if kind == TRANSACTION_VISIBLE]
    assert [name for name in names if name.endswith("-2.jsonl")]
    mutant = "only-the-first-file-is-committed"
    _, verdict = tried(scenario_with(*faults), mutant=mutant, mutant_file=LOCAL_MUTANTS)
    assert "exactly_once" in verdict.failed_properties()


def test_hidden_files_that_stay_in_buckets_are_a_leak():
    faults = (Fault("kill_process", "completed", checkpoint=1), AMONG_RECORDS)
    assert tried(scenario_with(*faults))[1].passed
    # On a busy machine the second kill may come when no file of the attempt lies there.
    planted = {"mutant": "buckets-are-not-swept", "mutant_file": LOCAL_MUTANTS}
    runs = (tried(scenario_with(*faults), **planted)[1].failed_properties() for _ in range(6))
    assert ("no_leaks",) in runs


def test_open_file_in_a_folder_to_which_the_output_comes_back_is_no_leak():
    # The first process leaves it, and the second one writes elsewhere.
    faults = (
        Fault("kill_process", "acknowledged", checkpoint=1, occurrence=2),
        Fault("kill_process", "completed", checkpoint=2),
    )
    history, verdict = tried(scenario_with(*faults))
    assert history.statistics.attempts == 3
    assert verdict.violations == ()


@pytest.mark.parametrize(
    ("mutant", "fault", "anomalies"),
    [
        ("void-snapshots-wait-on", AT_A_SNAPSHOT, {SNAPSHOT, VOID_SNAPSHOT}),
        ("dead-tasks-are-remembered", AT_A_SNAPSHOT, {TASK}),
        ("each-attempt-has-a-thread", AT_A_SNAPSHOT, {THREAD}),
        ("dead-sinks-keep-their-files-open", AMONG_RECORDS, {OPEN_FILE}),
    ],
)
def test_what_a_dead_attempt_leaves_in_the_process_is_a_leak(mutant, fault, anomalies):
    _, verdict = tried(scenario_with(fault), mutant=mutant, mutant_file=LOCAL_MUTANTS)
    assert verdict.failed_properties() == ("no_leaks",)
    assert anomalies <= {violation.anomaly for violation in verdict.violations}


@pytest.mark.parametrize(("mutant", "anomalies"), [("", set()), ("timers-of-dead-attempts-stay", {TIMER})])
def test_timers_of_a_dead_attempt_are_a_leak(mutant, anomalies):
    family = load_family("bursts")
    drawn = next(each for seed in range(100) if records_of(each := generate(family, seed)) > 30)
    # Each record sets a timer that is due seconds later.
    scenario = structs.replace(drawn, faults=(Fault("kill_task", "element", occurrence=9),))
    file = LOCAL_MUTANTS if mutant else ""
    history = LocalSystem(mutant=mutant, mutant_file=file).run(family, scenario)
    assert history.statistics.attempts == 2
    verdict = judge(scenario, history, PythonOracle(family, scenario))
    # A timer that is due by then holds its task no longer.
    found = {violation.anomaly for violation in verdict.violations}
    assert found - ({TASK} if mutant else set()) == anomalies


@pytest.mark.parametrize("mutant", ["any-program-under-a-name", "registry-forgets", "record-without-sources"])
@pytest.mark.parametrize("faults", [(), kill("completed")], ids=["finished", "killed"])
def test_a_second_program_that_would_go_on_under_the_name_is_caught(mutant, faults):
    history, verdict = tried(scenario_with(*faults), mutant=mutant, mutant_file=str(IDENTITY_MUTANTS))
    assert "no_error" in verdict.failed_properties()
    [error] = [payload for _, kind, _, payload in history.events if kind == ERROR]
    assert error["type"] == "SecondProgramGoesOn"
    # Before the second process recovers; without a kill at the end of the first.
    assert (JOB_FINISHED in [kind for _, kind, _, _ in history.events]) is not bool(faults)


def test_unknown_mutant_is_refused_with_the_nearest_name():
    with pytest.raises(MutantError, match="did you mean buckets-are-not-swept"):
        LocalSystem(mutant="buckets-are-swept", mutant_file=LOCAL_MUTANTS)


def test_user_family_is_run_from_its_file(tmp_path):
    text = Path(str(WORD_COUNT.__file__)).read_text(encoding="utf-8")
    path = tmp_path / "mine.py"
    path.write_text(text.replace('name = "word_count"', 'name = "mine"'), encoding="utf-8")
    family = load_family(str(path))
    scenario = scenario_with(Fault("kill_process", "committed", checkpoint=1), family="mine")
    history = LocalSystem(tmp_path / "runs").run(family, scenario)
    assert judge(scenario, history, PythonOracle(family, scenario)).passed
    # The folder that the caller names is kept after the run.
    assert len(list((tmp_path / "runs").glob("*/events-*.jsonl"))) == 2


def test_error_of_the_family_ends_the_run_and_is_named(tmp_path):
    text = Path(str(WORD_COUNT.__file__)).read_text(encoding="utf-8")
    path = tmp_path / "broken.py"
    path.write_text(
        text.replace("def process_element(self", "def process_element(self, missing"), encoding="utf-8"
    )
    family = load_family(str(path))
    scenario = scenario_with()
    history = LocalSystem().run(family, scenario)
    [error] = [payload for _, kind, _, payload in history.events if kind == ERROR]
    assert error["type"] == "TypeError"
    assert not judge(scenario, history, PythonOracle(family, scenario)).passed


def test_job_beyond_its_time_limit_is_stuck():
    _, verdict = tried(scenario_with(), process_seconds=0.05)
    assert verdict.signature == ("liveness", "stuck")


def test_process_that_ends_without_an_event_log_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("onceproof.harness.systems.local.system.CHILD", "onceproof.missing")
    history = LocalRun(spec_of(WORD_COUNT, scenario_with(), tmp_path), {"x": 30, "y": 30}, tmp_path).run()
    [error] = [payload for _, kind, _, payload in history.events if kind == ERROR]
    assert error["text"].startswith("exit code 1: ")
    assert "No module named onceproof.missing" in error["text"]


def test_child_without_a_specification_prints_the_cause(tmp_path, capsys):
    assert main(str(tmp_path / "none.json")) == 2
    assert "No such file" in capsys.readouterr().err


def test_job_survives_a_kill_from_outside_which_is_recorded(tmp_path):
    # On a busy machine the kill comes some checkpoints later than it is sent.
    records = {name: tuple((time, word) for time, word in enumerate(WORDS * 20)) for name in ("x", "y")}
    scenario = scenario_with(records=records)
    processes: list[subprocess.Popen[bytes]] = []

    def started(process: subprocess.Popen[bytes]) -> None:
        processes.append(process)
        if len(processes) == 1:
            threading.Thread(target=kill_after_first_commit, args=(process,)).start()

    def kill_after_first_commit(process: subprocess.Popen[bytes]) -> None:
        events = tmp_path / "events-1.jsonl"
        while process.poll() is None and not (events.exists() and b"committed" in events.read_bytes()):
            threading.Event().wait(0.001)
        process.send_signal(signal.SIGKILL)

    lengths = {split: len(own) for split, own in records.items()}
    history = LocalRun(spec_of(WORD_COUNT, scenario, tmp_path), lengths, tmp_path, started=started).run()
    assert judge(scenario, history, PythonOracle(WORD_COUNT, scenario)).violations == ()
    assert history.statistics.coverage == {("kill_process", OUTSIDE): 1}
    assert len(processes) == 2


def test_checkpoints_follow_record_counts_until_the_job_finishes():
    history, verdict = tried(scenario_with())
    assert verdict.passed
    assert [kind for _, kind, _, _ in history.events[-2:]] == [JOB_FINISHED, INPUT_READ]
    cuts = [
        sum(payload["cut"].values()) for _, kind, _, payload in history.events if kind == CHECKPOINT_COMPLETED
    ]
    # A checkpoint comes after ten records; the other source may read one more.
    assert cuts == sorted(cuts)
    assert cuts[-1] == 60
    assert all(after - before <= 12 for before, after in zip([0, *cuts], cuts, strict=False))
