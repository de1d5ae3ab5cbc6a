"""What a function modifies in place is stored only when it says so, on every backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from onceproof.engine import (
    AggregateFunction,
    AggregatingStateDescriptor,
    Configuration,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Time,
    Types,
    ValueStateDescriptor,
)

NUMBERS = Types.LIST(Types.LONG())
ANY = Types.PICKLED_BYTE_ARRAY()


class Joined(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: list[int], accumulator: list[int]) -> list[int]:
        accumulator.extend(value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return acc_a + acc_b


def value_read(state: Any, number: int) -> Iterable[Any]:
    if state.value() is None:
        state.update([])
    held = state.value()
    held.append(number)
    yield state.value()


def value_stored(state: Any, number: int) -> Iterable[Any]:
    stored = [*(state.value() or ()), number]
    state.update(stored)
    stored.clear()
    yield state.value()


def value_updated(state: Any, number: int) -> Iterable[Any]:
    held = state.value() or []
    held.append(number)
    state.update(held)
    yield held


def list_read(state: Any, number: int) -> Iterable[Any]:
    added = [number]
    state.add(added)
    added.clear()
    for element in state.get():
        element.append(0)
    yield state.get()


def list_stored(state: Any, number: int) -> Iterable[Any]:
    elements = [*state.get(), [number]]
    state.update(elements)
    elements[0].append(0)
    yield state.get()


def map_read(state: Any, number: int) -> Iterable[Any]:
    put = [number]
    state.put(number, put)
    put.clear()
    state.get(number).append(0)
    for _, value in state.items():
        value.append(0)
    yield dict(state.items())


def map_stored(state: Any, number: int) -> Iterable[Any]:
    values = {number: [number]}
    state.put_all(values)
    values[number].append(0)
    yield dict(state.items())


def reduced(state: Any, number: int) -> Iterable[Any]:
    added = [number]
    state.add(added)
    added.clear()
    state.get().append(0)
    yield state.get()


LISTS = [[[1]], [[1], [2]], [[1], [2], [3]]]
MAPS = [{1: [1]}, {1: [1], 2: [2]}, {1: [1], 2: [2], 3: [3]}]
GROWN = [[1], [1, 2], [1, 2, 3]]
Descriptor = Callable[[Any], Any]
USES: dict[str, tuple[Descriptor, Callable[[Any, int], Iterable[Any]], list[Any]]] = {
    "value read": (lambda kind: ValueStateDescriptor("s", kind), value_read, [[], [], []]),
    "value stored": (lambda kind: ValueStateDescriptor("s", kind), value_stored, GROWN),
    "value updated": (lambda kind: ValueStateDescriptor("s", kind), value_updated, GROWN),
    "list read": (lambda kind: ListStateDescriptor("s", kind), list_read, LISTS),
    "list stored": (lambda kind: ListStateDescriptor("s", kind), list_stored, LISTS),
    "map read": (lambda kind: MapStateDescriptor("s", Types.LONG(), kind), map_read, MAPS),
    "map stored": (lambda kind: MapStateDescriptor("s", Types.LONG(), kind), map_stored, MAPS),
    "reducing": (
        lambda kind: ReducingStateDescriptor("s", lambda one, other: one + other, kind),
        reduced,
        GROWN,
    ),
    "aggregating": (lambda kind: AggregatingStateDescriptor("s", Joined(), kind), reduced, GROWN),
}


class Uses(KeyedProcessFunction):
    def __init__(self, descriptor: Any, use: Callable[[Any, int], Iterable[Any]]) -> None:
        self.descriptor, self.use = descriptor, use

    def open(self, runtime_context: RuntimeContext) -> None:
        kind = type(self.descriptor).__name__.removesuffix("StateDescriptor").lower()
        name = "get_state" if kind == "value" else f"get_{kind}_state"
        self.state = getattr(runtime_context, name)(self.descriptor)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        return self.use(self.state, value)


@pytest.mark.parametrize("has_ttl", [False, True], ids=["for ever", "with ttl"])
@pytest.mark.parametrize("kind", [NUMBERS, ANY], ids=["declared", "pickled"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", USES)
def test_state_modified_in_place_is_as_it_was_stored(
    name: str, backend: str, kind: Any, has_ttl: bool, tmp_path: Path
) -> None:
    make, use, expected = USES[name]
    descriptor = make(kind)
    if has_ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    options = {"state.backend.type": backend, "state.backend.rocksdb.localdir": str(tmp_path)}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    env.set_parallelism(1)
    stream = env.from_collection([1, 2, 3]).key_by(lambda number: "all").process(Uses(descriptor, use))
    assert list(stream.execute_and_collect()) == expected
