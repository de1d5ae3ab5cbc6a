"""Snapshots that are encoded while the task goes on: at any moment, and in another thread."""

import random
import sys
import threading
from queue import SimpleQueue

import pytest
from msgspec.structs import replace

from onceproof.engine import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    encode_task_snapshot,
)
from onceproof.engine.state.timers import Timers
from tests.patience import PATIENCE_SECONDS

KEYS = 40


class Work:
    """An operator's state of every kind, changed at random by its own methods."""

    def __init__(self, backend, seed):
        self.backend = backend
        self.random = random.Random(seed)
        self.value = backend.value_state(ValueStateDescriptor("value", Types.DYNAMIC()))
        self.list = backend.list_state(ListStateDescriptor("list", Types.LIST(Types.LONG())))
        self.map = backend.map_state(MapStateDescriptor("map", Types.LONG(), Types.LIST(Types.LONG())))
        self.sum = backend.reducing_state(
            ReducingStateDescriptor("sum", lambda one, other: one + other, Types.LONG())
        )
        self.timers = Timers(backend, "timers", lambda due_ms: None)
        self.store = OperatorStateStore()
        self.elements = self.store.get_list_state(ListStateDescriptor("elements", Types.DYNAMIC()))
        self.broadcast = self.store.get_broadcast_state(
            MapStateDescriptor("broadcast", Types.LONG(), Types.DYNAMIC())
        )
        self.kept = [1]

    def change(self):
        number = self.random.randrange(1000)
        self.backend.current_key = key = self.random.randrange(KEYS)
        self.kept.append(number)
        del self.kept[:-3]
        match number % 12:
            case 0:
                self.value.update(self.kept)
            case 1:
                self.value.clear()
            case 2:
                self.list.add(self.kept)
            case 3:
                self.list.update([[number], self.kept])
            case 4:
                self.list.clear()
            case 5:
                self.map.put(number % 5, self.kept)
            case 6:
                self.map.remove(number % 5)
            case 7:
                self.sum.add(number)
            case 8:
                self.timers.event.register(key, number)
            case 9:
                self.timers.event.pop_due(number)
            case 10:
                self.elements.update([self.kept, number])
            case _:
                self.broadcast.put(number % 7, self.kept)

    def snapshot(self, checkpoint_id):
        keyed = self.backend.snapshot(checkpoint_id)
        return TaskSnapshot({"op": OperatorSnapshot(keyed, self.store.snapshot())})


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("seed", range(3))
def test_snapshot_encoded_late_has_what_it_had_when_it_was_taken(heap, directory, kind, seed):
    heap.settings = replace(heap.settings, local_directory=directory)
    work = Work(heap.make(kind=kind, key_type=Types.LONG()), seed)
    waiting = []
    for checkpoint_id in range(1, 30):
        for _ in range(work.random.randrange(60)):
            work.change()
        at_once = encode_task_snapshot(work.snapshot(checkpoint_id), canonical=True).data
        waiting.append((work.snapshot(checkpoint_id), at_once))
        # The oldest are encoded last, many changes and snapshots later.
        if len(waiting) > 5:
            late, expected = waiting.pop(work.random.randrange(3))
            assert encode_task_snapshot(late, canonical=True).data == expected
    for late, expected in waiting:
        assert encode_task_snapshot(late, canonical=True).data == expected


def test_savepoints_and_checkpoints_are_encoded_while_the_task_runs(heap):
    work = Work(heap.make(key_type=Types.LONG()), 1)
    table = work.backend.table(ValueStateDescriptor("many", Types.LONG()))
    taken, errors = SimpleQueue(), []

    def encode():
        while (snapshot := taken.get()) is not None:
            try:
                encode_task_snapshot(*snapshot)
            except Exception as error:
                errors.append(error)
                raise

    writer = threading.Thread(target=encode)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writer.start()
        for number in range(60):
            for key in range(150):
                table[150 * number + key] = key
                table.pop(150 * (number - 8) + key, None)
                work.change()
            taken.put((work.snapshot(number + 1), bool(number % 2)))
    finally:
        taken.put(None)
        writer.join(PATIENCE_SECONDS)
        sys.setswitchinterval(before)
    assert errors == []
