"""Triggers decide when a window fires, and whether it is purged (PyFlink: Trigger).

A trigger is an immutable description, shared by all keys and windows. It keeps state in
``ctx.get_partitioned_state`` and registers timers; both belong to the current key and window. As in Flink, a
timer fires the window with whatever it holds then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

from onceproof.engine.durations import Duration, Time, milliseconds_of
from onceproof.engine.metrics import MetricGroup
from onceproof.engine.state.descriptors import ReducingStateDescriptor, StateDescriptor
from onceproof.engine.state.interfaces import ReducingState
from onceproof.engine.type_parameters import TypeParameters
from onceproof.engine.types import Types
from onceproof.engine.windows.windows import Window


class TriggerResult(Enum):
    """Whether a window fires and is purged (PyFlink: TriggerResult)."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Return whether the window function is called and its results are emitted."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the contents of the window are cleared."""
        return self.value[1]


CONTINUE = TriggerResult.CONTINUE
FIRE = TriggerResult.FIRE
FIRE_AND_PURGE = TriggerResult.FIRE_AND_PURGE


class TriggerScope(ABC):
    """The context of a trigger, for the current key and window (PyFlink: Trigger.TriggerContext)."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the wall clock in milliseconds since the epoch, read once for each event of the task."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """Return the current watermark."""

    @abstractmethod
    def register_processing_time_timer(self, time: int) -> None:
        """Register a timer: ``on_processing_time`` is called when the clock has reached ``time``."""

    @abstractmethod
    def register_event_time_timer(self, time: int) -> None:
        """Register a timer: ``on_event_time`` is called when the watermark has reached ``time``."""

    @abstractmethod
    def delete_processing_time_timer(self, time: int) -> None:
        """Delete the timer at ``time``; do nothing if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, time: int) -> None:
        """Delete the timer at ``time``; do nothing if there is none."""

    @abstractmethod
    def get_metric_group(self) -> MetricGroup:
        """Return the metrics of this subtask of the window operator."""

    @abstractmethod
    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return the trigger's state of the current key and window."""


