"""Jobs in workers under real SIGKILLs of a worker, of all, of the coordinator; savepoints and stops."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from msgspec import structs

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    ERROR,
    FAULT_FIRED,
    JOB_RESCALED,
    JOB_STOPPED,
    SAVEPOINT_COMPLETED,
    TASK_FAILED,
)
from onceproof.harness.model.scenario import Fault, Operation
from onceproof.harness.systems.local.system import ORPHAN, LocalWorkersSystem
from tests.harness.systems.words import WORDS, scenario_with
from tests.left_processes import VARIABLE, marked

pytestmark = pytest.mark.local_kill

WORD_COUNT = load_family("word_count")
MUTANTS = str(Path(__file__).with_name("worker_mutants.py"))


LONG = {name: tuple((time, word) for time, word in enumerate(WORDS * 20)) for name in ("x", "y")}
"""Records for so many checkpoints that a busy machine makes a request long before their end."""


def tried(scenario, **options):
    """Run a scenario; return its history and verdict."""
    system = LocalWorkersSystem(**options)
    scenario = system.prepared(scenario)
    history = system.run(WORD_COUNT, scenario)
    return history, judge(scenario, history, PythonOracle(WORD_COUNT, scenario))


def parallelisms_of(history):
    """Return the parallelism of each attempt."""
    return [details["parallelism"] for _, kind, _, details in history.events if kind == ATTEMPT_STARTED]


def kinds(history):
    """Return the kinds of a history's events in order."""
    return [kind for _, kind, _, _ in history.events]


def test_worker_that_is_killed_takes_all_its_tasks_along():
    history, verdict = tried(scenario_with(Fault("kill_task", "snapshotted", "count-0", checkpoint=2)))
    assert verdict.violations == ()
    assert FAULT_FIRED in kinds(history), history.events
    died = [task for _, kind, task, _ in history.events if kind == TASK_FAILED]
    assert sorted(died) == ["count-0", "sink-0", "source-0"]
    assert history.statistics.attempts == 2


def test_job_survives_kills_of_all_workers_and_of_the_coordinator():
    faults = (
        Fault("kill_all", "acknowledged", checkpoint=1, rescale_to=4),
        Fault("kill_process", "committing", checkpoint=2),
        Fault("kill_all", "metadata_written", checkpoint=3, delay=3),
    )
    history, verdict = tried(scenario_with(*faults, source_parallelism=0, sink_parallelism=0))
    assert verdict.violations == ()
    struck = [kind for _, event, kind, _ in history.events if event == FAULT_FIRED]
    assert struck == ["kill_all", "kill_process", "kill_all"]
    parallelisms = [
        details["parallelism"] for _, kind, _, details in history.events if kind == ATTEMPT_STARTED
    ]
    assert parallelisms[:2] == [2, 4]


def test_faults_of_commits_storage_messages_and_clocks_are_taken():
    faults = (
        Fault("fail_commit", "committing", "sink-1"),
        Fault("commit_error_after_success", "committing", "sink-0", checkpoint=2),
        Fault("fail_read", "restoring"),
        Fault("delay_message", "notified", "count-0", delay=20),
        Fault("delay_message", "acknowledged", "count-1", delay=20),
        Fault("clock_ahead", "completed", delay=60_000),
        Fault("lose_message", "notified"),
    )
    history, verdict = tried(scenario_with(*faults, checkpoint_interval_ms=12))
    assert verdict.violations == ()
    assert sum(history.statistics.coverage.values()) >= 5
    assert history.statistics.not_applicable == {("lose_message", "notified"): 1}


def test_stopped_job_goes_on_at_another_parallelism():
    operations = (Operation("stop", "completed", checkpoint=2, parallelism=3),)
    scenario = scenario_with(
        records=LONG,
        source_parallelism=0,
        sink_parallelism=0,
        operations=operations,
        checkpoint_interval_ms=30,
    )
    history, verdict = tried(scenario)
    assert verdict.violations == ()
    assert JOB_STOPPED in kinds(history)
    parallelisms = [
        details["parallelism"] for _, kind, _, details in history.events if kind == ATTEMPT_STARTED
    ]
    assert parallelisms == [2, 3]


def test_running_job_is_rescaled_by_its_user():
    scenario = scenario_with(
        records=LONG,
        source_parallelism=0,
        sink_parallelism=0,
        operations=(Operation("rescale", "completed", checkpoint=2, parallelism=3),),
        checkpoint_interval_ms=30,
    )
    history, verdict = tried(scenario)
    assert verdict.violations == ()
    assert parallelisms_of(history) == [2, 3]
    assert kinds(history)[kinds(history).index(JOB_RESCALED) + 1 :].count(ATTEMPT_STARTED) == 1
    assert TASK_FAILED not in kinds(history)


