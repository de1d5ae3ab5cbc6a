"""What a task makes of the job master's messages, and what it does not believe."""

from __future__ import annotations

import pytest

from onceproof.engine.elements import CancelCheckpointMarker
from onceproof.engine.task.events import Deliver, StoreSnapshot


def test_a_trigger_makes_a_source_snapshot_and_send_the_barrier(bench):
    task = bench.task(bench.source("ab"))
    bench.poll(task)
    (store,) = task.handle(bench.trigger(5), 0)
    assert isinstance(store, StoreSnapshot)
    assert bench.take_calls() == [("send", "a"), ("send", bench.barrier(5))]
    assert "barrier_received" not in [point for point, _, _ in bench.points]


@pytest.mark.parametrize("repeated", [4, 5])
def test_a_trigger_that_is_repeated_is_ignored(bench, repeated):
    task = bench.task(bench.source("ab"))
    task.handle(bench.trigger(4), 0)
    task.handle(bench.trigger(5), 0)
    bench.take_calls()
    assert list(task.handle(bench.trigger(repeated), 0)) == []
    assert bench.calls == []


def test_a_trigger_that_is_overtaken_is_declined(bench):
    task = bench.task(bench.source("ab"))
    task.handle(bench.trigger(5), 0)
    bench.take_calls()
    assert list(task.handle(bench.trigger(4), 0)) == [bench.decline(4, "CHECKPOINT_DECLINED_SUBSUMED")]
    assert bench.take_calls() == [("send", CancelCheckpointMarker(4))]


def test_a_trigger_of_an_aborted_checkpoint_is_answered_with_a_cancel_marker(bench):
    task = bench.task(bench.source("ab"))
    task.handle(bench.aborted(5), 0)
    assert list(task.handle(bench.trigger(5), 0)) == [bench.decline(5, "CHECKPOINT_DECLINED")]
    assert bench.take_calls() == [("send", CancelCheckpointMarker(5))]


@pytest.mark.parametrize("message", ["trigger", "complete", "aborted"])
def test_a_message_of_another_attempt_is_dropped(bench, message):
    task = bench.task(bench.source("ab"), bench.recorder("op"))
    assert list(task.handle(getattr(bench, message)(5, "3.1"), 0)) == []
    assert bench.calls == []
    (store,) = task.handle(bench.trigger(5), 0)
    assert isinstance(store, StoreSnapshot)


def test_every_operator_is_notified_of_a_completion_once(bench):
    task = bench.task(bench.recorder("head"), bench.recorder("tail"), channels=[0])
    for checkpoint_id in (5, 5, 4, 7):
        assert list(task.handle(bench.complete(checkpoint_id), 0)) == []
    assert bench.calls == [
        ("complete", "head", 5),
        ("complete", "tail", 5),
        ("complete", "head", 7),
        ("complete", "tail", 7),
    ]
    assert bench.points == [("notified", "work-1", 5), ("notified", "work-1", 7)]


def test_the_restored_checkpoint_is_no_news(bench):
    task = bench.task(bench.recorder("op"), channels=[0], restored=5)
    task.handle(bench.complete(5), 0)
    assert bench.calls == []
    task.handle(bench.complete(6), 0)
    assert bench.calls == [("complete", "op", 6)]


def test_a_commit_that_fails_fails_the_task(bench):
    task = bench.task(bench.recorder("op", raises_in="complete"), channels=[0])
    with pytest.raises(RuntimeError, match="complete of op"):
        task.handle(bench.complete(5), 0)


def test_a_killed_probe_kills_the_task_where_it_stands(bench):
    class Kill(BaseException):
        pass

    def probe(point, task, checkpoint_id):
        if point == "aligned":
            raise Kill

    bench.probe = probe
    task = bench.task(bench.recorder("op"), channels=[0])
    task.queues[0].append(bench.barrier(5))
    with pytest.raises(Kill):
        task.handle(Deliver(0), 0)
    assert bench.calls == []
