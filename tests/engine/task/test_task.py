"""A task between its begin and its end: restoring, records, checkpoints."""

from __future__ import annotations

import pytest

from onceproof.engine.elements import CancelCheckpointMarker
from onceproof.engine.messages import AttemptId, Send, TaskId, TaskRunning
from onceproof.engine.task.events import (
    CANCEL,
    DiscardSnapshot,
    Restore,
    RestoredOperator,
    SnapshotFailed,
    SnapshotStored,
    StoreSnapshot,
)
from onceproof.engine.task.task import TaskState

TASK = TaskId(0, 1)
ATTEMPT = AttemptId("3.2")


# Restoring.


def test_operators_are_opened_from_the_tail_to_the_head_and_then_the_task_runs(bench):
    head, tail = bench.recorder("head"), bench.recorder("tail")
    task = bench.task(head, tail, channels=[0], running=False)
    nodes = task.vertex.operators
    restored = {nodes[1].operator_id: RestoredOperator({"count": 1}, {"list": 2})}
    assert task.handle(Restore(7, restored), 5) == [Send(TaskRunning(ATTEMPT, TASK))]
    assert bench.calls == [("open", "tail"), ("open", "head")]
    assert bench.points == [("restoring", "work-1", 7), ("restored", "work-1", 7)]
    assert task.state is TaskState.RUNNING
    assert (tail.context.keyed, tail.context.operator) == ({"count": 1}, {"list": 2})
    assert (head.context.keyed, head.context.operator) == (None, None)
    for operator in (head, tail):
        assert operator.context.restored_checkpoint_id == 7
        assert operator.context.attempt == ATTEMPT
        assert operator.context.key_groups == (4, 7)
        assert operator.context.clock() == 5
    tail.context.probe("committing", 6)
    assert bench.points[-1] == ("committing", "work-1", 6)
    task.handle(bench.aborted(9), 8)
    assert tail.context.clock() == 8, "the time is that of the event in hand"


def test_a_task_is_restored_only_once(bench):
    task = bench.task(bench.recorder("op"), channels=[0])
    with pytest.raises(AssertionError, match="restored twice"):
        task.handle(Restore(None, {}), 0)


def test_a_task_that_is_not_restored_ignores_the_job_master(bench):
    task = bench.task(bench.recorder("op"), channels=[], running=False)
    for message in (bench.trigger(1), bench.complete(1), bench.aborted(1)):
        assert list(task.handle(message, 0)) == []
    task.handle(CANCEL, 0)
    assert bench.calls == []


# Records.


def test_records_go_through_the_chain_and_to_every_output(bench):
    head, tail = bench.recorder("head", keeps=lambda value: value != "b"), bench.recorder("tail")
    task = bench.task(head, tail, channels=[0, 1], outputs=2)
    assert bench.feed(task, 1, [("a", 1), ("b", 2), ("c", 3)]) == []
    assert bench.calls == [
        ("process", "head", 1, "a", "b", "c"),
        ("process", "tail", 1, "a", "c"),
        ("send", "a", "c"),
        ("send", "a", "c"),
    ]
    assert list(bench.sent[0]) == [[("a", 1), ("c", 3)]]


def test_a_chain_stops_where_nothing_is_left(bench):
    head, tail = bench.recorder("head", keeps=lambda value: False), bench.recorder("tail")
    task = bench.task(head, tail, channels=[0])
    bench.feed(task, 0, [("a", 1)])
    assert bench.calls == [("process", "head", 0, "a")]


def test_what_the_users_code_raises_passes(bench):
    task = bench.task(bench.recorder("op", raises_in="process"), channels=[0])
    with pytest.raises(RuntimeError, match="process of op"):
        bench.feed(task, 0, [("a", 1)])