def test_job_reads_on_after_a_savepoint_between_two_checkpoints_by_records():
    # The sources count from the trigger of the savepoint, as the coordinator does, or both wait for ever.
    records = {"x": tuple((time, word) for time, word in enumerate(WORDS * 6))}
    scenario = scenario_with(
        records=records,
        source_parallelism=1,
        operations=(Operation("savepoint", "element", "count-0", occurrence=14),),
        checkpoint_interval_ms=60,
    )
    history, verdict = tried(scenario)
    assert verdict.violations == ()
    assert SAVEPOINT_COMPLETED in kinds(history)


def test_endless_job_in_workers_is_drained_by_its_user():
    history, verdict = tried(
        scenario_with(Fault("kill_task", "snapshotted", "sink-1", checkpoint=1), endless=True)
    )
    assert verdict.violations == ()
    assert history.statistics.attempts > 1


@pytest.mark.parametrize("seed", [1, 12])
def test_drawn_scenario_in_workers_keeps_all_properties(seed):
    assert tried(generate(WORD_COUNT, seed))[1].violations == ()


def test_worker_that_dies_without_a_fault_is_an_error(tmp_path):
    history, verdict = tried(scenario_with(), mutant="worker-ends-at-a-barrier", mutant_file=MUTANTS)
    assert "no_error" in verdict.failed_properties()
    [error] = [payload for _, kind, _, payload in history.events if kind == ERROR]
    assert error["type"] == "WorkerGone"


def test_worker_that_outlives_its_coordinator_is_a_leak(monkeypatch):
    monkeypatch.setattr("onceproof.harness.systems.local.system.SECONDS_TO_END", 0.3)
    _, verdict = tried(
        scenario_with(Fault("kill_process", "completed", checkpoint=1)),
        mutant="workers-outlive-their-coordinator",
        mutant_file=MUTANTS,
    )
    assert ORPHAN in {violation.anomaly for violation in verdict.violations}


def test_barrier_that_passes_waiting_records_is_caught():
    scenario = scenario_with(channel_capacity=1, checkpoint_interval_ms=12)
    # A barrier that meets no waiting record passes none. On a busy machine that is one run of ten.
    runs = (tried(scenario, mutant="barriers-pass-records", mutant_file=MUTANTS) for _ in range(6))
    assert any("consistent_cut" in verdict.failed_properties() for _, verdict in runs)


def test_savepoint_complete_as_the_coordinator_dies_is_one_of_its_checkpoints():
    operations = (Operation("stop", "completed", checkpoint=1),)
    faults = (Fault("kill_process", "metadata_written", occurrence=2),)
    history, verdict = tried(scenario_with(*faults, operations=operations, checkpoint_interval_ms=60))
    assert verdict.violations == ()
    assert JOB_STOPPED not in kinds(history)


def test_snapshot_that_does_not_wait_for_its_savepoint_is_caught():
    # The third worker has no source, and hears late where the savepoint lies; the barriers come from others.
    late = Fault("delay_message", "notified", "count-2", delay=300)
    operations = (Operation("savepoint", "committed", checkpoint=1),)
    scenario = scenario_with(
        late,
        parallelism=3,
        source_parallelism=2,
        sink_parallelism=2,
        operations=operations,
        checkpoint_interval_ms=60,
    )
    assert tried(scenario)[1].violations == ()
    # On a busy machine the place may still come before the barrier, which breaks nothing; then it is later.
    mutant = "snapshot-before-the-place-of-its-savepoint"
    scenarios = (
        structs.replace(scenario, faults=(structs.replace(late, delay=delay),))
        for delay in (300, 300, 1_000, 1_000, 4_000, 4_000)
    )
    runs = (tried(each, mutant=mutant, mutant_file=MUTANTS) for each in scenarios)
    found = ({violation.anomaly for violation in verdict.violations} for _, verdict in runs)
    assert any("deleted file of a savepoint" in anomalies for anomalies in found)


def test_no_process_of_a_trial_is_left():
    tried(scenario_with(Fault("kill_process", "element", occurrence=9)))
    # Fixtures of other tests may keep a server running, which starts processes at any time.
    assert list(marked(os.environ[VARIABLE])) == []
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
