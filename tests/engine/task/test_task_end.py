"""The end of a task: by its data and the checkpoint taken afterwards, or by cancellation."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from onceproof.engine.elements import END_OF_DATA, END_OF_PARTITION, MAX_WATERMARK
from onceproof.engine.messages import SAVEPOINT, SYNC_SAVEPOINT, AttemptId, Send, TaskFinished, TaskId
from onceproof.engine.task.events import CANCEL, Deliver, SnapshotStored, StoreSnapshot
from onceproof.engine.task.task import TaskState

FINISHED = Send(TaskFinished(AttemptId("3.2"), TaskId(0, 1)))


def ended(bench, *operators, **how):
    """A source that has read everything."""
    task = bench.task(bench.source(""), *operators, **how)
    bench.poll(task)
    return task


# The end of the data.


def test_at_the_end_of_its_split_a_source_finishes_its_chain_and_says_so(bench):
    head, tail = bench.recorder("head", at_end=["rest"]), bench.recorder("tail", at_end=["sum"])
    task = bench.task(bench.source("a"), head, tail, outputs=2)
    bench.poll(task)
    bench.take_calls()
    assert bench.poll(task) == []
    assert bench.calls == [
        ("watermark", "head", MAX_WATERMARK),
        ("finish", "head"),
        ("process", "tail", 0, "rest"),
        ("send", "rest"),
        ("send", "rest"),
        ("watermark", "tail", MAX_WATERMARK),
        ("finish", "tail"),
        ("send", "sum"),
        ("send", "sum"),
        ("send", END_OF_DATA),
        ("send", END_OF_DATA),
    ]
    assert task.state is TaskState.ENDED_DATA


def test_a_task_ends_its_data_when_every_channel_has(bench):
    task = bench.task(bench.recorder("op", at_end=["rest"]), channels=[0, 1])
    bench.feed(task, 0, END_OF_DATA)
    assert task.state is TaskState.RUNNING
    bench.feed(task, 1, [("a", 1)], END_OF_DATA)
    assert bench.calls == [
        ("process", "op", 1, "a"),
        ("send", "a"),
        ("watermark", "op", MAX_WATERMARK),
        ("finish", "op"),
        ("send", "rest"),
        ("send", END_OF_DATA),
    ]
    assert task.state is TaskState.ENDED_DATA


def test_barriers_are_answered_after_the_end_and_the_answer_says_so(bench):
    task = bench.task(bench.recorder("op"), channels=[0, 0])
    bench.feed(task, 0, END_OF_DATA, bench.barrier(5))
    (store,) = bench.feed(task, 1, END_OF_DATA, bench.barrier(5))
    assert isinstance(store, StoreSnapshot)
    assert list(task.handle(SnapshotStored(5, "file"), 0)) == [bench.acknowledgement(5, "file", True)]


def test_a_checkpoint_from_before_the_end_is_no_final_one(bench):
    task = bench.task(bench.source(""), bench.recorder("op"))
    task.handle(bench.trigger(5), 0)
    bench.poll(task)
    assert list(task.handle(SnapshotStored(5, "file"), 0)) == [bench.acknowledgement(5, "file", False)]
    assert list(task.handle(bench.complete(5), 0)) == []
    assert task.state is TaskState.ENDED_DATA


def test_a_task_finishes_when_a_checkpoint_taken_after_its_end_is_complete(bench):
    task = ended(bench, bench.recorder("op"), outputs=2)
    task.handle(bench.trigger(5), 0)
    bench.take_calls()
    assert list(task.handle(bench.complete(5), 0)) == [FINISHED]
    assert bench.calls == [
        ("complete", "op", 5),
        ("close", "op"),
        ("send", END_OF_PARTITION),
        ("send", END_OF_PARTITION),
    ]
    assert task.state is TaskState.FINISHED
    task.validate()


def test_where_the_final_checkpoint_is_aborted_the_next_one_is_final(bench):
    task = ended(bench)
    task.handle(bench.trigger(5), 0)
    task.handle(bench.aborted(5), 0)
    assert task.state is TaskState.ENDED_DATA
    task.handle(bench.trigger(6), 0)
    assert list(task.handle(bench.complete(6), 0)) == [FINISHED]


def test_a_lost_notification_is_made_up_for_by_the_next(bench):
    task = ended(bench)
    for checkpoint_id in (5, 6):
        task.handle(bench.trigger(checkpoint_id), 0)
    assert list(task.handle(bench.complete(6), 0)) == [FINISHED]


def test_a_commit_that_fails_keeps_the_task_from_finishing(bench):
    task = ended(bench, bench.recorder("op", raises_in="complete"))
    task.handle(bench.trigger(5), 0)
    with pytest.raises(RuntimeError, match="complete of op"):
        task.handle(bench.complete(5), 0)
    assert END_OF_PARTITION not in bench.sent[0]


def test_a_trigger_stands_for_the_barriers_of_upstreams_that_have_finished(bench):
    """Their last elements may still be in the queues: nothing but ends stands there."""
    task = bench.task(bench.recorder("op", stateful=False), channels=[0, 0])
    bench.feed(task, 0, END_OF_DATA, END_OF_PARTITION)
    bench.feed(task, 1, END_OF_DATA)
    assert list(task.handle(bench.trigger(5), 0)) == [bench.acknowledgement(5, None, True)]
    assert task.barriers.blocked == [False, False]
    bench.feed(task, 1, END_OF_PARTITION)
    assert list(task.handle(bench.trigger(6), 0)) == [bench.acknowledgement(6, None, True)]


def test_the_end_of_a_channel_stands_for_its_barrier(bench):
    task = bench.task(bench.recorder("op", stateful=False), channels=[0, 0])
    bench.feed(task, 0, bench.barrier(5), [("a", 1)])
    assert bench.feed(task, 1, END_OF_DATA, END_OF_PARTITION) == [bench.acknowledgement(5, None)]
    assert bench.calls[-1] == ("send", "a")


def test_the_end_of_the_input_ends_no_task_before_its_final_checkpoint(bench):
    task = bench.task(bench.recorder("op"), channels=[0])
    assert bench.feed(task, 0, END_OF_DATA, END_OF_PARTITION) == []
    assert task.state is TaskState.ENDED_DATA


def test_a_source_has_something_unread_until_it_ends_and_other_tasks_never(bench):
    task = bench.task(bench.source("a"))
    bench.poll(task)
    assert len(task.unread) == 1, "the end itself is still to be read"
    bench.poll(task)
    assert len(task.unread) == 0
    assert len(bench.task(bench.recorder("op"), channels=[0]).unread) == 0


def test_data_ends_only_once(bench):
    task = ended(bench)
    with pytest.raises(AssertionError, match="ends its data in state ended data"):
        bench.poll(task)


# After the end.


def finished(bench, **how):
    task = bench.task(bench.recorder("op", stateful=False), channels=[0, 0], **how)
    bench.feed(task, 0, END_OF_DATA, bench.barrier(5))
    bench.feed(task, 1, END_OF_DATA, bench.barrier(5))
    assert list(task.handle(bench.complete(5), 0)) == [FINISHED]
    bench.take_calls()
    return task


def test_a_finished_task_drops_what_still_arrives(bench):
    task = finished(bench)
    assert bench.feed(task, 0, bench.barrier(6), END_OF_PARTITION) == []
    assert bench.feed(task, 1, bench.barrier(6), bench.barrier(7)) == []
    assert bench.calls == []
    assert not any(task.queues)


def test_a_finished_task_ignores_the_job_master_and_is_not_closed_again(bench):
    task = finished(bench)
    for event in (bench.trigger(6), bench.complete(6), bench.aborted(6)):
        assert list(task.handle(event, 0)) == []
    task.handle(CANCEL, 0)
    assert bench.calls == []


def test_a_task_that_finishes_while_it_aligns_lets_its_channels_go(bench):
    task = bench.task(bench.recorder("op", stateful=False), channels=[0, 0])
    bench.feed(task, 0, END_OF_DATA, bench.barrier(5), bench.barrier(6))
    bench.feed(task, 1, END_OF_DATA, bench.barrier(5))
    assert task.barriers.blocked == [True, False]
    assert list(task.handle(bench.complete(5), 0)) == [FINISHED]
    bench.feed(task, 0, END_OF_PARTITION)
    assert not any(task.queues)


def test_a_snapshot_under_way_is_still_answered_by_a_finished_task(bench):
    """The coordinator aborts the checkpoint when the task finishes, and discards the file."""
    task = ended(bench)
    for checkpoint_id in (5, 6):
        task.handle(bench.trigger(checkpoint_id), 0)
    task.handle(bench.complete(5), 0)
    assert list(task.handle(SnapshotStored(6, "file"), 0)) == [bench.acknowledgement(6, "file", True)]


# Without checkpointing.


def test_without_checkpointing_a_source_commits_once_and_finishes_at_its_end(bench):
    task = bench.task(bench.source(""), bench.recorder("head"), bench.recorder("tail"), checkpointing=False)
    assert bench.poll(task) == [FINISHED]
    assert bench.calls == [
        ("watermark", "head", MAX_WATERMARK),
        ("finish", "head"),
        ("watermark", "tail", MAX_WATERMARK),
        ("finish", "tail"),
        ("send", END_OF_DATA),
        ("commit", "head"),
        ("commit", "tail"),
        ("close", "head"),
        ("close", "tail"),
        ("send", END_OF_PARTITION),
    ]
    task.validate()


def test_without_checkpoints_a_task_commits_behind_the_end_of_all_inputs(bench):
    task = bench.task(bench.recorder("op"), channels=[0, 0], checkpointing=False)
    assert bench.feed(task, 0, END_OF_DATA, END_OF_PARTITION) == []
    assert bench.calls == []
    assert bench.feed(task, 1, END_OF_DATA) == []
    assert bench.calls[-1] == ("send", END_OF_DATA)
    assert bench.feed(task, 1, END_OF_PARTITION) == [FINISHED]
    assert bench.calls[-3:] == [("commit", "op"), ("close", "op"), ("send", END_OF_PARTITION)]


def test_without_checkpoints_a_drained_source_commits_with_its_savepoint(bench):
    task = bench.task(bench.source("ab"), bench.recorder("op"), checkpointing=False)
    trigger = replace(bench.trigger(5), kind=SYNC_SAVEPOINT, drains=True)
    assert FINISHED not in task.handle(trigger, 0)
    assert ("commit", "op") not in bench.calls
    assert list(task.handle(bench.complete(5), 0)) == [FINISHED]
    assert ("complete", "op", 5) in bench.calls


def test_without_checkpoints_a_task_behind_a_stopped_one_waits_for_the_savepoint(bench):
    task = bench.task(bench.recorder("op"), channels=[0], checkpointing=False)
    barrier = replace(bench.barrier(5), kind=SYNC_SAVEPOINT)
    # The task before it has heard first that the savepoint is complete.
    assert FINISHED not in bench.feed(task, 0, barrier, END_OF_PARTITION)
    assert list(task.handle(bench.complete(5), 0)) == [FINISHED]
    assert ("complete", "op", 5) in bench.calls


@pytest.mark.parametrize("is_aborted", [False, True])
def test_without_checkpoints_a_task_does_not_wait_for_a_plain_savepoint(bench, is_aborted):
    task = bench.task(bench.recorder("op"), channels=[0], checkpointing=False)
    bench.feed(task, 0, END_OF_DATA)
    task.handle(replace(bench.trigger(5), kind=SAVEPOINT), 0)
    if is_aborted:
        task.handle(bench.aborted(5), 0)
    assert bench.feed(task, 0, END_OF_PARTITION)[-1:] == [FINISHED]
    assert ("commit", "op") in bench.calls


def test_without_checkpoints_a_barrier_waits_behind_records_of_a_finished_task(bench):
    task = bench.task(bench.recorder("op"), channels=[0], checkpointing=False)
    task.queues[0].extend([[("a", 1)], END_OF_DATA, END_OF_PARTITION])
    trigger = replace(bench.trigger(5), kind=SYNC_SAVEPOINT, drains=True)
    assert list(task.handle(trigger, 0)) == []
    effects = [each for _ in range(4) for each in task.handle(Deliver(0), 0)]
    assert FINISHED not in effects
    calls = [call[0] for call in bench.calls]
    assert calls.index("finish") < calls.index("snapshot")
    assert list(task.handle(bench.complete(5), 0)) == [FINISHED]


# Cancelling.


@pytest.mark.parametrize("at_its_end", [False, True])
def test_cancelling_closes_the_operators_once_and_sends_nothing(bench, at_its_end):
    task = bench.task(bench.source(""), bench.recorder("head"), bench.recorder("tail"))
    if at_its_end:
        bench.poll(task)
        bench.take_calls()
    for _ in range(2):
        assert list(task.handle(CANCEL, 0)) == []
    assert bench.calls == [("close", "head"), ("close", "tail")]
    assert task.state is TaskState.CANCELED


def test_a_cancelled_task_ignores_the_job_master(bench):
    task = bench.task(bench.recorder("op"), channels=[0])
    task.handle(CANCEL, 0)
    bench.take_calls()
    for message in (bench.trigger(1), bench.complete(1), bench.aborted(1)):
        assert list(task.handle(message, 0)) == []
    assert bench.calls == []


@pytest.mark.parametrize("cancelled", [False, True])
def test_an_operator_that_cannot_close_does_not_keep_the_others_open(bench, cancelled):
    task = ended(bench, bench.recorder("head", raises_in="close"), bench.recorder("tail", raises_in="close"))
    task.handle(bench.trigger(5), 0)
    bench.take_calls()
    with pytest.raises(RuntimeError, match="close of head"):
        task.handle(CANCEL if cancelled else bench.complete(5), 0)
    assert [call for call in bench.calls if call[0] == "close"] == [("close", "head"), ("close", "tail")]
    assert END_OF_PARTITION not in bench.sent[0]


# What the task checks of itself.


def test_a_final_checkpoint_before_the_end_is_noticed(bench):
    task = bench.task(bench.source("a"))
    task._first_final_checkpoint_id = 5
    with pytest.raises(AssertionError, match="final checkpoint before its end"):
        task.validate()


def test_a_finish_before_the_final_checkpoint_is_noticed(bench):
    task = ended(bench)
    task.handle(bench.trigger(5), 0)
    task.finish()
    with pytest.raises(AssertionError, match="before its final checkpoint completed"):
        task.validate()


def test_an_alignment_that_holds_channels_for_nothing_is_noticed(bench):
    task = bench.task(bench.recorder("op"), channels=[0, 0])
    bench.feed(task, 0, bench.barrier(5))
    task.barriers._last_done = 5
    with pytest.raises(AssertionError, match="no checkpoint is in alignment"):
        task.validate()