def test_a_source_reads_a_buffer_at_each_poll(bench):
    task = bench.task(bench.source("abc"), bench.recorder("next"))
    bench.poll(task, 2)
    assert bench.take_calls() == [
        ("process", "next", 0, "a"),
        ("send", "a"),
        ("process", "next", 0, "b"),
        ("send", "b"),
    ]
    assert task.is_source
    assert task.records_read == 2


# Checkpoints.


def test_checkpoint_is_prepared_head_first_and_snapshotted_tail_first(bench):
    head = bench.recorder("head", before_barrier=["last words"])
    middle = bench.recorder("middle", stateful=False)
    tail = bench.recorder("tail", before_barrier=["amen"])
    task = bench.task(head, middle, tail, channels=[0], outputs=2)
    effects = bench.feed(task, 0, bench.barrier(5))
    assert bench.calls == [
        ("prepare", "head", 5),
        ("process", "middle", 0, "last words"),
        ("process", "tail", 0, "last words"),
        ("send", "last words"),
        ("send", "last words"),
        ("prepare", "middle", 5),
        ("prepare", "tail", 5),
        ("send", "amen"),
        ("send", "amen"),
        ("send", bench.barrier(5)),
        ("send", bench.barrier(5)),
        ("snapshot", "tail", 5),
        ("snapshot", "middle", 5),
        ("snapshot", "head", 5),
    ]
    (store,) = effects
    assert isinstance(store, StoreSnapshot)
    nodes = task.vertex.operators
    assert list(store.snapshot.operators) == [nodes[2].operator_id, nodes[0].operator_id]
    assert [point for point, _, _ in bench.points] == ["barrier_received", "aligned", "snapshotted"]


def test_the_task_acknowledges_only_what_is_durable(bench):
    task = bench.task(bench.recorder("op"), channels=[0])
    (store,) = bench.feed(task, 0, bench.barrier(5), [("a", 1)])
    assert isinstance(store, StoreSnapshot)
    assert list(task.handle(SnapshotStored(5, "file"), 0)) == [bench.acknowledgement(5, "file")]
    assert [point for point, _, _ in bench.points][-2:] == ["uploaded", "acknowledged"]


def test_a_task_without_state_has_nothing_to_wait_for(bench):
    task = bench.task(bench.recorder("op", stateful=False), channels=[0])
    assert bench.feed(task, 0, bench.barrier(5)) == [bench.acknowledgement(5, None)]


def test_the_path_of_a_snapshot_belongs_to_one_subtask_of_one_attempt(bench):
    task = bench.task(bench.recorder("op"), channels=[0])
    (store,) = bench.feed(task, 0, bench.barrier(5))
    assert store.path == "chk-5/000000000000-1-3.2"


def test_a_snapshot_that_is_late_for_its_aborted_checkpoint_is_discarded(bench):
    task = bench.task(bench.recorder("op"), channels=[0])
    bench.feed(task, 0, bench.barrier(5))
    assert list(task.handle(bench.aborted(5), 0)) == []
    assert bench.calls[-1] == ("aborted", "op", 5)
    assert list(task.handle(SnapshotStored(5, "file"), 0)) == [DiscardSnapshot("file")]


def test_snapshot_that_cannot_be_stored_declines_and_the_task_lives_on(bench):
    task = bench.task(bench.recorder("op"), channels=[0])
    bench.feed(task, 0, bench.barrier(5))
    assert list(task.handle(SnapshotFailed(5, "disk full"), 0)) == [bench.decline(5, "disk full")]
    (store,) = bench.feed(task, 0, bench.barrier(6))
    assert store.checkpoint_id == 6


def test_a_failed_write_of_an_aborted_checkpoint_is_no_news(bench):
    task = bench.task(bench.recorder("op"), channels=[0])
    bench.feed(task, 0, bench.barrier(5))
    task.handle(bench.aborted(5), 0)
    assert list(task.handle(SnapshotFailed(5, "disk full"), 0)) == []


