"""A value that a function has emitted does not change when the function goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from onceproof.engine import (
    AsyncDataStream,
    AsyncFunction,
    CoFlatMapFunction,
    Configuration,
    CountTrigger,
    DataStream,
    Encoder,
    FileSink,
    FlatMapFunction,
    GlobalWindows,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    Row,
    StreamExecutionEnvironment,
    Time,
    TypeInformation,
    Types,
)
from onceproof.engine.owned import own, own_records


@dataclass
class Basket:
    items: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Labelled:
    label: str
    items: Any


class Pair(NamedTuple):
    key: str
    items: Any


class Opaque:
    def __init__(self) -> None:
        self.lock = threading.Lock()


CHANGEABLE: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (lambda: [1], list.clear),
    (lambda: {"a": 1}, dict.clear),
    (lambda: {1}, set.clear),
    (lambda: bytearray(b"a"), bytearray.clear),
    (lambda: Basket([1]), lambda basket: basket.items.clear()),
    (lambda: Labelled("a", [1]), lambda labelled: labelled.items.clear()),
    (lambda: Pair("a", {1: [2]}), lambda pair: pair.items[1].clear()),
    (lambda: Row(1, [2]), lambda row: row[1].clear()),
    (lambda: Row(a=1), lambda row: row.__setitem__("a", 2)),
    (lambda: ("a", [1]), lambda pair: pair[1].clear()),
    (lambda: ("a", ("b", {1: {2}})), lambda pair: pair[1][1][1].clear()),
    (lambda: ("a", Row(1)), lambda pair: pair[1].__setitem__(0, 2)),
    (lambda: [[1], [2]], lambda rows: rows[0].clear()),
]
NAMES = [
    "list",
    "dict",
    "set",
    "bytearray",
    "dataclass",
    "frozen",
    "namedtuple",
    "row",
    "named-row",
    "tuple",
    "deep",
    "row-in-a-tuple",
    "rows",
]
KINDS = pytest.mark.parametrize(("make", "change"), CHANGEABLE, ids=NAMES)


@KINDS
def test_a_change_does_not_reach_the_value_that_was_taken(
    make: Callable[[], Any], change: Callable[[Any], Any]
) -> None:
    value = make()
    taken = own(value)
    change(value)
    assert taken == make()
    assert type(taken) is type(value)
    assert value != taken


@pytest.mark.parametrize(
    "value",
    [
        1,
        "a",
        None,
        (1, ("a", b"b")),
        frozenset((1,)),
        Pair("a", 1),
        Labelled("a", (1,)),
        OutputTag("late"),
        int,
    ],
    ids=repr,
)
def test_what_cannot_change_is_taken_as_it_is(value: Any) -> None:
    assert own(value) is value


def test_records_that_cannot_change_stay_the_same_list() -> None:
    records: list[Any] = [(("a", 1), 5), (2, None)]
    assert own_records(records) is records


def test_tuple_without_a_row_is_taken_as_it_is_after_a_row_was_hashed() -> None:
    records: list[Any] = [(("a", 1), 5)]
    assert hash(Row(1))
    assert own_records(records)[0][0] is records[0][0]
    assert own_records(records) is records


def test_a_list_that_holds_itself_is_copied() -> None:
    value: list[Any] = [1]
    value.append(value)
    taken = own(value)
    value.pop(0)
    assert taken[0] == 1
    assert taken[1] is taken


def test_an_object_that_cannot_be_copied_passes_as_it_is() -> None:
    opaque = Opaque()
    assert own([opaque]) == [opaque]


READINGS = [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5), ("b", 6)]
SUMS = [["a", 1], ["a", 3], ["b", 3], ["a", 7], ["b", 8], ["b", 14]]


class Sums(FlatMapFunction):
    """Emits the list that it keeps for the key, before and after it changes it."""

    def __init__(self) -> None:
        self.sums: dict[str, list[Any]] = {}

    def flat_map(self, value: Any) -> Iterable[Any]:
        held = self.sums.setdefault(value[0], [value[0], 0])
        held[1] += value[1]
        yield held
        held[1] += 100
        held[1] -= 100


class Sum(MapFunction):
    def __init__(self) -> None:
        self.sums = Sums()

    def map(self, value: Any) -> Any:
        (held,) = [*self.sums.flat_map(value)]
        return held


class KeyedSums(KeyedProcessFunction):
    def __init__(self, tag: OutputTag | None = None) -> None:
        self.sums = Sums()
        self.tag = tag

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        for held in self.sums.flat_map(value):
            yield held if self.tag is None else (self.tag, held)


class PlainSums(ProcessFunction):
    def __init__(self) -> None:
        self.sums = Sums()

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        return self.sums.flat_map(value)


class Connected(CoFlatMapFunction):
    def __init__(self) -> None:
        self.sums = Sums()

    def flat_map1(self, value: Any) -> Iterable[Any]:
        return self.sums.flat_map(value)

    def flat_map2(self, value: Any) -> Iterable[Any]:
        return ()


class Asked(AsyncFunction):
    def __init__(self) -> None:
        self.sums = Sums()

    async def async_invoke(self, value: Any) -> list[Any]:
        return list(self.sums.flat_map(value))


class AtTheEnd(KeyedProcessFunction):
    """Emits one list from each of the timers that the end of the input fires."""

    def __init__(self) -> None:
        self.fired: list[int] = []

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        self.fired.append(timestamp)
        yield self.fired


def add_in_place(one: list[Any], other: list[Any]) -> list[Any]:
    one[1] += other[1]
    return one


TUPLES = Types.TUPLE([Types.STRING(), Types.LONG()])

JOBS: dict[str, Callable[[DataStream], DataStream]] = {
    "map": lambda stream: stream.map(Sum()),
    "flat map": lambda stream: stream.flat_map(Sums()),
    "flat map of tuples": lambda stream: stream.flat_map(Sums(), TUPLES).map(list),
    "process": lambda stream: stream.process(PlainSums()),
    "keyed map": lambda stream: stream.key_by(lambda value: "all").map(Sum()),
    "keyed flat map": lambda stream: stream.key_by(lambda value: "all").flat_map(Sums()),
    "keyed process": lambda stream: stream.key_by(lambda value: "all").process(KeyedSums()),
    "side output": lambda stream: _side_output(stream),
    "side output of tuples": lambda stream: _side_output(stream, TUPLES),
    "co-flat-map": lambda stream: stream.connect(stream.filter(lambda value: False)).flat_map(Connected()),
    "async": lambda stream: AsyncDataStream.ordered_wait(stream, Asked(), Time.seconds(60), 1),
    "reduce": lambda stream: stream.map(list).key_by(lambda value: value[0]).reduce(add_in_place),
}
EDGES: dict[str, Callable[[DataStream], DataStream]] = {
    "alone": lambda stream: stream,
    "chained": lambda stream: stream.map(lambda value: value),
    "shuffled": lambda stream: stream.rebalance().map(lambda value: value),
}


def _side_output(stream: DataStream, main: TypeInformation | None = None) -> DataStream:
    tag = OutputTag("sums")
    return stream.key_by(lambda value: "all").process(KeyedSums(tag), main).get_side_output(tag)


def environment(**options: Any) -> StreamExecutionEnvironment:
    settings = {key.replace("_", "."): value for key, value in options.items()}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))
    env.set_parallelism(1)
    return env


def rows_of(stream: DataStream) -> list[Any]:
    return list(stream.execute_and_collect())


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("job", JOBS)
def test_a_list_that_grows_is_emitted_as_it_was(job: str, edge: str) -> None:
    rows = rows_of(EDGES[edge](JOBS[job](environment().from_collection(READINGS))))
    assert rows == SUMS


@pytest.mark.parametrize("job", ["flat map", "keyed process"])
def test_workers_get_the_values_as_they_were_emitted(job: str, tmp_path: Path) -> None:
    env = environment(execution_local_workers=2)
    sums = EDGES["shuffled"](JOBS[job](env.from_collection(READINGS)))
    sums.map(repr).sink_to(FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build())
    env.execute()
    written = [line for part in tmp_path.iterdir() for line in part.read_text().splitlines()]
    assert sorted(written) == sorted(map(repr, SUMS))


@KINDS
def test_a_value_cleared_behind_its_emission_arrives_whole(
    make: Callable[[], Any], change: Callable[[Any], Any]
) -> None:
    class Emits(FlatMapFunction):
        def flat_map(self, value: Any) -> Iterable[Any]:
            emitted = make()
            yield emitted
            change(emitted)

    emitted = environment().from_collection([1, 2]).flat_map(Emits())
    assert rows_of(emitted.map(repr)) == [repr(make())] * 2


def test_a_list_emitted_from_timers_is_what_it_was_at_each() -> None:
    stream = environment().from_collection(READINGS).key_by(lambda value: "all").process(AtTheEnd())
    assert rows_of(stream) == [[*range(1, last + 1)] for last in range(1, 7)]


def test_an_accumulator_changed_in_place_leaves_the_fired_windows_alone() -> None:
    keyed = environment().from_collection(READINGS).map(list).key_by(lambda value: value[0])
    every_record = keyed.window(GlobalWindows.create()).trigger(CountTrigger(1))
    assert rows_of(every_record.reduce(add_in_place)) == SUMS


def test_each_reader_of_a_stream_may_change_its_values() -> None:
    def grown(value: list[int]) -> list[int]:
        value.append(0)
        return value

    stream = environment().from_collection([1, 2]).map(lambda value: [value])
    both = stream.rebalance().map(grown).union(stream.rebalance().map(grown).rebalance().map(grown))
    assert sorted(rows_of(both)) == [[1, 0], [1, 0, 0], [2, 0], [2, 0, 0]]


def test_each_subtask_may_change_the_values_of_a_broadcast() -> None:
    def grown(value: list[int]) -> int:
        value.append(0)
        return len(value)

    stream = environment().from_collection([[1], [2]]).broadcast().map(grown).set_parallelism(3)
    assert rows_of(stream) == [2] * 6


def test_a_collection_is_read_as_it_was_given() -> None:
    given = [[1], [2]]
    stream = environment().from_collection(given).map(lambda value: value.append(0) or value)
    given[0].append(9)
    assert rows_of(stream) == [[1, 0], [2, 0]]
    assert given == [[1, 9], [2]]
