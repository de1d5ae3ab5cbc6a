"""Windows over a keyed stream (Flink: WindowOperator, EvictingWindowOperator).

The rules this module lives by, all of them Flink's:

- A record is added to each of its windows that is not late, then the trigger is asked, then the window is
  worked out and its contents are thrown away as it says; then the window's end is seen to by a timer.
- A window is late when the watermark has reached its cleanup time: its last timestamp plus the allowed
  lateness. At that time its contents, the state of its trigger and that of its function are cleared. A
  record all of whose windows are late, and that is late itself, goes to the side output, or is dropped and
  counted.
- Windows of processing time know no lateness and are cleaned up at their last timestamp.
- Windows that merge keep their contents under one of those they are made of (``engine.windows.merging``).
- Results carry the last timestamp of their window.

Where nothing but the watermark can work a window out, only the first record of a key and window has anything
to say to trigger and timers. Those that follow are added to the contents, and that is all that Flink would
do with them: this is what makes an ordinary window quick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK, Record
from onceproof.engine.functions import Function
from onceproof.engine.operators.base import FunctionOperator, OperatorContext
from onceproof.engine.operators.side_outputs import sort_out
from onceproof.engine.operators.window_parts import (
    MERGING_WINDOWS,
    WINDOW_TIMERS,
    KeyAndWindow,
    ProcessContext,
    Scope,
    WindowFunctions,
    WindowSettings,
    contents_descriptor,
    folded,
    timestamped,
    worked_out_by,
)
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.state.descriptors import LIST, ListStateDescriptor
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.timers import Timers
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import AssignerContext, MergingWindowAssigner
from onceproof.engine.windows.functions import ProcessAllWindowFunction, ProcessWindowFunction
from onceproof.engine.windows.merging import MergingWindowSet
from onceproof.engine.windows.triggers import EventTimeTrigger, TriggerResult

CONTINUE = TriggerResult.CONTINUE
REMEMBERED_WINDOWS = 1 << 17
"""So many pairs of key and window are known to have their timers; then all are forgotten."""


class MergedTooLate(RuntimeError):
    """Windows were merged into one whose time is over. The message is one line."""


class _Nothing(Function):
    """Stands for the function of windows whose records are neither folded nor given to a function."""


class _AssignerContext(AssignerContext):
    """What an assigner may ask."""

    def __init__(self, clock: Callable[[], int], function: Function) -> None:
        self._clock = clock
        self._function = function

    def get_current_processing_time(self) -> int:
        return self._clock()

    def get_runtime_context(self) -> Any:
        return self._function.get_runtime_context()


class WindowOperator(FunctionOperator):
    """Assigns records to windows and works these out (Flink: WindowOperator)."""

    uses_time = True

    def __init__(self, functions: WindowFunctions, settings: WindowSettings) -> None:
        self._functions = functions.all() or [_Nothing()]
        # The last one is the window function, if there is one; it may have operator state and listen.
        super().__init__(self._functions[-1])
        self._fold = functions.fold
        self._settings = settings
        self._work_out_by = functions.function
        self.late_records_dropped = 0
        """By this subtask in this attempt (Flink: numLateRecordsDropped)."""

    def create_backend(self, context: OperatorContext) -> KeyedStateBackend:
        """State is that of this subtask's key groups."""
        return context.keyed_backend(self._settings.key_type)

    def open(self, context: OperatorContext) -> None:
        """As every function operator; then the state of windows, their timers and contexts."""
        super().open(context)
        assert self._backend is not None
        assert context.downstream is not None
        settings = self._settings
        for function in self._functions[:-1]:
            function.set_runtime_context(self.function.get_runtime_context())
            function.open(self.function.get_runtime_context())
        assigner = settings.assigner
        serializer = assigner.get_window_serializer()
        window_type = serializer.window_type
        self._keyed = backend = self._backend
        self._timers = Timers(backend, WINDOW_TIMERS, context.downstream.wake_at, window_type)
        self._merging = assigner if isinstance(assigner, MergingWindowAssigner) else None
        merging = self._merging is not None
        scope = Scope(backend, self._timers, context.clock, assigner, context.task_name, merging)
        self._to_data, self._from_data = serializer.to_data, serializer.from_data
        functions = WindowFunctions(self._fold, self._work_out_by)
        descriptor = contents_descriptor(settings, functions)
        self._contents = backend.state(descriptor, window_type)
        self._keeps_all = descriptor.kind == LIST
        self._keeps_times = settings.evictor is not None
        if merging:
            pair_type = Types.TUPLE([window_type, window_type])
            self._window_set = backend.list_state(ListStateDescriptor(MERGING_WINDOWS, pair_type))
        self._trigger = settings.trigger
        self._context = KeyAndWindow(scope)
        self._process_context = ProcessContext(scope)
        self._work_out = worked_out_by(self._work_out_by, self._process_context)
        self._assigner_context = _AssignerContext(context.clock, self.function)
        self._by_event_time = assigner.is_event_time()
        self._lateness_ms = settings.allowed_lateness_ms
        self._side_outputs = context.side_outputs
        self._fires_by_watermark = type(self._trigger) is EventTimeTrigger and self._by_event_time
        self._standing: dict[Any, tuple[Any, set[Any]]] = {}
        """Windows that the watermark has not reached: as data, and the keys whose timers for it are there."""
        self._standing_count = 0

    # Records.

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """What follows at once: windows that are complete by their number of records, or late."""
        select_key = self._settings.key_selector
        assign = self._settings.assigner.assign_windows
        context = self._assigner_context
        backend = self._keyed
        if backend.cleanups:
            backend.sweep(len(records))
        add = self._add if self._merging is None else self._add_and_merge
        results: list[Record] = []
        late: list[Record] = []
        for record in records:
            value, timestamp = record
            backend.current_key = select_key(value)
            windows = assign(value, timestamp, context)
            if not add(value, timestamp, windows, results) and self._is_late(timestamp):
                late.append(record)
        if late:
            self._take_out(late)
        return sort_out(results, self._side_outputs) if OutputTag.exist else results

    def _add(self, value: Any, timestamp: int | None, windows: Any, results: list[Record]) -> bool:
        """Add a record to those of its windows that are not late; whether there was one."""
        was_added = False
        key, contents, keeps_times = self._keyed.current_key, self._contents, self._keeps_times
        for window in windows:
            standing = self._standing.get(window)
            if standing is not None and key in standing[1]:
                was_added = True
                contents.set_current_namespace(standing[0])
                contents.add((value, timestamp) if keeps_times else value)
                continue
            cleanup_ms = self._cleanup_ms(window)
            if self._by_event_time and cleanup_ms <= self._timers.watermark:
                continue
            was_added = True
            namespace = self._to_data(window)
            contents.set_current_namespace(namespace)
            self._add_to(window, namespace, cleanup_ms, value, timestamp, results)
            if self._fires_by_watermark:
                self._remember(window, namespace, key)
        return was_added

    def _remember(self, window: Any, namespace: Any, key: Any) -> None:
        """The timers of a key and window are there, until the watermark reaches them."""
        if window.max_timestamp() <= self._timers.watermark:
            return
        if self._standing_count >= REMEMBERED_WINDOWS:
            self._standing.clear()
            self._standing_count = 0
        self._standing.setdefault(window, (namespace, set()))[1].add(key)
        self._standing_count += 1

    def _forget_reached(self, watermark: int) -> None:
        """Windows that the watermark reaches fire, and have other things to do from now on."""
        for window in [window for window in self._standing if window.max_timestamp() <= watermark]:
            self._standing_count -= len(self._standing.pop(window)[1])

    def _add_and_merge(self, value: Any, timestamp: int | None, windows: Any, results: list[Record]) -> bool:
        """As ``_add``, where windows that overlap or touch become one."""
        was_added = False
        window_set = self._windows_of_key()
        for window in windows:
            actual = window_set.add(window, self._merge)
            cleanup_ms = self._cleanup_ms(actual)
            if self._by_event_time and cleanup_ms <= self._timers.watermark:
                window_set.retire(actual)
                continue
            was_added = True
            self._contents.set_current_namespace(self._to_data(window_set.state_window(actual)))
            self._add_to(actual, self._to_data(actual), cleanup_ms, value, timestamp, results)
        self._persist(window_set)
        return was_added

    def _add_to(
        self,
        window: Any,
        namespace: Any,
        cleanup_ms: int,
        value: Any,
        timestamp: int | None,
        results: list[Record],
    ) -> None:
        """Add a record to the contents in hand, and do as the trigger of the window says."""
        self._contents.add((value, timestamp) if self._keeps_times else value)
        context = self._context
        context.namespace = namespace
        known = MIN_WATERMARK if timestamp is None else timestamp
        result = self._trigger.on_element(value, known, window, context)
        if result is not CONTINUE:
            self._act(result, window, results)
        if cleanup_ms != MAX_WATERMARK:
            if self._by_event_time:
                self._timers.event.register(self._keyed.current_key, (cleanup_ms, namespace))
            else:
                self._timers.register_processing(self._keyed.current_key, (cleanup_ms, namespace))

    def _is_late(self, timestamp: int | None) -> bool:
        if not self._by_event_time or timestamp is None:
            return False
        return timestamp + self._lateness_ms <= self._timers.watermark

    def _take_out(self, late: list[Record]) -> None:
        tag = self._settings.late_tag
        if tag is None:
            self.late_records_dropped += len(late)
            return
        for emit in self._side_outputs.get(tag, ()):
            emit(list(late))

    # Timers.

    def process_watermark(self, timestamp: int) -> list[Record]:
        """Windows whose time has come in event time."""
        timers, trigger = self._timers, self._trigger
        timers.watermark = timestamp
        if self._standing:
            self._forget_reached(timestamp)
        results: list[Record] = []
        while (due := timers.event.pop_due(timestamp)) is not None:
            self._keyed.current_key, timer = due
            self._fire(timer, trigger.on_event_time, self._by_event_time, results)
        return sort_out(results, self._side_outputs) if OutputTag.exist else results

    def process_time(self, now: int) -> list[Record]:
        """Windows whose time has come in processing time."""
        timers, trigger = self._timers, self._trigger
        results: list[Record] = []
        while (due := timers.processing.pop_due(now)) is not None:
            self._keyed.current_key, timer = due
            self._fire(timer, trigger.on_processing_time, not self._by_event_time, results)
        timers.request_wakeup()
        return sort_out(results, self._side_outputs) if OutputTag.exist else results

    def _fire(
        self,
        timer: tuple[int, Any],
        ask: Callable[[int, Any, KeyAndWindow], TriggerResult],
        cleans_up: bool,
        results: list[Record],
    ) -> None:
        time, namespace = timer
        window = self._from_data(namespace)
        window_set = None
        held_under = namespace
        if self._merging is not None:
            window_set = self._windows_of_key()
            state_window = window_set.state_window(window)
            if state_window is None:
                # A trigger left a timer behind; its window has been merged or cleared since.
                return
            held_under = self._to_data(state_window)
        self._contents.set_current_namespace(held_under)
        self._context.namespace = namespace
        result = ask(time, window, self._context)
        if result is not CONTINUE:
            self._act(result, window, results)
        if cleans_up and time == self._cleanup_ms(window):
            self._clear(window, window_set)
        if window_set is not None:
            self._persist(window_set)

    # Windows.

    def _act(self, result: TriggerResult, window: Any, results: list[Record]) -> None:
        """Work the window out and throw its contents away, as the trigger says."""
        if result.is_fire():
            held = self._contents.get()
            if held is not None and not (self._keeps_all and not held):
                timestamp = window.max_timestamp()
                for value in self._worked_out(window, held) or ():
                    results.append((value, timestamp))
        if result.is_purge():
            self._contents.clear()

    def _worked_out(self, window: Any, held: Any) -> Any:
        """What the window gives; ``held`` are its records, or what they were folded to."""
        key = self._keyed.current_key
        if self._settings.evictor is not None:
            return self._worked_out_after_eviction(key, window, held)
        return self._work_out(key, window, held if self._keeps_all else [held])

    def _worked_out_after_eviction(self, key: Any, window: Any, held: list[tuple[Any, int | None]]) -> Any:
        evictor = self._settings.evictor
        assert evictor is not None
        elements = timestamped(held)
        evictor.evict_before(elements, len(elements), window, self._context)
        values = [element.value for element in elements]
        emitted: Any = ()
        if values and self._fold is not None:
            emitted = self._work_out(key, window, [folded(self._fold, values)])
        elif self._fold is None:
            emitted = self._work_out(key, window, values)
        # Read out before what it was given may change.
        emitted = list(emitted or ())
        evictor.evict_after(elements, len(elements), window, self._context)
        self._contents.update([(element.value, element.timestamp) for element in elements])
        return emitted

    def _cleanup_ms(self, window: Any) -> int:
        """When the window is over; the end of time is never."""
        end: int = window.max_timestamp()
        if not self._by_event_time:
            return end
        return min(end + self._lateness_ms, MAX_WATERMARK)

    def _clear(self, window: Any, window_set: MergingWindowSet | None) -> None:
        self._contents.clear()
        self._trigger.clear(window, self._context)
        function = self._work_out_by
        if isinstance(function, ProcessWindowFunction | ProcessAllWindowFunction):
            function.clear(self._process_context.of(window))
        if window_set is not None:
            window_set.retire(window)

    # Merging.

    def _windows_of_key(self) -> MergingWindowSet:
        assert self._merging is not None
        from_data = self._from_data
        pairs = [(from_data(window), from_data(state)) for window, state in self._window_set.get()]
        return MergingWindowSet(self._merging, pairs)

    def _persist(self, window_set: MergingWindowSet) -> None:
        if window_set.has_changed:
            to_data = self._to_data
            self._window_set.update(
                [(to_data(window), to_data(state)) for window, state in window_set.pairs()]
            )

    def _merge(self, merged: Any, old: list[Any], state_window: Any, emptied: list[Any]) -> None:
        """Windows become one: its trigger takes over, the old ones end, contents are brought together."""
        self._check_merged(merged)
        context, to_data = self._context, self._to_data
        context.namespace = to_data(merged)
        context.merged = [to_data(window) for window in old]
        self._trigger.on_merge(merged, context)
        queue = self._timers.event if self._by_event_time else self._timers.processing
        for window in old:
            context.namespace = to_data(window)
            self._trigger.clear(window, context)
            queue.delete(self._keyed.current_key, (self._cleanup_ms(window), context.namespace))
        self._contents.merge_namespaces(to_data(state_window), [to_data(window) for window in emptied])

    def _check_merged(self, merged: Any) -> None:
        now = self._timers.watermark if self._by_event_time else self._context.get_current_processing_time()
        if self._cleanup_ms(merged) <= now:
            raise MergedTooLate(
                f"windows were merged into {merged}, whose time was over at {now}:"
                f" {type(self._merging).__name__} must not let a window's end move backwards"
            )

    def close(self) -> None:
        """Close both functions."""
        try:
            super().close()
        finally:
            for function in self._functions[:-1]:
                function.close()
