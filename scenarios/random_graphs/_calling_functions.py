"""Functions that call each method of a state, of timers and of contexts; ``_functions.py`` has the rules.

They pass their values on. Which calls a value leads to follows from its number. What a state must hold is in
a second one, a plain value in the same checkpoints. Where the two differ, there is a row of which no oracle
knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from onceproof.engine import (
    AggregatingStateDescriptor,
    CheckpointedFunction,
    CheckpointListener,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    TimeDomain,
    TimerService,
    Types,
    ValueStateDescriptor,
)
from onceproof.scenarios.random_graphs._functions import END_MS, VALUE, Sum, Value, lasting, plus

MANY: Final = 120
"""The elements that are added at once where the number is a multiple of LONG."""
LONG: Final = 5


class Calls(KeyedProcessFunction):
    """Passes values on; calls the state again when the watermark has passed a value, and at the end."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        pairs = Types.LIST(Types.TUPLE([Types.LONG(), Types.LONG()]))
        self._mirror = runtime_context.get_state(ValueStateDescriptor(f"{self._name} mirror", pairs))
        self._called = self.state(runtime_context)

    def state(self, runtime_context: RuntimeContext) -> Any:
        """Return the state that is called."""
        raise NotImplementedError

    def call(self, number: int, held: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Call the state as a number says; ``held`` is what it holds before. Return what it holds then."""
        raise NotImplementedError

    def differences(self, held: list[tuple[int, int]]) -> Iterator[str]:
        """Yield each answer of the state that is not that of what it must hold."""
        raise NotImplementedError

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> Iterator[Value]:
        yield from self._called_with(value[3], value[1])
        ctx.timer_service().register_event_time_timer(100 * value[3])
        ctx.timer_service().register_event_time_timer(END_MS)
        yield value[0] + self._name[1:], value[1], value[2], value[3]

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Value]:
        yield from self._called_with(timestamp // 100 + 3, ctx.get_current_key())

    def _called_with(self, number: int, key: str) -> Iterator[Value]:
        held = [(one, two) for one, two in self._mirror.value() or ()]
        for difference in self.differences(held):
            yield "before", key, difference, number
        held = self.call(number, held)
        self._mirror.update(held)
        for difference in self.differences(held):
            yield "after", key, difference, number


class CallsOnValue(Calls):
    """Calls a ValueState."""

    def state(self, runtime_context: RuntimeContext) -> Any:
        return runtime_context.get_state(
            lasting(ValueStateDescriptor(f"{self._name} called", Types.LONG()), self._ttl)
        )

    def call(self, number: int, held: list[tuple[int, int]]) -> list[tuple[int, int]]:
        if number % 4 == 3:
            if number % 8 == 3:
                self._called.clear()
            else:
                # None clears, too.
                self._called.update(None)
            return []
        self._called.update(number)
        return [(number, 0)]

    def differences(self, held: list[tuple[int, int]]) -> Iterator[str]:
        if self._called.value() != (held[0][0] if held else None):
            yield f"value() is {self._called.value()}, not {held}"


class CallsOnList(Calls):
    """Calls a ListState, with lists that the function changes afterwards."""

    def state(self, runtime_context: RuntimeContext) -> Any:
        return runtime_context.get_list_state(
            lasting(ListStateDescriptor(f"{self._name} called", Types.LONG()), self._ttl)
        )

    def call(self, number: int, held: list[tuple[int, int]]) -> list[tuple[int, int]]:
        # A database clears more than a hundred elements in another way than few.
        numbers = [number, number + 1] if number % LONG else [number] * MANY
        added = [(each, 0) for each in numbers]
        match number % 6:
            case 0 | 1:
                self._called.add(number)
                return [*held[-5:], added[0]] if self._shortened(held) else [*held, added[0]]
            case 2 | 3:
                self._called.add_all(numbers)
                held = [*held, *added]
            case 4:
                self._called.update(numbers)
                held = added
            case _:
                self._called.clear()
                held = []
        numbers.append(-1)
        return held

    def _shortened(self, held: list[tuple[int, int]]) -> bool:
        """Keep the last six of a long list, which ``add`` has just made longer."""
        if len(held) > 8:
            self._called.update(list(self._called.get())[-6:])
        return len(held) > 8

    def differences(self, held: list[tuple[int, int]]) -> Iterator[str]:
        for name, numbers in (("get", list(self._called.get())), ("iter", list(self._called))):
            if numbers != [number for number, _ in held]:
                yield f"{name}() is {numbers}, not {held}"


class CallsOnLists(Calls):
    """Calls a ListState of lists, which the function changes when they are stored, and when they are read."""

    def state(self, runtime_context: RuntimeContext) -> Any:
        numbers = Types.LIST(Types.LONG())
        return runtime_context.get_list_state(
            lasting(ListStateDescriptor(f"{self._name} called", numbers), self._ttl)
        )

    def call(self, number: int, held: list[tuple[int, int]]) -> list[tuple[int, int]]:
        lists = [[number], [number + 1]]
        added = [(one, 0) for [one] in lists]
        match number % 5:
            case 0 | 1:
                self._called.add(lists[0])
                held = [*held, added[0]]
            case 2:
                self._called.add_all(lists)
                held = [*held, *added]
            case 3:
                self._called.update(lists)
                held = added
            case _:
                self._called.clear()
                held = []
        for each in lists:
            each.append(-1)
        return held

    def differences(self, held: list[tuple[int, int]]) -> Iterator[str]:
        lists = list(self._called.get())
        if lists != [[number] for number, _ in held]:
            yield f"get() is {lists}, not {held}"
        for each in lists:
            each.append(-2)


class CallsOnMap(Calls):
    """Calls a MapState; some of what it iterates over it removes."""

    def state(self, runtime_context: RuntimeContext) -> Any:
        return runtime_context.get_map_state(
            lasting(MapStateDescriptor(f"{self._name} called", Types.LONG(), Types.LONG()), self._ttl)
        )

    def call(self, number: int, held: list[tuple[int, int]]) -> list[tuple[int, int]]:
        kept, key = dict(held), number % 5
        added = {key: number, key + 1: number}
        if number % LONG == 0:
            added = {7 + each: number for each in range(MANY)}
        match number % 8:
            case 0:
                self._called.put(key, number)
                kept[key] = number
            case 1 | 2:
                self._called.put_all(added)
                kept.update(added)
            case 3:
                self._called.put_all(list(added.items()))
                kept.update(added)
            case 4:
                self._called.remove(key)
                kept.pop(key, None)
            case 5:
                for one in [each for each, _ in self._called.items() if each % 2]:
                    self._called.remove(one)
                kept = {one: two for one, two in held if one % 2 == 0}
            case 6:
                self._called[key] = number
                if key + 1 in self._called:
                    del self._called[key + 1]
                kept[key] = number
                kept.pop(key + 1, None)
            case _:
                self._called.clear()
                kept = {}
        added.clear()
        self._called.put_all(added)
        return sorted(kept.items())

    def differences(self, held: list[tuple[int, int]]) -> Iterator[str]:
        called, wanted = self._called, dict(held)
        asked = sorted({*range(7), *wanted})
        answers = {
            "items": (sorted(called.items()), held),
            "keys": (sorted(called.keys()), sorted(wanted)),
            "values": (sorted(called.values()), sorted(wanted.values())),
            "iter": (sorted(called), sorted(wanted)),
            "is_empty": (called.is_empty(), not wanted),
            "contains": ([each for each in asked if called.contains(each)], sorted(wanted)),
            "in": ([each for each in asked if each in called], sorted(wanted)),
            "get": ([called.get(each) for each in asked], [wanted.get(each) for each in asked]),
            "[]": ([called[each] for each in wanted], list(wanted.values())),
        }
        for name, (answer, right) in answers.items():
            if answer != right:
                yield f"{name} is {answer}, not {right}"


class CallsOnMapOfLists(Calls):
    """Calls a MapState of lists, which the function changes as CallsOnLists does."""

    def state(self, runtime_context: RuntimeContext) -> Any:
        kinds = Types.LONG(), Types.PICKLED_BYTE_ARRAY()
        return runtime_context.get_map_state(
            lasting(MapStateDescriptor(f"{self._name} called", *kinds), self._ttl)
        )

    def call(self, number: int, held: list[tuple[int, int]]) -> list[tuple[int, int]]:
        kept, key, numbers = dict(held), number % 3, [number]
        match number % 5:
            case 0 | 1:
                self._called.put(key, numbers)
                kept[key] = number
            case 2:
                self._called.put_all({key: numbers, key + 1: numbers})
                kept.update({key: number, key + 1: number})
            case 3:
                self._called.remove(key)
                kept.pop(key, None)
            case _:
                self._called.clear()
                kept = {}
        numbers.append(-1)
        return sorted(kept.items())

    def differences(self, held: list[tuple[int, int]]) -> Iterator[str]:
        called, items = self._called, sorted(self._called.items())
        if items != [(key, [number]) for key, number in held] or called.is_empty() is bool(held):
            yield f"items() is {items}, not {held}"
        lists = [numbers for _, numbers in items]
        for key, number in held:
            if called.get(key) != [number] or not called.contains(key):
                yield f"get({key}) is {called.get(key)}, not {number}"
            lists.append(called.get(key))
        for each in lists:
            each.append(-2)


class CallsOnReducing(Calls):
    """Calls a ReducingState."""

    def state(self, runtime_context: RuntimeContext) -> Any:
        return runtime_context.get_reducing_state(
            lasting(ReducingStateDescriptor(f"{self._name} called", plus, Types.LONG()), self._ttl)
        )

    def call(self, number: int, held: list[tuple[int, int]]) -> list[tuple[int, int]]:
        if number % 5 == 4:
            if number % 2:
                self._called.clear()
            else:
                self._called.add(None)
            return []
        self._called.add(number)
        return [(number + (held[0][0] if held else 0), 0)]

    def differences(self, held: list[tuple[int, int]]) -> Iterator[str]:
        if self._called.get() != (held[0][0] if held else None):
            yield f"get() is {self._called.get()}, not {held}"


class CallsOnAggregating(CallsOnReducing):
    """Calls an AggregatingState."""

    def state(self, runtime_context: RuntimeContext) -> Any:
        return runtime_context.get_aggregating_state(
            lasting(AggregatingStateDescriptor(f"{self._name} called", Sum(), Types.LONG()), self._ttl)
        )


class CallsOnTimers(KeyedProcessFunction):
    """Registers timers and deletes some; one that fires and was deleted, or does not fire, is a row."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name, self._ttl = name, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        pending = ListStateDescriptor(f"{self._name} called", Types.LONG())
        self._pending = runtime_context.get_list_state(lasting(pending, self._ttl))

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> Iterator[Value]:
        if ctx.get_current_key() != value[1]:
            yield "another key", value[1], str(ctx.get_current_key()), value[3]
        yield from self.call(value, ctx.timer_service())

    def call(self, value: Value, timers: TimerService) -> Iterator[Value]:
        """Register timers for a value and delete some, and pass it on."""
        number = value[3]
        pending = set(self._pending.get())
        # Another one of each second value is due only if the input goes on for long.
        due = (
            timers.current_watermark() + 40 * (number % 3) if timers.current_watermark() > 0 else 10 * number
        )
        timers.register_event_time_timer(due)
        timers.register_event_time_timer(due)
        pending.add(due)
        timers.register_event_time_timer(due + 7)
        timers.delete_event_time_timer(due + 7)
        pending.discard(due + 7)
        if number % 2 and pending:
            timers.delete_event_time_timer(min(pending))
            pending.discard(min(pending))
        timers.register_event_time_timer(END_MS)
        now = timers.current_processing_time()
        even = now + now % 2 + 2 * (number % 9)
        timers.register_processing_time_timer(even)
        timers.register_processing_time_timer(even + 5)
        timers.delete_processing_time_timer(even + 5)
        self._pending.update(sorted(pending))
        yield value[0] + self._name[1:], value[1], value[2], number

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Value]:
        if ctx.time_domain() is TimeDomain.PROCESSING_TIME:
            if timestamp % 2:
                yield "not deleted", ctx.get_current_key(), f"processing time {timestamp}", 0
            return
        pending = list(self._pending.get())
        if timestamp == END_MS:
            if pending:
                yield "not fired", ctx.get_current_key(), f"{pending}", 0
            return
        if timestamp not in pending:
            yield "not registered", ctx.get_current_key(), f"{timestamp} of {pending}", 0
        self._pending.update([each for each in pending if each != timestamp])


