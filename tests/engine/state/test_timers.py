"""Timers as state: one of each, in order of time, with their key group wherever it goes."""

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.key_groups import key_group_range
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)
from onceproof.engine.state.timers import Timers
from onceproof.engine.types import Types

MAX_PARALLELISM = 8


def backend(parallelism=1, subtask=0):
    key_groups = key_group_range(MAX_PARALLELISM, parallelism, subtask)
    return HashMapStateBackend(MAX_PARALLELISM, key_groups, Types.STRING())


def timers_of(keyed, wishes=None, namespace_type=None):
    wishes = [] if wishes is None else wishes
    return Timers(keyed, "test", wishes.append, namespace_type)


def popped(queue, limit):
    taken = []
    while (due := queue.pop_due(limit)) is not None:
        taken.append(due)
    return taken


def stored(keyed):
    encoded = encode_task_snapshot(TaskSnapshot({"op": OperatorSnapshot(keyed.snapshot())}))
    return decode_task_snapshot(encoded.data, "file", encoded.sha256)["op"].keyed


def test_timers_fire_by_time_then_in_order_of_registration():
    queue = timers_of(backend()).event
    for key, timestamp in [("b", 20), ("a", 30), ("a", 20), ("c", 10), ("c", 40)]:
        queue.register(key, timestamp)
    assert queue.next_timestamp() == 10
    assert popped(queue, 30) == [("c", 10), ("b", 20), ("a", 20), ("a", 30)]
    assert len(queue) == 1
    assert popped(queue, 39) == []


def test_a_timer_is_there_once_however_often_it_is_registered():
    queue = timers_of(backend()).event
    for _ in range(3):
        queue.register("a", 10)
    assert len(queue) == 1
    assert popped(queue, 10) == [("a", 10)]


def test_deleting_takes_the_timer_of_that_key_and_that_time_only():
    queue = timers_of(backend()).event
    queue.register("a", 10)
    queue.register("a", 20)
    queue.delete("b", 10)
    queue.delete("a", 15)
    queue.delete("a", 10)
    queue.delete("a", 10)
    assert queue.next_timestamp() == 20
    assert popped(queue, 99) == [("a", 20)]


def test_a_timer_that_was_deleted_can_be_registered_again_and_fires_once():
    queue = timers_of(backend()).event
    queue.register("a", 10)
    queue.delete("a", 10)
    queue.register("a", 10)
    assert popped(queue, 10) == [("a", 10)]


def test_event_and_processing_time_are_two_worlds():
    timers = timers_of(backend())
    timers.event.register("a", 10)
    timers.register_processing("a", 10)
    assert popped(timers.event, 10) == [("a", 10)]
    assert popped(timers.processing, 10) == [("a", 10)]
    assert timers.watermark == MIN_WATERMARK


def test_timers_of_one_key_and_time_differ_by_namespace():
    queue = timers_of(backend(), namespace_type=Types.TUPLE([Types.LONG(), Types.LONG()])).event
    queue.register("a", (10, (0, 10)))
    queue.register("a", (10, (5, 10)))
    queue.delete("a", (10, (0, 10)))
    assert popped(queue, 10) == [("a", (10, (5, 10)))]


def test_the_earliest_processing_time_is_asked_for_again_after_a_restore():
    wishes = []
    keyed = backend()
    timers = timers_of(keyed, wishes)
    timers.register_processing("a", 70)
    timers.register_processing("b", 50)
    assert min(wishes) == 50
    other = backend()
    other.restore(stored(keyed))
    again = []
    timers_of(other, again)
    assert again == [50]


def test_deleted_timers_do_not_fill_the_memory():
    queue = timers_of(backend()).event
    queue.register("kept", 1_000_000)
    for timestamp in range(20_000):
        queue.register("a", timestamp)
        queue.delete("a", timestamp)
    assert len(queue._heap) < 2000
    assert popped(queue, 1_000_000) == [("kept", 1_000_000)]


def test_snapshot_does_not_see_later_changes():
    keyed = backend()
    timers = timers_of(keyed)
    timers.event.register("a", 10)
    snapshot = keyed.snapshot()
    popped(timers.event, 10)
    timers.event.register("b", 20)
    encoded = encode_task_snapshot(TaskSnapshot({"op": OperatorSnapshot(snapshot)}))
    other = backend()
    other.restore(decode_task_snapshot(encoded.data, "file", encoded.sha256)["op"].keyed)
    assert popped(timers_of(other).event, 99) == [("a", 10)]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 8])
def test_timers_are_redistributed_with_their_keys(parallelism):
    keyed = backend()
    timers = timers_of(keyed)
    registered = {(f"key {number}", 10 * number) for number in range(30)}
    for key, timestamp in registered:
        timers.event.register(key, timestamp)
    found = []
    for subtask in range(parallelism):
        part = backend(parallelism, subtask)
        part.restore(stored(keyed))
        found.extend(popped(timers_of(part).event, 1000))
    assert len(found) == len(registered)
    assert set(found) == registered


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["register", "delete", "pop", "snapshot"]),
        st.sampled_from("abc"),
        st.integers(-5, 5),
    ),
    min_size=1,
    max_size=60,
)


@given(ACTIONS)
def test_timers_are_a_set_that_gives_its_least_elements_first(actions):
    keyed = backend()
    queue = timers_of(keyed).event
    model = set()
    for action, key, timestamp in actions:
        if action == "register":
            queue.register(key, timestamp)
            model.add((timestamp, key))
        elif action == "delete":
            queue.delete(key, timestamp)
            model.discard((timestamp, key))
        elif action == "pop":
            due = {item for item in model if item[0] <= timestamp}
            taken = popped(queue, timestamp)
            assert [when for _, when in taken] == sorted(when for when, _ in due)
            assert {(when, whose) for whose, when in taken} == due
            model -= due
        else:
            other = backend()
            other.restore(stored(keyed))
            keyed, queue = other, timers_of(other).event
        assert len(queue) == len(model)
        assert queue.next_timestamp() == (heapq.nsmallest(1, model)[0][0] if model else None)
