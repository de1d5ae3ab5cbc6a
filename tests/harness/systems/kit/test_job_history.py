"""The history built from the event logs of the processes and the files that they left."""

from __future__ import annotations

import json
import sqlite3

import pytest

from onceproof.engine.connectors.sqlite import SqliteUpsertFunction
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    FAULT_FIRED,
    LEAK,
    ROWS_WRITTEN,
    TASK_FAILED,
    TRANSACTION_HIDDEN,
    TRANSACTION_VISIBLE,
)
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.kit.job_history import JobHistory
from onceproof.harness.systems.kit.run_history import OUTSIDE
from onceproof.harness.systems.process.database_io import (
    Database,
    batch_name,
    database_of,
    transaction_name,
)
from onceproof.harness.systems.process.visible_outputs import read_json_rows
from onceproof.harness.systems.recording.event_log import EventLog, read_events
from tests.lone_context import lone_context

SECOND = 1_000_000_000


class Folder:
    """The folders of a job, and the builder of its history."""

    def __init__(self, path, *faults):
        self.output = path / "output"
        self.output.mkdir()
        self.checkpoints = path / "checkpoints"
        self.checkpoints.mkdir()
        self.builder = JobHistory(
            faults, {"a": 10, "b": 20}, self.output, ".jsonl", read_json_rows, parallelism=2
        )
        self.history = self.builder.run.history

    def write(self, name, *rows):
        (self.output / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def events(self, kind):
        return [event for event in self.history.events if event[1] == kind]


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def attempt(name="1.1", restored=None, parallelism=2, at=0):
    return {
        "at": at,
        "kind": "attempt_started",
        "attempt": name,
        "parallelism": parallelism,
        "restored": restored,
    }


def snapshot(path, cut=None, transactions=(), attempt="1.1"):
    return {
        "at": 0,
        "kind": "snapshot_taken",
        "path": path,
        "attempt": attempt,
        "cut": cut or {},
        "transactions": list(transactions),
    }


def completed(number, *paths, attempt="1.1"):
    checkpoint = {"id": number, "attempt": attempt, "paths": list(paths), "in_flight": 0}
    return {"at": 0, "kind": "checkpoint_completed", "checkpoint": checkpoint}


def started(*found):
    return {
        "at": 0,
        "kind": "process_started",
        "incarnation": 1,
        "found": [each["checkpoint"] for each in found],
    }


def committed(name, length=9, at=0):
    return {"at": at, "kind": "committed", "transaction": name, "length": length}


def test_history_has_the_logged_events_with_the_rows_of_their_files(folder):
    folder.write("part-0a1b2c3d-0-0-1.1.jsonl", ["ant", 1], ["bee", [1, 2]])
    name, empty = "part-0a1b2c3d-0-0-1.1.jsonl", "part-0a1b2c3d-1-0-1.1.jsonl"
    folder.builder.add_process_log(
        [
            started(),
            attempt(),
            snapshot("chk-1/a", {"a": 4}),
            snapshot("chk-1/b", {}, [name, empty]),
            completed(1, "chk-1/a", "chk-1/b"),
            committed(name),
            committed(empty, length=0),
        ]
    )
    [(_, _, number, checkpoint)] = folder.events(CHECKPOINT_COMPLETED)
    assert number == 1
    # The source of split b had finished before the checkpoint.
    assert checkpoint == {
        "attempt": "1.1",
        "cut": {"a": 4, "b": 20},
        "transactions": (name, empty),
        "writers": ("1.1",),
        "in_flight": 0,
    }
    assert [(subject, payload) for _, _, subject, payload in folder.events(TRANSACTION_VISIBLE)] == [
        (name, {"subtask": 0, "attempt": "1.1", "epoch": 0, "rows": [("ant", 1), ("bee", (1, 2))]}),
        (empty, {"subtask": 1, "attempt": "1.1", "epoch": 0, "rows": []}),
    ]


def test_unlogged_file_is_visible_at_the_latest_when_its_process_dies(folder):
    folder.write("part-0a1b2c3d-3-7-2.1.jsonl", ["ant", 1])
    folder.write(".part-0a1b2c3d-3-8-2.1.jsonl.inprogress", ["bee", 1])
    folder.builder.add_process_log([attempt("2.1")])
    [(step, _, name, payload)] = folder.events(TRANSACTION_VISIBLE)
    assert (step, name) == (2, "part-0a1b2c3d-3-7-2.1.jsonl")
    assert (payload["subtask"], payload["epoch"], payload["attempt"]) == (3, 7, "2.1")


def test_logged_and_unlogged_transactions_become_visible_in_commit_order(folder):
    database = Database(database_of(folder.output))
    logged, unlogged = transaction_name(1, 7, "2.1", "us"), batch_name("us", 0, 8, "2.1")
    for name in (logged, transaction_name(0, 7, "2.1", "us")):
        database.prepare(name, [["ant", 1]])
    database.commit(logged)
    database.take(unlogged, [["bee", [2, 3]]])
    folder.builder.add_process_log([attempt("2.1"), committed(logged, length=1)])
    assert [(subject, payload) for _, _, subject, payload in folder.events(TRANSACTION_VISIBLE)] == [
        (logged, {"subtask": 1, "attempt": "2.1", "epoch": 7, "rows": [("ant", 1)]}),
        (unlogged, {"subtask": 0, "attempt": "2.1", "epoch": 8, "rows": [("bee", (2, 3))], "waits": True}),
    ]
    folder.builder.at_rest(folder.checkpoints)
    [(_, _, kind, payload)] = folder.events(LEAK)
    assert (kind, payload["name"]) == ("open transaction", transaction_name(0, 7, "2.1", "us"))


def test_rows_deleted_from_the_database_are_recorded_as_hidden(folder):
    database = Database(database_of(folder.output))
    name = transaction_name(1, 7, "2.1", "us")
    database.prepare(name, [["ant", 1]])
    database.commit(name)
    folder.builder.add_process_log([attempt("2.1"), committed(name, length=1)])
    with sqlite3.connect(database.path) as connection:
        connection.execute("DELETE FROM onceproof_transactions")
    connection.close()
    folder.builder.add_process_log([attempt("3.1")])
    assert [subject for _, _, subject, _ in folder.events(TRANSACTION_HIDDEN)] == [name]


def test_unlogged_table_row_is_recorded_as_the_last_write(folder):
    sink = SqliteUpsertFunction(str(database_of(folder.output)), "counts", ("word", "count"), 1, 5)
    sink.open(lone_context())
    sink.upsert({"ant": ("ant", 1), "bee": ("bee", 1)})
    sink.upsert({"ant": ("ant", 2)})
    sink.close()
    written = {"at": 5, "kind": "rows_written", "task": "sink-1", "attempt": "1.1", "keys": 1}
    folder.builder.add_process_log([attempt(), {**written, "rows": [["ant", 1], ["bee", 1]]}])
    assert [(subject, payload["rows"]) for _, _, subject, payload in folder.events(ROWS_WRITTEN)] == [
        ("sink-1", [("ant", 1), ("bee", 1)]),
        ("sink", [("ant", 2)]),
    ]


def test_repeated_commit_makes_a_transaction_visible_once(folder):
    folder.write("part-0a1b2c3d-0-0-1.1.jsonl", ["ant", 1])
    folder.builder.add_process_log([attempt(), committed("part-0a1b2c3d-0-0-1.1.jsonl")])
    folder.builder.add_process_log([attempt("2.1"), committed("part-0a1b2c3d-0-0-1.1.jsonl")])
    assert len(folder.events(TRANSACTION_VISIBLE)) == 1


@pytest.mark.parametrize("change", ["deleted", "replaced", "longer"])
def test_changed_rows_of_a_visible_file_are_recorded_as_hidden(folder, change):
    path = folder.output / "part-0a1b2c3d-0-0-1.1.jsonl"
    folder.write(path.name, ["ant", 1])
    folder.builder.add_process_log([attempt(), committed(path.name)])
    if change == "deleted":
        path.unlink()
    elif change == "replaced":
        path.rename(folder.output / ".aside")
        folder.write(path.name, ["bee", 1])
    else:
        folder.write(path.name, ["ant", 1], ["ant", 2])
    folder.builder.add_process_log([attempt("2.1")])
    folder.builder.add_process_log([attempt("3.1")])
    assert [subject for _, _, subject, _ in folder.events(TRANSACTION_HIDDEN)] == [path.name]


def test_committed_file_that_is_missing_is_recorded_as_hidden(folder):
    folder.builder.add_process_log([attempt(), committed("part-0a1b2c3d-0-0-1.1.jsonl")])
    assert len(folder.events(TRANSACTION_HIDDEN)) == 1


def test_checkpoint_completes_once_whether_logged_or_found_at_a_restart(folder):
    logged, unlogged = completed(1, "chk-1/a"), completed(2, "chk-2/a")
    folder.builder.add_process_log(
        [started(), attempt(), snapshot("chk-1/a", {"a": 1}), logged, snapshot("chk-2/a", {"a": 2})]
    )
    folder.builder.add_process_log([started(logged, unlogged), attempt("2.1", restored=2)])
    found = folder.events(CHECKPOINT_COMPLETED)
    assert [(number, payload["cut"]["a"]) for _, _, number, payload in found] == [(1, 1), (2, 2)]
    assert found[1][0] < folder.events(ATTEMPT_STARTED)[1][0]


def test_kill_with_a_rescale_is_recorded_with_its_recovery(tmp_path):
    folder = Folder(tmp_path, Fault("kill_process", "committing", rescale_to=3))
    struck = {
        "at": 5 * SECOND,
        "kind": "fault_struck",
        "number": 0,
        "task": "sink-0",
        "waiting": {"left": [0], "striking": []},
        "points": {"element": 7},
        "read": {"a": 5, "b": 6},
    }
    folder.builder.add_process_log(
        [attempt(), snapshot("chk-1/a", {"a": 3, "b": 6}), completed(1, "chk-1/a"), struck]
    )
    folder.builder.run.killed(6 * SECOND)
    assert folder.builder.run.next_parallelism == 3
    folder.write("part-0a1b2c3d-0-0-1.1.jsonl", ["ant", 1])
    folder.write("part-0a1b2c3d-0-1-2.1.jsonl", ["ant", 2])
    folder.builder.add_process_log(
        [
            attempt("2.1", restored=1, parallelism=3),
            committed("part-0a1b2c3d-1-0-1.1.jsonl", length=0, at=7 * SECOND),
            committed("part-0a1b2c3d-0-0-1.1.jsonl", at=8 * SECOND),
            committed("part-0a1b2c3d-0-1-2.1.jsonl", at=9 * SECOND),
            {"at": 9 * SECOND, "kind": "job_finished", "points": {"element": 2}},
        ]
    )
    [recovery] = folder.history.statistics.recoveries
    assert (recovery.point, recovery.task, recovery.position) == ("committing", "sink-0", 11)
    assert (recovery.restored, recovery.replayed, recovery.seconds) == (1, 2, 3.0)
    assert (recovery.parallelism_before, recovery.parallelism_after) == (2, 3)
    statistics = folder.history.statistics
    assert statistics.coverage == {("kill_process", "committing"): 1}
    assert statistics.points == {"element": 9}
    assert (statistics.attempts, statistics.records_replayed) == (2, 2)
    assert [payload["injected"] for _, _, _, payload in folder.events(TASK_FAILED)] == [True]
    assert folder.builder.run.is_over


def test_commit_by_a_dying_attempt_does_not_end_its_recovery(tmp_path):
    folder = Folder(tmp_path, Fault("kill_task", "restoring"))
    struck = {
        "at": 0,
        "kind": "fault_struck",
        "number": 0,
        "task": "count-0",
        "waiting": {"left": [0], "striking": []},
        "points": {},
        "read": {},
    }
    folder.write("part-0a1b2c3d-0-0-1.1.jsonl", ["ant", 1])
    folder.write("part-0a1b2c3d-0-1-1.2.jsonl", ["ant", 2])
    folder.builder.add_process_log(
        [
            attempt("1.1"),
            struck,
            committed("part-0a1b2c3d-0-0-1.1.jsonl", at=SECOND),
            attempt("1.2"),
            committed("part-0a1b2c3d-0-1-1.2.jsonl", at=2 * SECOND),
        ]
    )
    assert [recovery.seconds for recovery in folder.history.statistics.recoveries] == [2.0]


def test_kill_from_outside_is_recorded_as_a_fault(folder):
    folder.builder.add_process_log([attempt()])
    folder.builder.run.killed(SECOND)
    [(_, _, kind, payload)] = folder.events(FAULT_FIRED)
    assert (kind, payload["point"]) == ("kill_process", OUTSIDE)


def test_files_left_at_the_end_are_recorded_as_leaks(folder):
    folder.write(".part-0a1b2c3d-0-1-1.1.jsonl.inprogress", ["ant", 1])
    directory = folder.checkpoints / "0123"
    (directory / "chk-4").mkdir(parents=True)
    (directory / "chk-4" / ".0-1.unpublished").touch()
    (directory / "incarnation-3").touch()
    (directory / "finished").touch()
    folder.builder.at_rest(folder.checkpoints)
    assert {(kind, payload["name"]) for _, _, kind, payload in folder.events(LEAK)} == {
        ("open transaction", ".part-0a1b2c3d-0-1-1.1.jsonl.inprogress"),
        ("orphan file", "0123/chk-4"),
        ("orphan file", "0123/chk-4/.0-1.unpublished"),
    }


def test_torn_last_line_of_an_event_log_is_ignored(tmp_path):
    path = tmp_path / "events"
    log = EventLog(str(path))
    log.write("committed", transaction="x", length=3)
    log.write("committed", transaction="y", length=3)
    path.write_bytes(path.read_bytes()[:-5])
    assert [event["transaction"] for event in read_events(path)] == ["x"]
    assert read_events(tmp_path / "none") == []
