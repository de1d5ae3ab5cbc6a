"""The functions of random jobs without state, and what all of them share.

The rules these modules live by:

- A value is (lane, key, origin, number). Each function adds its vertex to the lane, or, where it loses the
  order in which values come, begins a new one. What it computes is in ``_reference.py``, written apart.
- States are named for the vertex, so a comparison of checkpoints can leave out one vertex and not the others.
- A printed program carries the source of the functions that it uses. So they use names of these modules, of
  the standard library and of ``onceproof.engine`` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from json import dumps, loads
from typing import Any, Final, TypeAlias, TypeVar

from onceproof.engine import (
    AggregateFunction,
    AsyncFunction,
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessFunction,
    Row,
    StateDescriptor,
    StateTtlConfig,
    Time,
    TimestampAssigner,
    TypeInformation,
    Types,
    WatermarkStrategy,
)

Value: TypeAlias = tuple[str, str, str, int]
"""Lane, key, origin, number."""
Descriptor = TypeVar("Descriptor", bound=StateDescriptor)

MODULUS: Final = 1009
TALLIES: Final = 5
SIZE_MS: Final = 70
SLIDE_MS: Final = 30
"""It does not divide the size: some times are in three sliding windows, others in two."""
GAP_MS: Final = 21
"""No two timestamps are so far apart (`_reference.py`)."""
NEAR_MS: Final = 30
LATENESS_MS: Final = 30
STAMP_STEP_MS: Final = 10
STAMPS: Final = 16
"""How many timestamps there are where they follow from the numbers, in any order, so that many are late."""
END_MS: Final = 2**53
"""A time that comes with the end of the input alone."""
YEAR_MS: Final = 31_536_000_000
"""A time to live that is never over."""
VALUE: Final = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG()])
EMITTED_TYPES: Final[dict[str, TypeInformation]] = {
    "text": Types.STRING(),
    "list": Types.PICKLED_BYTE_ARRAY(),
    "row": Types.ROW([Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG()]),
    "nested": Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING(), Types.LIST(Types.LONG())]),
}
"""By form, the type of what a function emits in place of values. All but text can change."""
LANE_AND_KEY: Final = Types.TUPLE([Types.STRING(), Types.STRING()])


def lane_and_key(value: Value) -> tuple[str, str]:
    return value[:2]


def key_of(value: Value) -> str:
    return value[1]


def side_of(name: str) -> OutputTag:
    """Return the tag of a vertex's side output."""
    return OutputTag(f"{name}s", VALUE)


def lasting(descriptor: Descriptor, ttl: bool) -> Descriptor:
    """Give a state a time to live that is never over, if it has one at all, with every way of cleaning up."""
    if ttl:
        builder = StateTtlConfig.new_builder(Time.milliseconds(YEAR_MS)).never_return_expired()
        # Each backend takes those that are its own.
        builder.cleanup_full_snapshot().cleanup_incrementally(2, True).cleanup_in_rocksdb_compact_filter(3)
        descriptor.enable_time_to_live(builder.update_ttl_on_read_and_write().build())
    return descriptor


def plus(one: int, two: int) -> int:
    return one + two


class ByLetters(Partitioner):
    """Chooses a subtask by the letters of lane and key."""

    def partition(self, key: Any, num_partitions: int) -> int:
        return sum(map(ord, "".join(key))) % num_partitions


class StampByNumber(TimestampAssigner):
    """Gives a value a timestamp that follows from its number."""

    def extract_timestamp(self, value: Value, record_timestamp: int) -> int:
        return stamp_of(value)


STAMPED: Final = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(StampByNumber())


def stamp_of(value: Value) -> int:
    """Return the timestamp that follows from the number of a value; one in three begins a window."""
    stamp = value[3] % STAMPS * STAMP_STEP_MS
    return stamp if value[3] % 3 else stamp - stamp % SIZE_MS


def late_of(name: str) -> OutputTag:
    """Return the tag of the values that are too late for a vertex's windows."""
    return OutputTag(f"{name} late", VALUE)


class Map(MapFunction):
    """Changes the number, one to one."""

    def __init__(self, name: str) -> None:
        self._step = name[1:]

    def map(self, value: Value) -> Value:
        lane, key, origin, number = value
        return lane + self._step, key, origin, (3 * number + 1) % MODULUS


class MapInProcess(ProcessFunction):
    """Changes the number, one to one, in a process function."""

    def __init__(self, name: str) -> None:
        self._step = name[1:]

    def process_element(self, value: Value, ctx: ProcessFunction.Context) -> Iterator[Value]:
        lane, key, origin, number = value
        yield lane + self._step, key, origin, (3 * number + 1) % MODULUS