class CallsOnTimersUnkeyed(ProcessFunction):
    """Does the same in a function that is not made for a keyed stream; a timer passes the values on."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._calls = CallsOnTimers(name, ttl)
        self._descriptor = lasting(ListStateDescriptor(f"{name} held", VALUE), ttl)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._calls.open(runtime_context)
        self._held = runtime_context.get_list_state(self._descriptor)

    def process_element(self, value: Value, ctx: ProcessFunction.Context) -> None:
        self._held.add_all(list(self._calls.call(value, ctx.timer_service())))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Value]:
        yield from self._calls.on_timer(timestamp, ctx)
        if timestamp == END_MS:
            yield from self._held.get()


class CallsOnOperatorState(KeyedProcessFunction, CheckpointedFunction, CheckpointListener):
    """Calls operator state where its life begins, at snapshots and at notifications."""

    def __init__(self, name: str, ttl: bool) -> None:
        self._name = name
        self._wrong: list[str] = []
        self._known: set[int] = set()
        self._passed = 0

    def initialize_state(self, context: Any) -> None:
        """Read what was stored: each subtask has stored three numbers, and to the union one."""
        restored = context.get_restored_checkpoint_id()
        if context.is_restored() is (restored is None):
            self._wrong.append(f"restored, and from {restored}")
        store = context.get_operator_state_store()
        self._own = store.get_list_state(ListStateDescriptor(f"{self._name} own", Types.LONG()))
        self._union = store.get_union_list_state(ListStateDescriptor(f"{self._name} union", Types.LONG()))
        own, union = list(self._own.get()), list(self._union.get())
        if not context.is_restored() and (own or union):
            self._wrong.append(f"not restored, with {own} and {union}")
        if not set(own) <= {each for passed in union for each in (passed, passed + 1, passed + 2)}:
            self._wrong.append(f"{own} is not of {union}")
        self._known = {restored or 0}

    def open(self, runtime_context: RuntimeContext) -> None:
        subtasks = runtime_context.get_number_of_parallel_subtasks()
        if not 0 <= runtime_context.get_index_of_this_subtask() < subtasks:
            self._wrong.append(f"subtask {runtime_context.get_index_of_this_subtask()} of {subtasks}")
        if subtasks > runtime_context.get_max_number_of_parallel_subtasks():
            self._wrong.append(f"{subtasks} subtasks are too many")
        names = runtime_context.get_task_name(), runtime_context.get_task_name_with_subtasks()
        if not names[1].startswith(names[0]) or runtime_context.get_attempt_number() < 0:
            self._wrong.append(f"attempt {runtime_context.get_attempt_number()} of {names}")
        if not runtime_context.get_operator_unique_id() or not runtime_context.get_attempt_id():
            self._wrong.append("an operator or an attempt without an id")
        if runtime_context.get_job_parameter("no such parameter", "none") != "none":
            self._wrong.append("a parameter that the job has not")
        self._job = runtime_context.get_job_id()
        self._counter = runtime_context.get_metrics_group().counter("passed")

    def snapshot_state(self, context: Any) -> None:
        """Store three numbers in two ways, and one in the union."""
        self._known.add(context.get_checkpoint_id())
        if context.get_checkpoint_timestamp() < 0:
            self._wrong.append(f"a snapshot at {context.get_checkpoint_timestamp()}")
        numbers = [self._passed, self._passed + 1]
        self._own.update(numbers[:1])
        self._own.add_all(numbers[1:])
        self._own.add(self._passed + 2)
        self._union.clear()
        self._union.add(self._passed)
        numbers.clear()
        if list(self._own.get()) != [self._passed, self._passed + 1, self._passed + 2]:
            self._wrong.append(f"stored {list(self._own.get())}")

    def close(self) -> None:
        """End in the job in which it began."""
        assert self.get_runtime_context().get_job_id() == self._job, "another job at the end"

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note a checkpoint that this subtask has not been asked for."""
        if checkpoint_id not in self._known and checkpoint_id > max(self._known):
            self._wrong.append(f"notified of {checkpoint_id}")

    def process_element(self, value: Value, ctx: KeyedProcessFunction.Context) -> Iterator[Value]:
        self._passed += 1
        self._counter.inc()
        if ctx.get_current_key() != value[1]:
            self._wrong.append(f"key {ctx.get_current_key()} at {ctx.timestamp()}")
        for wrong in self._wrong:
            yield "operator state", value[1], wrong, value[3]
        self._wrong.clear()
        yield value[0] + self._name[1:], value[1], value[2], value[3]
