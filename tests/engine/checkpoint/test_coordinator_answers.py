"""From acknowledgements to completion: which count, when a checkpoint completes, whom it notifies."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointPlan,
    DiscardCheckpoint,
    DiscardHandle,
    StoreMetadata,
    TooManyFailures,
)
from onceproof.engine.checkpoint.failure_counter import FAILOVER, SUBSUMED
from onceproof.engine.checkpoint.metadata import StateHandle
from onceproof.engine.checkpoint.pending import PendingCheckpoint
from onceproof.engine.messages import (
    AcknowledgeCheckpoint,
    TaskId,
)
from onceproof.engine.state.stored import SPLIT_DISTRIBUTE, UNION, SnapshotIndex

FIRST, SECOND, SINK = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)


# Acknowledgements.


def test_metadata_is_written_when_the_last_task_has_acknowledged(bench):
    bench.now = 40
    bench.request()
    assert bench.acknowledge(FIRST, 1) == []
    assert bench.acknowledge(SINK, 1) == []
    (store,) = bench.acknowledge(SECOND, 1, finished=True)
    assert isinstance(store, StoreMetadata)
    metadata = store.metadata
    assert (metadata.checkpoint_id, metadata.timestamp, metadata.attempt) == (1, 40, "1.1")
    assert (metadata.job_id, metadata.job_name, metadata.kind) == ("job", "words", "checkpoint")
    assert [operator.operator_id for operator in metadata.operators] == [
        "id of read",
        "id of map",
        "id of write",
    ]
    read, mapped, written = metadata.operators
    assert [state.handle for state in read.subtasks] == [bench.file(FIRST, 1), bench.file(SECOND, 1)]
    assert [state.finished for state in read.subtasks] == [False, True]
    assert mapped.subtasks == written.subtasks
    assert (read.parallelism, read.max_parallelism, written.parallelism) == (2, 128, 1)
    assert bench.store.latest is None, "nothing is complete before its metadata is durable"


def test_repeated_acknowledgement_neither_counts_nor_loses_its_file(bench):
    bench.request()
    bench.acknowledge(FIRST, 1)
    assert bench.acknowledge(FIRST, 1, finished=True) == []
    assert list(bench.coordinator.pending[1].missing) == [SECOND, SINK]
    assert bench.acknowledge(SINK, 1) == []
    (store,) = bench.acknowledge(SECOND, 1)
    assert not store.metadata.operators[0].subtasks[0].finished, "the first answer counts"
    assert bench.acknowledge(SECOND, 1) == []
    bench.stored(1)
    assert bench.acknowledge(FIRST, 1) == [], "a retained checkpoint uses the file"


@pytest.mark.parametrize(
    ("state", "task", "checkpoint_id", "attempt"),
    [
        ("pending", FIRST, 7, ""),
        ("pending", FIRST, 1, "0.9"),
        ("pending", TaskId(9, 0), 1, ""),
        ("declined", FIRST, 1, ""),
        ("complete", FIRST, 1, "0.9"),
    ],
)
def test_acknowledgement_that_is_not_awaited_is_discarded(bench, state, task, checkpoint_id, attempt):
    bench.request()
    if state == "declined":
        bench.decline(SECOND, 1)
    elif state == "complete":
        bench.complete(1)
    assert bench.acknowledge(task, checkpoint_id, attempt) == [DiscardHandle(bench.file(task, checkpoint_id))]
    if state == "pending":
        assert list(bench.coordinator.pending[1].missing) == [FIRST, SECOND, SINK], "it does not count"


def test_acknowledgement_without_a_file_leaves_nothing_to_discard(bench):
    message = AcknowledgeCheckpoint(bench.attempt, FIRST, 7, None, False)
    assert bench.handle(message) == []


@pytest.mark.parametrize(
    ("tasks", "finished", "message"),
    [
        ([FIRST], [], "checkpoint 3 lacks 1 answers"),
        ([], [FIRST], "checkpoint 3 has no state of TaskId"),
    ],
)
def test_metadata_without_all_answers_is_refused(bench, tasks, finished, message):
    pending = PendingCheckpoint(3, 40, bench.attempt, tasks, finished)
    with pytest.raises(AssertionError, match=message):
        pending.metadata(CheckpointPlan(bench.attempt, bench.vertices, {}), "job", "words")


# Completion.


def test_checkpoint_completes_with_durable_metadata_and_then_notifies_all_tasks(bench):
    bench.request()
    bench.acknowledge_all(1)
    effects = bench.stored(1)
    assert effects[0] == CheckpointCompleted(1)
    assert bench.sent(effects) == bench.to_all_tasks("complete", 1)
    assert bench.store.latest.checkpoint_id == 1
    assert bench.coordinator.pending == {}


def test_oldest_beyond_the_retained_ones_are_deleted_after_the_completion(bench_with):
    bench = bench_with(num_retained=2)
    bench.start()
    discarded = []
    for checkpoint_id in (1, 2, 3, 4):
        bench.request()
        effects = bench.complete(checkpoint_id)
        discarded.append([each for each in effects if isinstance(each, DiscardCheckpoint)])
        assert effects.index(CheckpointCompleted(checkpoint_id)) == 0
    assert discarded == [[], [], [DiscardCheckpoint(1)], [DiscardCheckpoint(2)]]
    assert [each.checkpoint_id for each in bench.store.retained] == [3, 4]


def test_a_completed_checkpoint_ends_the_older_ones_and_they_are_no_failures(bench_with):
    bench = bench_with(max_concurrent=3)
    bench.start()
    for _ in range(3):
        bench.request()
    effects = bench.complete(2)
    assert bench.sent(effects) == bench.to_all_tasks("aborted", 1) + bench.to_all_tasks("complete", 2)
    assert CheckpointAborted(1, SUBSUMED) in effects
    assert DiscardCheckpoint(1) in effects
    assert list(bench.coordinator.pending) == [3]
    assert bench.acknowledge(FIRST, 1) == [DiscardHandle(bench.file(FIRST, 1))]


def test_the_metadata_of_one_checkpoint_is_written_at_a_time(bench_with):
    bench = bench_with(max_concurrent=4)
    bench.start()
    for _ in range(4):
        bench.request()
    assert bench.written(bench.acknowledge_all(2)) == [2]
    for checkpoint_id in (1, 4, 3):
        assert bench.written(bench.acknowledge_all(checkpoint_id)) == []
    assert list(bench.coordinator.pending) == [1, 2, 3, 4]
    effects = bench.stored(2)
    assert bench.written(effects) == [3], "the oldest of those that can still complete"
    assert CheckpointAborted(1, SUBSUMED) in effects
    assert bench.written(bench.stored(3)) == [4]
    assert bench.written(bench.stored(4)) == []


def test_where_metadata_cannot_be_written_the_next_checkpoint_has_its_turn(bench_with):
    bench = bench_with(max_concurrent=2, tolerable_failures=1)
    bench.start()
    for checkpoint_id in (1, 2):
        bench.request()
        bench.acknowledge_all(checkpoint_id)
    assert bench.written(bench.not_stored(1)) == [2]


def test_a_checkpoint_that_waits_for_the_write_of_another_ends_with_the_attempt(bench_with):
    bench = bench_with(max_concurrent=2)
    bench.start()
    for checkpoint_id in (1, 2):
        bench.request()
        bench.acknowledge_all(checkpoint_id)
    assert bench.end() == [CheckpointAborted(2, FAILOVER), DiscardCheckpoint(2)]
    assert bench.written(bench.stored(1)) == []
    assert bench.store.latest.checkpoint_id == 1


# Union state of tasks that have finished.


def acknowledge_with(bench, task, checkpoint_id, mode, finished=False):
    handle = StateHandle("path", 1, "", {"id of read": SnapshotIndex({}, {"all": (mode, 1)})})
    return bench.handle(AcknowledgeCheckpoint(bench.attempt, task, checkpoint_id, handle, finished))


@pytest.mark.parametrize("mode", [SPLIT_DISTRIBUTE, UNION])
def test_union_state_of_a_partly_finished_operator_would_be_restored_with_holes(bench, mode):
    bench.finish(FIRST)
    bench.request()
    acknowledge_with(bench, SECOND, 1, mode)
    effects = bench.acknowledge(SINK, 1)
    if mode == UNION:
        assert "operator 'read' keeps union list state" in effects[0].reason
        assert not any(isinstance(each, TooManyFailures) for each in effects), "it says nothing of the job"
        assert bench.sent(effects) == [("aborted", SECOND, 1), ("aborted", SINK, 1)]
        assert bench.coordinator.pending == {}
    else:
        assert isinstance(effects[0], StoreMetadata)


@pytest.mark.parametrize("mode", [SPLIT_DISTRIBUTE, UNION])
def test_subtasks_with_union_state_end_with_one_checkpoint(bench, mode):
    bench.request()
    acknowledge_with(bench, FIRST, 1, mode, finished=True)
    acknowledge_with(bench, SECOND, 1, mode)
    effects = bench.acknowledge(SINK, 1)
    if mode == SPLIT_DISTRIBUTE:
        assert isinstance(effects[0], StoreMetadata)
        return
    assert "some of its subtasks have ended" in effects[0].reason
    bench.request()
    for task in (FIRST, SECOND):
        acknowledge_with(bench, task, 2, mode, finished=True)
    assert isinstance(bench.acknowledge(SINK, 2)[0], StoreMetadata)


def test_the_last_completion_is_repeated_where_union_state_needs_it(bench):
    bench.request()
    for task in (FIRST, SECOND):
        acknowledge_with(bench, task, 1, UNION, finished=True)
    bench.acknowledge(SINK, 1)
    bench.stored(1)
    bench.finish(FIRST)
    for again in (2, 3):
        bench.request()
        acknowledge_with(bench, SECOND, again, UNION, finished=True)
        repeated = bench.sent(bench.acknowledge(SINK, again))[-2:]
        assert repeated == [("complete", SECOND, 1), ("complete", SINK, 1)]


def test_the_completion_of_an_earlier_attempt_is_not_repeated(bench):
    bench.request()
    bench.complete(1)
    bench.end()
    bench.start("1.2")
    bench.finish(FIRST)
    bench.request()
    acknowledge_with(bench, SECOND, 2, UNION, finished=True)
    effects = bench.acknowledge(SINK, 2)
    assert bench.sent(effects) == [("aborted", SECOND, 2), ("aborted", SINK, 2)]


@pytest.mark.parametrize("sink_has_finished", [False, True])
def test_union_state_is_whole_while_every_subtask_lives(bench, sink_has_finished):
    if sink_has_finished:
        bench.finish(SINK)
    bench.request()
    effects = [effect for task in (FIRST, SECOND) for effect in acknowledge_with(bench, task, 1, UNION)]
    if not sink_has_finished:
        effects = bench.acknowledge(SINK, 1)
    assert isinstance(effects[0], StoreMetadata)
