"""Reads, lists and deletions of the checkpoint storage that fail for a moment."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from onceproof.engine.runtime.deletion import NEXT_START
from onceproof.engine.runtime.storage import MissingFile, StorageError
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import ATTEMPT_STARTED, INPUT_READ, JOB_FINISHED, WAIT_BEGUN
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.fault_clock import NOTHING_HIT, ProcessFaultClock
from onceproof.harness.systems.local.system import LocalSystem
from onceproof.harness.systems.local.unreliable_storage import UnreliableStorage
from onceproof.harness.trials.trial import try_scenario
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import with_bug

WORD_COUNT = load_family("word_count")
KILL_TASK = Fault("kill_task", "notified", checkpoint=2)
KILL_LATER = Fault("kill_task", "notified", checkpoint=4)
KILL_PROCESS = Fault("kill_process", "completed", checkpoint=2)


def simulated(*faults):
    trial = try_scenario(WORD_COUNT, scenario_with(*faults), twice=False)
    assert trial.verdict.violations == ()
    return trial.history


def attempts(history):
    return [event for event in history.events if event[1] == ATTEMPT_STARTED]


@pytest.mark.parametrize("nth", range(1, 8))
def test_each_read_of_a_recovering_process_may_fail(nth):
    # The first process lists its empty folder, so the first reads of the second one come after that.
    read = Fault("fail_read", "restoring", occurrence=1 + nth)
    history = simulated(KILL_PROCESS, read)
    assert history.statistics.coverage["fail_read", "restoring"] == 1


def test_attempt_that_cannot_read_its_checkpoint_is_followed_by_another_one():
    undisturbed = len(attempts(simulated(KILL_TASK)))
    # Lists before deletions count as reads: a later pass may be one of them, and costs no attempt.
    histories = (
        simulated(KILL_TASK, Fault("fail_read", "restoring", occurrence=nth)) for nth in range(2, 14)
    )
    assert any(len(attempts(history)) == undisturbed + 1 for history in histories)


@pytest.mark.parametrize("nth", [1, 2, 5, 21])
def test_file_that_is_not_deleted_changes_nothing(nth):
    history = simulated(Fault("fail_delete", "completed", occurrence=nth), KILL_PROCESS)
    assert history.statistics.coverage["fail_delete", "completed"] == 1
    assert [event[1] for event in history.events[-2:]] == [JOB_FINISHED, INPUT_READ]


@pytest.mark.parametrize("nth", [1, 8])
def test_late_answer_costs_no_attempt(nth):
    late = Fault("late_read", "restoring", occurrence=nth, delay=150)
    history = simulated(KILL_TASK, late)
    assert history.statistics.coverage["late_read", "restoring"] == 1
    assert len(attempts(history)) == len(attempts(simulated(KILL_TASK)))


@pytest.mark.parametrize("nth", [1, 3, 5])
def test_time_goes_on_from_a_late_answer(nth):
    # Where it went back, the log left out a restart that was said to be missing.
    late = Fault("late_read", "restoring", occurrence=nth, delay=150)
    history = simulated(KILL_TASK, late, KILL_LATER)
    times = [payload["now_ms"] for _, kind, _, payload in history.events if kind == WAIT_BEGUN]
    assert times == sorted(times)


@pytest.mark.parametrize("nth", [1, 2, 4, 11])
def test_process_starts_where_deleted_files_are_still_listed(nth):
    history = simulated(Fault("stale_list", "completed", occurrence=nth, delay=10_000), KILL_PROCESS)
    assert history.statistics.coverage["stale_list", "completed"] == 1
    assert [event[1] for event in history.events[-2:]] == [JOB_FINISHED, INPUT_READ]


def test_local_storage_is_slow_and_lists_what_it_has_deleted(tmp_path):
    faults = (
        Fault("late_read", "restoring", occurrence=2, delay=50),
        Fault("stale_list", "completed", delay=100_000),
    )
    storage = UnreliableStorage(str(tmp_path))
    storage.write("chk-3/a", b"1")
    storage.fault_clock = ProcessFaultClock(faults, False, NOTHING_HIT, lambda *hit: None)
    begun = time.monotonic()
    assert storage.read("chk-3/a") == b"1"
    storage.delete("chk-3/a")
    assert storage.list("chk-") == ["chk-3/a"]
    assert time.monotonic() - begun >= 0.05
    with pytest.raises(MissingFile):
        storage.read("chk-3/a")
    assert storage.list("shared/") == []


def test_local_storage_fails_the_call_that_the_fault_clock_names(tmp_path):
    struck = []
    faults = (Fault("fail_read", "restoring", occurrence=2), Fault("fail_delete", "completed", checkpoint=3))
    storage = UnreliableStorage(str(tmp_path))
    storage.write("chk-3/a", b"1")
    storage.write("chk-2/a", b"1")
    storage.fault_clock = ProcessFaultClock(faults, False, NOTHING_HIT, lambda *hit: struck.append(hit[0]))
    assert storage.read("chk-3/a") == b"1"
    with pytest.raises(StorageError, match="does not answer a read"):
        storage.list("chk-")
    assert storage.list("chk-") == ["chk-2/a", "chk-3/a"]
    storage.delete("chk-2/a")
    with pytest.raises(StorageError, match="'chk-3/a': the storage does not answer a deletion"):
        storage.delete("chk-3/a")
    storage.delete("chk-3/a")
    assert (struck, storage.list("chk-")) == ([0, 1], [])


@pytest.mark.local_kill
@pytest.mark.parametrize(
    "faults",
    [
        (KILL_TASK, Fault("fail_read", "restoring", occurrence=3)),
        (Fault("fail_delete", "completed", occurrence=2), KILL_PROCESS),
        (
            KILL_TASK,
            Fault("late_read", "restoring", occurrence=3, delay=200),
            Fault("stale_list", "completed", occurrence=2, delay=200),
        ),
    ],
    ids=["read", "deletion", "late and stale"],
)
def test_real_job_goes_on_after_a_storage_that_was_away(faults):
    scenario = scenario_with(*faults)
    history = LocalSystem().run(WORD_COUNT, scenario)
    assert judge(scenario, history, PythonOracle(WORD_COUNT, scenario)).violations == ()
    assert {kind for kind, _ in history.statistics.coverage} == {fault.kind for fault in faults}


@pytest.mark.local_kill
def test_what_a_finished_real_job_cannot_list_is_deleted_by_its_next_start(tmp_path):
    # Which read is a list at the end of the job is searched for, after six others: each run has to pass.
    for nth in range(7, 15):
        scenario = scenario_with(Fault("fail_read", "restoring", occurrence=nth))
        history = LocalSystem(tmp_path / str(nth)).run(WORD_COUNT, scenario)
        assert judge(scenario, history, PythonOracle(WORD_COUNT, scenario)).violations == ()
        [said] = tmp_path.glob(f"{nth}/run-*/process-1.txt")
        if f"; {NEXT_START} deletes it" in said.read_text():
            assert said.with_name("process-2.txt").is_file()
            return
    pytest.fail("no list at the end of the job was struck")


@pytest.mark.local_kill
def test_real_job_that_gives_up_at_a_failed_read_is_caught():
    faults = [Fault("fail_read", "restoring", occurrence=nth) for nth in (1, 2, 3)]
    scenario = replace(scenario_with(KILL_TASK, *faults), retained=1)
    history = LocalSystem(**with_bug("read-error-ends-the-job")).run(WORD_COUNT, scenario)
    assert "liveness" in judge(scenario, history, PythonOracle(WORD_COUNT, scenario)).failed_properties()