def test_two_checkpoints_under_way_are_answered_each_for_itself(bench):
    task = bench.task(bench.recorder("op"), channels=[0])
    bench.feed(task, 0, bench.barrier(5), bench.barrier(6))
    assert list(task.handle(SnapshotStored(6, "six"), 0)) == [bench.acknowledgement(6, "six")]
    assert list(task.handle(SnapshotStored(5, "five"), 0)) == [bench.acknowledgement(5, "five")]


def test_an_abort_notice_before_the_barrier_makes_the_task_pass_on_a_cancel_marker(bench):
    task = bench.task(bench.recorder("op"), channels=[0], outputs=2)
    task.handle(bench.aborted(5), 0)
    bench.take_calls()
    effects = bench.feed(task, 0, bench.barrier(5))
    assert effects == [bench.decline(5, "CHECKPOINT_DECLINED")]
    assert bench.take_calls() == [("send", CancelCheckpointMarker(5))] * 2
    (store,) = bench.feed(task, 0, bench.barrier(6))
    assert store.checkpoint_id == 6


def test_an_abort_notice_during_the_alignment_counts_too_and_unblocks(bench):
    task = bench.task(bench.recorder("op"), channels=[0, 0])
    bench.feed(task, 0, bench.barrier(5), [("a", 1)])
    task.handle(bench.aborted(5), 0)
    bench.take_calls()
    assert bench.feed(task, 1, bench.barrier(5)) == [bench.decline(5, "CHECKPOINT_DECLINED")]
    assert bench.take_calls() == [
        ("send", CancelCheckpointMarker(5)),
        ("process", "op", 0, "a"),
        ("send", "a"),
    ]


def test_sixteen_abort_notices_are_remembered(bench):
    task = bench.task(bench.recorder("op"), channels=[0])
    for checkpoint_id in range(1, 18):
        task.handle(bench.aborted(checkpoint_id), 0)
    assert isinstance(bench.feed(task, 0, bench.barrier(1))[0], StoreSnapshot)
    assert bench.feed(task, 0, bench.barrier(2)) == [bench.decline(2, "CHECKPOINT_DECLINED")]


def test_a_cancel_marker_is_passed_on_and_reported(bench):
    task = bench.task(bench.recorder("op"), channels=[0, 0])
    bench.feed(task, 0, bench.barrier(5), [("a", 1)])
    effects = bench.feed(task, 1, CancelCheckpointMarker(5))
    assert effects == [bench.decline(5, "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER")]
    assert bench.calls == [("send", CancelCheckpointMarker(5)), ("process", "op", 0, "a"), ("send", "a")]


def test_a_newer_barrier_declines_the_older_checkpoint(bench):
    task = bench.task(bench.recorder("op", stateful=False), channels=[0, 0])
    bench.feed(task, 0, bench.barrier(5), bench.barrier(6))
    effects = bench.feed(task, 1, bench.barrier(6))
    assert effects == [bench.decline(5, "CHECKPOINT_DECLINED_SUBSUMED"), bench.acknowledgement(6, None)]
    assert [call for call in bench.calls if call[0] == "send"] == [
        ("send", CancelCheckpointMarker(5)),
        ("send", bench.barrier(6)),
    ]


def test_records_behind_a_barrier_wait_for_the_other_channels(bench):
    task = bench.task(bench.recorder("op"), channels=[0, 0])
    bench.feed(task, 0, [("before", 1)], bench.barrier(5), [("after", 2)])
    bench.feed(task, 1, [("other", 3)])
    bench.feed(task, 1, bench.barrier(5))
    names = [call[-1] for call in bench.calls if call[0] in ("process", "snapshot")]
    assert names == ["before", "other", 5, "after"]


def test_a_failing_snapshot_fails_the_task(bench):
    task = bench.task(bench.recorder("op", raises_in="snapshot"), channels=[0])
    with pytest.raises(RuntimeError, match="snapshot of op"):
        bench.feed(task, 0, bench.barrier(5))
