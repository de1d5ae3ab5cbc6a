"""The functions of random jobs with keyed state over one stream; ``_functions.py`` has the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onceproof.engine import (
    AggregatingStateDescriptor,
    FlatMapFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from onceproof.scenarios.random_graphs._functions import (
    END_MS,
    MODULUS,
    TALLIES,
    VALUE,
    Sum,
    Value,
    lasting,
    plus,
)


class TotalInValue(KeyedProcessFunction):
    """Emits the running total of a lane and key, from a ValueState."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor(f"{self._name} total", Types.LONG())
        self._total = runtime_context.get_state(lasting(descriptor, self._ttl))

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> Iterator[Value]:
        lane, key, origin, number = value
        total = (self._total.value() or 0) + number
        self._total.update(total)
        yield lane + self._name[1:], key, origin, total


class TotalInReducing(KeyedProcessFunction):
    """Emits the running total of a lane and key, from a ReducingState."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ReducingStateDescriptor(f"{self._name} total", plus, Types.LONG())
        self._total = runtime_context.get_reducing_state(lasting(descriptor, self._ttl))

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> Iterator[Value]:
        lane, key, origin, number = value
        self._total.add(number)
        yield lane + self._name[1:], key, origin, self._total.get()


class TotalInAggregating(FlatMapFunction):
    """Emits the running total of a lane and key, from an AggregatingState."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = AggregatingStateDescriptor(f"{self._name} total", Sum(), Types.LONG())
        self._total = runtime_context.get_aggregating_state(lasting(descriptor, self._ttl))

    def flat_map(self, value: Value) -> Iterator[Value]:
        lane, key, origin, number = value
        self._total.add(number)
        yield lane + self._name[1:], key, origin, self._total.get()


def total_of(before: Value, value: Value) -> Value:
    """Add the number of a value to the total before it."""
    lane, key, origin, number = value
    return lane, key, origin, before[3] + number


class Latest(KeyedProcessFunction):
    """Emits the last three values of a lane and key, from a ListState."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        element = Types.TUPLE([Types.STRING(), Types.LONG()])
        descriptor = ListStateDescriptor(f"{self._name} latest", element)
        self._latest = runtime_context.get_list_state(lasting(descriptor, self._ttl))

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> Iterator[Value]:
        lane, key, origin, number = value
        self._latest.add((origin, number))
        latest = list(self._latest.get())[-3:]
        self._latest.update(latest)
        origins = " ".join(each[0] for each in latest)
        yield lane + self._name[1:], key, origins, sum(each[1] for each in latest) % MODULUS


class Residues(KeyedProcessFunction):
    """Counts the numbers of a lane and key by remainder, in a MapState that the first value registers."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        self._context = runtime_context
        descriptor = MapStateDescriptor(f"{self._name} residues", Types.LONG(), Types.LONG())
        self._descriptor = lasting(descriptor, self._ttl)

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> Iterator[Value]:
        lane, key, origin, number = value
        residues = self._context.get_map_state(self._descriptor)
        seen = (residues.get(number % 3) or 0) + 1
        residues.put(number % 3, seen)
        yield lane + self._name[1:], key, origin, 10 * seen + len(list(residues.items()))


class Triple(ProcessWindowFunction):
    """Makes one value of the three in a window of a lane and key."""

    def __init__(self, name: str) -> None:
        self._step = name[1:]

    def process(self, key: tuple[str, str], context: Any, elements: Iterable[Value]) -> Iterator[Value]:
        values = list(elements)
        number = sum(value[3] for value in values) % MODULUS
        yield key[0] + self._step, key[1], " ".join(value[2] for value in values), number


class CountInValue(FlatMapFunction):
    """Emits how many values of a key there have been, from a ValueState that the first value registers."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        self._context = runtime_context
        descriptor = ValueStateDescriptor(f"{self._name} count", Types.LONG())
        self._descriptor = lasting(descriptor, self._ttl)

    def flat_map(self, value: Value) -> Iterator[Value]:
        state = self._context.get_state(self._descriptor)
        count = (state.value() or 0) + 1
        state.update(count)
        yield self._name[1:], value[1], "", count


class CountInAggregating(KeyedProcessFunction):
    """Emits how many values of a key there have been, from an AggregatingState."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = AggregatingStateDescriptor(f"{self._name} count", Sum(), Types.LONG())
        self._count = runtime_context.get_aggregating_state(lasting(descriptor, self._ttl))

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> Iterator[Value]:
        self._count.add(1)
        yield self._name[1:], value[1], "", self._count.get()


class CountInReducing(MapFunction):
    """Emits how many values of a key there have been, from a ReducingState."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ReducingStateDescriptor(f"{self._name} count", plus, Types.LONG())
        self._count = runtime_context.get_reducing_state(lasting(descriptor, self._ttl))

    def map(self, value: Value) -> Value:
        self._count.add(1)
        return self._name[1:], value[1], "", self._count.get()


class Tally(KeyedProcessFunction):
    """Counts the numbers of a key by remainder, in a ValueState for each that its first number registers."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        self._context = runtime_context

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> Iterator[Value]:
        remainder = value[3] % TALLIES
        descriptor = ValueStateDescriptor(f"{self._name} tally {remainder}", Types.LONG())
        state = self._context.get_state(lasting(descriptor, self._ttl))
        count = (state.value() or 0) + 1
        state.update(count)
        yield self._name[1:], value[1], "", TALLIES * count + remainder


class LastAtEnd(KeyedProcessFunction):
    """Emits the last value of a key at the end of the input."""

    def __init__(self, name: str) -> None:
        self._name = name

    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor(f"{self._name} whole", VALUE))

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> None:
        self._last.update(value)
        ctx.timer_service().register_event_time_timer(END_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Value]:
        _, key, origin, number = self._last.value()
        self._last.clear()
        yield self._name[1:], key, " ".join(sorted(origin.split(" "))), number % MODULUS


class Distinct(KeyedProcessFunction):
    """Emits each origin, number and time of a key once."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        known = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
        descriptor = MapStateDescriptor(f"{self._name} seen", known, Types.BOOLEAN())
        self._seen = runtime_context.get_map_state(lasting(descriptor, self._ttl))

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> Iterator[Value]:
        _, key, origin, number = value
        at = ctx.timestamp()
        if not self._seen.contains((origin, number, at)):
            self._seen.put((origin, number, at), True)
            yield self._name[1:], key, origin, number
