"""The history built from the event logs of driver and workers: tasks of epochs become attempts of the job."""

from __future__ import annotations

import json

import pytest

from onceproof.harness.checkers.fencing import FOREIGN_SNAPSHOT, Fencing
from onceproof.harness.model.history import (
    CHECKPOINT_COMPLETED,
    FAULT_FIRED,
    TASK_FAILED,
    TRANSACTION_VISIBLE,
)
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.visible_outputs import read_json_rows
from onceproof.harness.systems.spark.history import SparkHistory

SECOND = 1_000_000_000
STRUCK = {"kind": "fault_struck", "waiting": {"left": [0], "striking": []}, "points": {}}


class Job:
    """The output folder of a job, and the builder of its history."""

    def __init__(self, path, *faults):
        self.output = path
        self.builder = SparkHistory(faults, {"a": 10, "b": 20}, path, ".jsonl", read_json_rows, parallelism=2)
        self.history = self.builder.run.history

    def write(self, name, *rows):
        (self.output / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def add_process_log(self, *events):
        self.builder.add_process_log([{"at": place * SECOND, **event} for place, event in enumerate(events)])

    def payloads(self, kind):
        return [payload for _, found, _, payload in self.history.events if found == kind]


@pytest.fixture
def job_under(tmp_path):
    return lambda *faults: Job(tmp_path, *faults)


def attempt(name="1.1", restored=None, parallelism=2):
    return {"kind": "attempt_started", "attempt": name, "restored": restored, "parallelism": parallelism}


def subtask(task, attempt, restored=None):
    return {"kind": "subtask_started", "task": task, "attempt": attempt, "restored": restored}


def snapshot(path, attempt, cut=None, transactions=()):
    return {
        "kind": "snapshot_taken",
        "path": path,
        "attempt": attempt,
        "cut": cut or {},
        "transactions": transactions,
    }


def completed(number, *paths, attempt="1.1"):
    checkpoint = {"id": number, "attempt": attempt, "paths": paths, "in_flight": 0}
    return {"kind": "checkpoint_completed", "checkpoint": checkpoint}


def committed(name, length=9):
    return {"kind": "committed", "transaction": name, "length": length}


def killed(task, attempt):
    return {"kind": "subtask_failed", "task": task, "attempt": attempt, "cause": "killed", "injected": True}


def test_worker_attempts_are_recorded_as_the_attempt_of_the_job(job_under):
    job = job_under()
    job.write("part-0a1b2c3d-0-0-1.17.jsonl", ["ant", 1])
    job.add_process_log(
        attempt(),
        subtask("source-0", "1.16"),
        snapshot("chk-1/s", "1.16", {"a": 4, "b": 6}),
        subtask("sink-0", "1.17"),
        snapshot("chk-1/k", "1.17", transactions=["part-0a1b2c3d-0-0-1.17.jsonl"]),
        completed(1, "chk-1/s", "chk-1/k"),
        committed("part-0a1b2c3d-0-0-1.17.jsonl"),
    )
    [checkpoint] = job.payloads(CHECKPOINT_COMPLETED)
    assert (checkpoint["writers"], checkpoint["cut"]) == (("1.1",), {"a": 4, "b": 6})
    [visible] = job.payloads(TRANSACTION_VISIBLE)
    assert (visible["attempt"], visible["epoch"], visible["rows"]) == ("1.1", 0, [("ant", 1)])


def test_checkpoint_with_the_snapshot_of_a_killed_worker_is_foreign(job_under):
    job = job_under(Fault("kill_task", "uploaded"))
    job.add_process_log(
        attempt(),
        subtask("count-0", "1.5"),
        snapshot("chk-1/c5", "1.5"),
        {**STRUCK, "number": 0, "task": "count-0", "read": {}},
        killed("count-0", "1.5"),
        subtask("count-0", "1.8"),
        snapshot("chk-1/c8", "1.8"),
        completed(1, "chk-1/c5"),
        completed(2, "chk-1/c8"),
    )
    assert [payload["writers"] for payload in job.payloads(CHECKPOINT_COMPLETED)] == [
        ("1.5, killed",),
        ("1.1",),
    ]
    found = Fencing().check(None, job.history, None)
    assert [violation.anomaly for violation in found] == [FOREIGN_SNAPSHOT]
    # The history records the death for the attempt of the job, not for that of the worker.
    assert [payload["attempt"] for payload in job.payloads(TASK_FAILED)] == ["1.1"]


def test_driver_failure_does_not_kill_a_worker_with_the_same_attempt_name(job_under):
    job = job_under(Fault("fail_commit", "committing"))
    job.add_process_log(
        attempt("2.1"),
        {**STRUCK, "number": 0, "task": "sink-0", "read": {}},
        {**killed("sink-0", "2.1"), "kind": "task_failed"},
        attempt("2.2"),
        subtask("count-0", "2.1"),
        snapshot("chk-2/c", "2.1"),
        completed(2, "chk-2/c", attempt="2.2"),
    )
    assert [payload["attempt"] for payload in job.payloads(TASK_FAILED)] == ["2.1"]
    assert [payload["writers"] for payload in job.payloads(CHECKPOINT_COMPLETED)] == [("2.2",)]
    assert Fencing().check(None, job.history, None) == []


def test_snapshot_of_a_killed_worker_with_the_jobs_attempt_name_is_foreign(job_under):
    job = job_under(Fault("kill_task", "uploaded"))
    job.add_process_log(
        attempt("2.1"),
        subtask("count-0", "2.1"),
        snapshot("chk-1/c", "2.1"),
        {**STRUCK, "number": 0, "task": "count-0", "read": {}},
        killed("count-0", "2.1"),
        completed(1, "chk-1/c", attempt="2.1"),
    )
    assert [violation.anomaly for violation in Fencing().check(None, job.history, None)] == [FOREIGN_SNAPSHOT]


@pytest.mark.parametrize("kind", ["kill_task", "kill_all", "tear_write"])
def test_recovery_of_a_killed_worker_ends_when_its_task_starts_again(job_under, kind):
    job = job_under(Fault(kind, "snapshotted"))
    job.write("part-0a1b2c3d-0-1-1.9.jsonl", ["ant", 1])
    job.add_process_log(
        attempt(),
        snapshot("chk-1/s", "1.2", {"a": 3, "b": 5}),
        completed(1, "chk-1/s"),
        subtask("source-0", "1.5", restored=1),
        # The snapshot of the other subtask shows how many records that subtask has read.
        snapshot("chk-2/s1", "1.6", {"b": 9}),
        {**STRUCK, "number": 0, "task": "source-0", "read": {"a": 7}},
        killed("source-0", "1.5"),
        subtask("source-0", "1.8", restored=1),
        committed("part-0a1b2c3d-0-1-1.9.jsonl"),
    )
    [recovery] = job.history.statistics.recoveries
    assert (recovery.position, recovery.restored, recovery.replayed) == (16, 1, 4)
    assert (recovery.parallelism_before, recovery.parallelism_after) == (2, 2)
    assert recovery.seconds == 3.0
    assert job.history.statistics.records_replayed == 4
    assert job.history.statistics.attempts == 1
    assert not job.builder.run.death_was_planned


def test_start_of_another_task_does_not_end_a_recovery(job_under):
    job = job_under(Fault("kill_task", "element"))
    job.add_process_log(
        attempt(),
        {**STRUCK, "number": 0, "task": "count-0", "read": {}},
        killed("count-0", "1.5"),
        subtask("count-1", "1.6"),
    )
    [recovery] = job.history.statistics.recoveries
    assert recovery.parallelism_after == 0


@pytest.mark.parametrize(
    "fault", [Fault("kill_process", "aligned"), Fault("tear_write", "metadata_written")], ids=str
)
def test_driver_death_replays_all_records_read_since_the_checkpoint(job_under, fault):
    job = job_under(fault)
    job.add_process_log(
        attempt(),
        snapshot("chk-1/s", "1.2", {"a": 3, "b": 5}),
        completed(1, "chk-1/s"),
        snapshot("chk-2/s1", "1.6", {"b": 9}),
        {**STRUCK, "number": 0, "task": "source-0", "read": {"a": 7}},
    )
    assert job.builder.run.death_was_planned
    job.builder.run.killed(6 * SECOND)
    assert len(job.payloads(FAULT_FIRED)) == 1
    job.add_process_log(
        {"kind": "process_started", "incarnation": 2, "found": []}, attempt("2.1", restored=1)
    )
    [recovery] = job.history.statistics.recoveries
    assert (recovery.position, recovery.restored, recovery.replayed) == (16, 1, 8)
    # The new attempt has read nothing beyond the offsets of its checkpoint.
    assert job.builder.position({}) == 8
