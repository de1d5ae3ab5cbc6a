"""The functions of random jobs in which values meet: joins and windows; ``_functions.py`` has the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onceproof.engine import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessJoinFunction,
    ProcessWindowFunction,
    RuntimeContext,
    Types,
)
from onceproof.scenarios.random_graphs._functions import (
    END_MS,
    GAP_MS,
    MODULUS,
    SIZE_MS,
    VALUE,
    Value,
    stamp_of,
)


def pair_of(name: str, key: str, one: Any, two: Any) -> Value:
    """Make one value of (origin, number) of two."""
    return name[1:], key, f"{one[0]}+{two[0]}", (31 * one[1] + two[1]) % MODULUS


class Pairs(KeyedCoProcessFunction):
    """Pairs each value of one side with each of the other, of the same origin if it is for twins."""

    def __init__(self, name: str, twins: bool) -> None:
        self._name, self._twins = name, twins

    def open(self, runtime_context: RuntimeContext) -> None:
        element = Types.TUPLE([Types.STRING(), Types.LONG()])
        self._ones = runtime_context.get_list_state(ListStateDescriptor(f"{self._name} ones", element))
        self._twos = runtime_context.get_list_state(ListStateDescriptor(f"{self._name} twos", element))

    def process_element1(self, value: Value, ctx: KeyedCoProcessFunction.Context) -> Iterator[Value]:
        """Pair a value of the first side with those of the second that came before it."""
        one = value[2:]
        self._ones.add_all([one])
        for two in self._twos.get():
            if not self._twins or one[0] == two[0]:
                yield pair_of(self._name, value[1], one, two)

    def process_element2(self, value: Value, ctx: KeyedCoProcessFunction.Context) -> Iterator[Value]:
        """Pair a value of the second side with those of the first that came before it."""
        two = value[2:]
        self._twos.add(two)
        for one in self._ones.get():
            if not self._twins or one[0] == two[0]:
                yield pair_of(self._name, value[1], one, two)


def broadcast_of(name: str) -> MapStateDescriptor:
    """Return the broadcast state of a vertex: by key all values of its second side."""
    element = Types.TUPLE([Types.STRING(), Types.LONG()])
    return MapStateDescriptor(f"{name} twos", Types.STRING(), Types.LIST(element))


class PairsWithBroadcast(KeyedBroadcastProcessFunction):
    """Pairs each value of a keyed stream with each value of its key in a broadcast one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept = ListStateDescriptor(f"{name} ones", Types.TUPLE([Types.STRING(), Types.LONG()]))
        self._broadcast = broadcast_of(name)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._ones = runtime_context.get_list_state(self._kept)

    def process_element(
        self, value: Value, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[Value]:
        """Pair a value with those that were broadcast before it."""
        self._ones.add(value[2:])
        for two in ctx.get_broadcast_state(self._broadcast).get(value[1]) or ():
            yield pair_of(self._name, value[1], value[2:], two)

    def process_broadcast_element(
        self, value: Value, ctx: KeyedBroadcastProcessFunction.Context
    ) -> list[Value]:
        """Keep a value in every subtask, and pair it with those of its key that came before it."""
        state = ctx.get_broadcast_state(self._broadcast)
        state.put(value[1], [*(state.get(value[1]) or ()), value[2:]])
        pairs: list[Value] = []

        def pair(key: str, ones: Any) -> None:
            if key == value[1]:
                pairs.extend(pair_of(self._name, key, one, value[2:]) for one in ones.get())

        ctx.apply_to_keyed_state(self._kept, pair)
        return pairs


class PairsWithCalls(PairsWithBroadcast):
    """The same pairs, with timers on the keyed side, and other calls of the broadcast state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        pending = ListStateDescriptor(f"{self._name} pending", Types.LONG())
        self._pending = runtime_context.get_list_state(pending)

    def process_element(
        self, value: Value, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[Value]:
        """Pair a value as before, and have a timer for its number; an odd one is deleted."""
        timers, due = ctx.timer_service(), 10 * value[3]
        timers.register_event_time_timer(due)
        timers.register_event_time_timer(END_MS)
        pending = {*self._pending.get(), due}
        if value[3] % 2:
            timers.delete_event_time_timer(due)
            pending.remove(due)
        self._pending.update(sorted(pending))
        state = ctx.get_broadcast_state(self._broadcast)
        if value[1] in state and (state.is_empty() or value[1] not in list(state.keys())):
            yield "broadcast state", value[1], "has no keys", 0
        yield from super().process_element(value, ctx)

    def process_broadcast_element(
        self, value: Value, ctx: KeyedBroadcastProcessFunction.Context
    ) -> list[Value]:
        """Keep a value in every subtask: the entry is removed, and put back with it."""
        state = ctx.get_broadcast_state(self._broadcast)
        before = dict(state.items())
        pairs = list(super().process_broadcast_element(value, ctx))
        kept = {key: list(twos) for key, twos in state.items()}
        if value[3] % 2:
            state.clear()
        for key in list(state.keys()):
            state.remove(key)
        if not state.is_empty():
            pairs.append(("broadcast state", value[1], "is not empty", 0))
        state.put_all(kept)
        if not set(before) <= set(state.keys()):
            pairs.append(("broadcast state", value[1], "lacks keys", 0))
        return pairs

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Value]:
        """Note a timer that was deleted, or that has not fired."""
        pending = list(self._pending.get())
        if timestamp == END_MS:
            if pending:
                yield pair_of("not fired", ctx.get_current_key(), (f"{pending}", 0), ("", 0))
            return
        if timestamp not in pending:
            yield pair_of("not registered", ctx.get_current_key(), (f"{timestamp}", 0), ("", 0))
        self._pending.update([each for each in pending if each != timestamp])


class Near(ProcessJoinFunction):
    """Pairs the values of an interval join."""

    def __init__(self, name: str) -> None:
        self._name = name

    def process_element(self, left: Value, right: Value, ctx: ProcessJoinFunction.Context) -> Iterator[Value]:
        yield pair_of(self._name, left[1], left[2:], right[2:])


def together(one: Value, two: Value) -> Value:
    """Make one value of two of a key, in any order: the lesser lane, all origins, the numbers added up."""
    origins = " ".join(sorted([*one[2].split(" "), *two[2].split(" ")]))
    return min(one[0], two[0]), one[1], origins, (one[3] + two[3]) % MODULUS


class Inside(ProcessWindowFunction):
    """Makes one value of all in a window of a key."""

    def __init__(self, name: str) -> None:
        self._step = name[1:]

    def process(self, key: str, context: Any, elements: Iterable[Value]) -> Iterator[Value]:
        values = list(elements)
        origins = " ".join(sorted(" ".join(value[2] for value in values).split(" ")))
        yield self._step, key, origins, sum(value[3] for value in values) % MODULUS


class Each(ProcessWindowFunction):
    """Emits each value in a window as it is."""

    def process(self, key: str, context: Any, elements: Iterable[Value]) -> Iterator[Value]:
        yield from elements


class EachOfSessions(ProcessWindowFunction):
    """Emits each value in a session as it is, and one value more where the session should be part of another.

    A value that comes in time joins the sessions that it touches, also one that has fired, holds nothing more
    and is still kept. So a session that fires contains those that it touches. It begins and ends where one of
    these does, or one of its values.
    """

    def __init__(self, name: str) -> None:
        self._fired = ListStateDescriptor(f"{name} fired", Types.TUPLE([Types.LONG(), Types.LONG()]))

    def process(self, key: str, context: Any, elements: Iterable[Value]) -> Iterator[Value]:
        values = list(elements)
        yield from values
        start, end = context.window().start, context.window().end
        fired, merged, others = self._sessions(context)
        for first, last in others:
            if first <= end and start <= last:
                yield "not merged", key, f"{start} to {end} beside {first} to {last}", 0
        times = [stamp_of(value) for value in values]
        parts = [*merged, *[(time, time + GAP_MS) for time in times]]
        if (start, end) != (min(part[0] for part in parts), max(part[1] for part in parts)):
            yield "merged with nothing", key, f"{start} to {end} of {sorted(times)}", 0
        fired.update([*others, (start, end)])

    def clear(self, context: Any) -> None:
        """Forget the session and what it contains: it is not kept any longer."""
        fired, _, others = self._sessions(context)
        fired.update(others)

    def _sessions(self, context: Any) -> tuple[Any, list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the state of fired sessions, and those in it that a session contains, and does not."""
        start, end = context.window().start, context.window().end
        fired = context.global_state().get_list_state(self._fired)
        known = [tuple(each) for each in fired.get()]
        merged = [each for each in known if each[0] >= start and each[1] <= end]
        return fired, merged, [each for each in known if each not in merged]


class Gather(AggregateFunction):
    """Gathers the origins of values, and the sum of their numbers."""

    def create_accumulator(self) -> tuple[list[str], int]:
        return [], 0

    def add(self, value: Value, accumulator: tuple[list[str], int]) -> tuple[list[str], int]:
        return [*accumulator[0], value[2]], accumulator[1] + value[3]

    def get_result(self, accumulator: tuple[list[str], int]) -> Value:
        origins = " ".join(sorted(" ".join(accumulator[0]).split(" ")))
        return "", "", origins, accumulator[1] % MODULUS

    def merge(self, acc_a: tuple[list[str], int], acc_b: tuple[list[str], int]) -> tuple[list[str], int]:
        return [*acc_a[0], *acc_b[0]], acc_a[1] + acc_b[1]


class TumblingByTimers(KeyedProcessFunction):
    """A tumbling window that is made by hand, of a MapState and timers."""

    def __init__(self, name: str) -> None:
        self._name = name

    def open(self, runtime_context: RuntimeContext) -> None:
        self._inside = runtime_context.get_map_state(
            MapStateDescriptor(f"{self._name} inside", Types.LONG(), VALUE)
        )

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> None:
        last = self._last_of_window(ctx)
        before = self._inside.get(last)
        one = value if before is None else together(before, value)
        # No value keeps its lane: what a window holds must not depend on which came first.
        self._inside.put(last, (self._name[1:], *one[1:]))
        ctx.timer_service().register_event_time_timer(last)

    def _last_of_window(self, ctx: KeyedProcessFunction.Context) -> int:
        at = ctx.timestamp()
        assert at is not None
        return at - at % SIZE_MS + SIZE_MS - 1

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Value]:
        _, key, origin, number = self._inside.get(timestamp)
        self._inside.remove(timestamp)
        yield self._name[1:], key, " ".join(sorted(origin.split(" "))), number % MODULUS


class TumblingByTwoTimers(TumblingByTimers):
    """The same with a second timer, 1 ms later, which the first one deletes. One watermark makes both due."""

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> None:
        super().process_element(value, ctx)
        ctx.timer_service().register_event_time_timer(self._last_of_window(ctx) + 1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Value]:
        if timestamp % SIZE_MS == 0:
            yield "not deleted", ctx.get_current_key(), f"the timer of {timestamp}", 0
            return
        ctx.timer_service().delete_event_time_timer(timestamp + 1)
        yield from super().on_timer(timestamp, ctx)