class MergedScope(TriggerScope):
    """The context of ``on_merge`` (PyFlink: Trigger.OnMergeContext)."""

    @abstractmethod
    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the merged windows into that of the new one."""


class Trigger(TypeParameters, ABC):
    """Decides when a window fires (PyFlink: Trigger)."""

    TriggerContext: ClassVar = TriggerScope
    OnMergeContext: ClassVar = MergedScope

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerScope) -> TriggerResult:
        """Decide after a record was added to the window.

        Args:
            element: the value of the record.
            timestamp: its timestamp in milliseconds, or MIN_WATERMARK if it has none.
            window: the window.
            ctx: the times, timers and state of the current key and window.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: TriggerScope) -> TriggerResult:
        """Decide when a processing-time timer at ``time`` fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: TriggerScope) -> TriggerResult:
        """Decide when an event-time timer at ``time`` fires."""

    def can_merge(self) -> bool:
        """Return whether the trigger implements ``on_merge``, which merging windows need."""
        return False

    @abstractmethod
    def on_merge(self, window: Any, ctx: MergedScope) -> None:
        """Merge the state of several windows that became ``window``, and register its timers.

        Afterwards the operator calls ``clear`` for each of the merged windows.
        """

    @abstractmethod
    def clear(self, window: Any, ctx: TriggerScope) -> None:
        """Delete the timers and state of a window whose cleanup time has come."""


class EventTimeTrigger(Trigger):
    """Fires when the watermark passes the end of the window (PyFlink: EventTimeTrigger).

    A record that comes later, and is allowed to, fires it again at once.
    """

    @staticmethod
    def create() -> EventTimeTrigger:
        """Return the trigger."""
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Fire at once if the watermark has passed the end of the window, else register a timer there."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(end)
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Fire at the end of the window; another timer may be that of the cleanup."""
        return FIRE if time == window.max_timestamp() else CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        """Register a timer at the new end; if the watermark has passed it, the merging record fires."""
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger):
    """Fires when processing time passes the end of the window (PyFlink: ProcessingTimeTrigger)."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Return the trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return FIRE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        end = window.max_timestamp()
        if end > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(end)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class NeverTrigger(Trigger):
    """Never fires: the default of global windows (PyFlink: NeverTrigger)."""

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return CONTINUE

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        """Do nothing."""

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        """Do nothing."""


class CountTrigger(Trigger):
    """Fires when ``window_size`` records were added since it fired last (PyFlink: CountTrigger)."""

    def __init__(self, window_size: int) -> None:
        if type(window_size) is not int or window_size < 1:
            raise ValueError(f"a count trigger needs a whole number of at least 1, not {window_size!r}")
        self.window_size = window_size
        self.count_descriptor = ReducingStateDescriptor("count", _sum, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Return a trigger that fires after every ``window_size`` records.

        Raises:
            ValueError: ``window_size`` is not a positive whole number.
        """
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        count: ReducingState = ctx.get_partitioned_state(self.count_descriptor)
        count.add(1)
        if count.get() >= self.window_size:
            count.clear()
            return FIRE
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Continue: fewer records than ``window_size`` at the end of a window are dropped."""
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        ctx.merge_partitioned_state(self.count_descriptor)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        ctx.get_partitioned_state(self.count_descriptor).clear()


class _Continuous(Trigger):
    """Fires at multiples of an interval; the next one is state of each window."""

    def __init__(self, interval: int) -> None:
        if type(interval) is not int or interval < 1:
            raise ValueError(
                f"a continuous trigger needs an interval of at least 1 millisecond, not {interval!r}"
            )
        self.interval_ms = interval
        self._next_fire = ReducingStateDescriptor("fire-time", min, Types.LONG())

    def _begin(self, time: int, window: Window, ctx: TriggerScope, register: Callable[[int], None]) -> None:
        """Register the first multiple of the interval after ``time`` if the window has no next time yet."""
        next_fire: ReducingState = ctx.get_partitioned_state(self._next_fire)
        if next_fire.get() is None:
            # Java's remainder has the sign of the time.
            passed = time % self.interval_ms if time >= 0 else -(-time % self.interval_ms)
            self._register_next(time - passed, window, next_fire, register)

    def _go_on(self, time: int, window: Window, ctx: TriggerScope, register: Callable[[int], None]) -> bool:
        """Return whether the timer is that of the next interval; if so, register the one after it.

        None follows the end of the window: Flink registers the end again there, and fires forever where
        the wall clock has passed the end of an event-time window (FLINK-35069).
        """
        next_fire: ReducingState = ctx.get_partitioned_state(self._next_fire)
        if next_fire.get() != time:
            return False
        next_fire.clear()
        if time < window.max_timestamp():
            self._register_next(time, window, next_fire, register)
        return True

    def _register_next(
        self, time: int, window: Window, next_fire: ReducingState, register: Callable[[int], None]
    ) -> None:
        due = min(time + self.interval_ms, window.max_timestamp())
        next_fire.add(due)
        register(due)

    def can_merge(self) -> bool:
        return True

    def _merge(self, ctx: MergedScope, register: Callable[[int], None]) -> None:
        """Register the earliest next time of the merged windows."""
        ctx.merge_partitioned_state(self._next_fire)
        due = ctx.get_partitioned_state(self._next_fire).get()
        if due is not None:
            register(due)

    def _clear(self, ctx: TriggerScope, delete: Callable[[int], None]) -> None:
        next_fire: ReducingState = ctx.get_partitioned_state(self._next_fire)
        due = next_fire.get()
        if due is not None:
            delete(due)
            next_fire.clear()


class ContinuousEventTimeTrigger(_Continuous):
    """Fires at multiples of an interval in event time, and at the end of the window.

    PyFlink: ContinuousEventTimeTrigger.
    """

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousEventTimeTrigger:
        """Return a trigger that fires at multiples of ``interval``.

        Raises:
            TypeError: ``interval`` is no Time or Duration.
            ValueError: ``interval`` is less than 1 ms.
        """
        return ContinuousEventTimeTrigger(milliseconds_of(interval, "interval"))

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Fire at once if the watermark has passed the end, else register the end and the next interval."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(end)
        self._begin(timestamp, window, ctx, ctx.register_event_time_timer)
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        if time == window.max_timestamp():
            return FIRE
        return FIRE if self._go_on(time, window, ctx, ctx.register_event_time_timer) else CONTINUE

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        self._merge(ctx, ctx.register_event_time_timer)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        self._clear(ctx, ctx.delete_event_time_timer)


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires at multiples of an interval in processing time (PyFlink: ContinuousProcessingTimeTrigger)."""

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousProcessingTimeTrigger:
        """Return a trigger that fires at multiples of ``interval``.

        Raises:
            TypeError: ``interval`` is no Time or Duration.
            ValueError: ``interval`` is less than 1 ms.
        """
        return ContinuousProcessingTimeTrigger(milliseconds_of(interval, "interval"))

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        now = ctx.get_current_processing_time()
        self._begin(now, window, ctx, ctx.register_processing_time_timer)
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return FIRE if self._go_on(time, window, ctx, ctx.register_processing_time_timer) else CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return CONTINUE

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        self._merge(ctx, ctx.register_processing_time_timer)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        self._clear(ctx, ctx.delete_processing_time_timer)


class PurgingTrigger(Trigger):
    """Fires when another trigger fires, and purges the window then (PyFlink: PurgingTrigger)."""

    def __init__(self, nested_trigger: Trigger) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """Return a trigger that purges whenever ``nested_trigger`` fires."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        self.nested_trigger.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return FIRE_AND_PURGE if result.is_fire() else result


def _sum(left: int, right: int) -> int:
    return left + right