class Punctual(ProcessFunction):
    """Adds the timestamp to the number, and changes the key if a watermark has overtaken the value.

    None of its input is late. The timestamp is that of the records, or a result's own, as a pair's is.
    """

    def __init__(self, name: str) -> None:
        self._step = name[1:]

    def process_element(self, value: Value, ctx: ProcessFunction.Context) -> Iterator[Value]:
        lane, key, origin, number = value
        at = ctx.timestamp()
        is_late = at <= ctx.timer_service().current_watermark()
        yield lane + self._step, f"{key}, late" if is_late else key, origin, (number + at) % MODULUS


class Copy(MapFunction):
    """Passes a value on, as each subtask gets it."""

    def map(self, value: Value) -> Value:
        return value


class NoMultipleOfThree(FilterFunction):
    """Keeps numbers that are no multiples of three."""

    def filter(self, value: Value) -> bool:
        return value[3] % 3 != 0


class Twice(FlatMapFunction):
    """Emits the number and the next one."""

    def __init__(self, name: str) -> None:
        self._step = name[1:]

    def flat_map(self, value: Value) -> Iterator[Value]:
        lane, key, origin, number = value
        yield lane + self._step, key, origin, number
        yield lane + self._step, key, origin, (number + 1) % MODULUS


class Parity(ProcessFunction):
    """Emits even numbers, and odd ones to the side."""

    def __init__(self, name: str) -> None:
        self._step = name[1:]
        self._side = side_of(name)

    def process_element(self, value: Value, ctx: ProcessFunction.Context) -> Iterator[Any]:
        lane, key, origin, number = value
        if number % 2:
            yield self._side, (lane + self._step + "s", key, origin, number)
        else:
            yield lane + self._step, key, origin, number


class Ask(AsyncFunction):
    """Answers after a while that depends on the number."""

    def __init__(self, name: str) -> None:
        self._step = name[1:]

    async def async_invoke(self, value: Value) -> list[Value]:
        lane, key, origin, number = value
        # Some take so long that watermarks and a restore come in between.
        await asyncio.sleep(number % 7 / (500 if number % 3 else 25))
        return [(lane + self._step, key, origin, (7 * number + 3) % MODULUS)]


class Sum(AggregateFunction):
    """Adds numbers up."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Step(MapFunction):
    """Adds its step to the lane."""

    def __init__(self, name: str) -> None:
        self._step = name[1:]

    def map(self, value: Value) -> Value:
        return value[0] + self._step, *value[1:]


def emitted_as(value: Value, form: str) -> Any:
    """Return a value in another form."""
    lane, key, origin, number = value
    match form:
        case "text":
            return dumps(value)
        case "list":
            return [lane, key, origin, number]
        case "row":
            return Row(lane, key, origin, number)
        case _:
            return lane, key, origin, [number]


def change(emitted: Any) -> None:
    """Change what was emitted, if it can change: who gets it must not see that."""
    if type(emitted) is tuple:
        emitted[3].clear()
    elif type(emitted) in (list, Row):
        emitted[3] = -1


class Settle(MapFunction):
    """Makes a value of what was emitted in another form."""

    def map(self, value: Any) -> Value:
        lane, key, origin, number = loads(value) if type(value) is str else value
        return lane, key, origin, number[0] if type(number) is list else number


EMITTING: Final = (
    *("flat_map", "process", "on_timer"),
    *("process_element", "process_element1", "process_element2", "process_broadcast_element"),
)
"""The methods of functions that return any number of results."""


def changing(function: Any, form: str) -> Any:
    """Return a class that emits what ``function`` does in another form, and changes it when it goes on."""
    engine = "onceproof.engine"
    # What only the interface has stays there: the engine asks whether a function has timers.
    own = {name for each in function.__mro__ if engine not in each.__module__ for name in vars(each)}
    methods: dict[str, Any] = {
        name: changing_each(getattr(function, name), form) for name in EMITTING if name in own
    }
    if "map" in own:
        methods["map"] = changing_the_last(function.map, form)
    return type(f"Changing{function.__name__}", (function,), methods)


def changing_each(method: Any, form: str) -> Any:
    """Return a method that changes each of its results as soon as it is asked for the next."""

    def emits(self: Any, *arguments: Any) -> Iterator[Any]:
        for result in method(self, *arguments) or ():
            emitted = emitted_as(result, form)
            yield emitted
            change(emitted)

    return emits


def changing_the_last(method: Any, form: str) -> Any:
    """Return a method with one result, which it changes when it is called again."""

    def emits(self: Any, value: Any) -> Any:
        change(vars(self).get("emitted"))
        self.emitted = emitted_as(method(self, value), form)
        return self.emitted

    return emits
