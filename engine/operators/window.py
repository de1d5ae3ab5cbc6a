"""Windows over a keyed stream (Flink: WindowOperator, EvictingWindowOperator).

The rules this module lives by, all of them Flink's:

- A record is added to each of its windows that is not late. Then the trigger decides whether the window fires
  and is purged. Then the cleanup timer of the window is registered.
- A window is late when the watermark has reached its cleanup time: its last timestamp plus the allowed
  lateness. At that time its contents, the state of its trigger and that of its function are cleared.
- A late record all of whose windows are late goes to the side output, or is dropped and counted.
- Windows of processing time have no lateness and are cleaned up at their last timestamp.
- Merging windows keep their contents under one of the windows they were made of (``engine.windows.merging``).
- Results carry the last timestamp of their window.
- A window that fires without contents gives no result. One that an evictor has emptied does: a reduce gives
  None, an aggregate the result of its empty accumulator, and another function has no elements.

With the EventTimeTrigger, only the first record of a key and window calls the trigger and registers timers.
For later records that would change nothing, so they are only added to the contents. This makes ordinary
windows fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK, Record
from onceproof.engine.functions import Function
from onceproof.engine.key_identity import value_of
from onceproof.engine.operators.base import FunctionOperator, InputOrder, OperatorContext
from onceproof.engine.operators.side_outputs import emit_side_outputs
from onceproof.engine.operators.window_parts import (
    MERGING_WINDOWS,
    WINDOW_TIMERS,
    ProcessContext,
    TriggerAndEvictorContext,
    WindowFunctions,
    WindowScope,
    WindowSettings,
    contents_descriptor,
    folded,
    timestamped,
    window_function_caller,
)
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.owned import HASHED, PLAIN
from onceproof.engine.state.descriptors import LIST, ListStateDescriptor
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.timers import Timers
from onceproof.engine.types import Types
from onceproof.engine.types.row import ROW_HASHED
from onceproof.engine.windows.assigners import AssignerContext, MergingWindowAssigner
from onceproof.engine.windows.merging import MergingWindowSet
from onceproof.engine.windows.triggers import EventTimeTrigger, TriggerResult
from onceproof.engine.windows.window_functions import ProcessAllWindowFunction, ProcessWindowFunction

CONTINUE = TriggerResult.CONTINUE
MAX_KNOWN_TIMERS = 1 << 17
"""The size of the cache of (key, window) pairs whose timers are registered; a full cache is cleared."""


class MergedTooLate(RuntimeError):
    """An assigner merged windows into one whose cleanup time has passed. The message is one line."""


class _NoFunction(Function):
    """The function of windows that emit their records unchanged."""


class _AssignerContext(AssignerContext):
    """The context of the window assigner."""

    def __init__(self, clock: Callable[[], int], function: Function) -> None:
        self._clock = clock
        self._function = function

    def get_current_processing_time(self) -> int:
        return self._clock()

    def get_runtime_context(self) -> Any:
        return self._function.get_runtime_context()


class WindowOperator(FunctionOperator):
    """Assigns records to windows and fires these (Flink: WindowOperator)."""

    uses_time = True
    timers: Timers

    def __init__(self, functions: WindowFunctions, settings: WindowSettings) -> None:
        self.functions = functions
        self._functions = functions.all() or [_NoFunction()]
        # The last one is the window function, if any; it may be a CheckpointedFunction or CheckpointListener.
        super().__init__(self._functions[-1])
        self._fold = functions.fold
        self.settings = settings
        self._window_function = functions.function
        self.late_records_dropped = 0
        """The count of this subtask in this attempt (Flink: numLateRecordsDropped)."""
        self.late_records = 0
        """The count with those that went to a side output."""

    def input_order(self) -> InputOrder:
        return InputOrder((self.settings.key_selector,), self.settings.key_type)

    def create_backend(self, context: OperatorContext) -> KeyedStateBackend:
        return context.keyed_backend(self.settings.key_type)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert self._backend is not None
        assert context.downstream is not None
        settings = self.settings
        for function in self._functions[:-1]:
            function.set_runtime_context(self.function.get_runtime_context())
            function.open(self.function.get_runtime_context())
        assigner = settings.assigner
        serializer = assigner.get_window_serializer()
        window_type = serializer.window_type
        self._keyed = backend = self._backend
        self.timers = Timers(backend, WINDOW_TIMERS, context.downstream.wake_at, window_type)
        self.event_clock = self.timers
        self._merging = assigner if isinstance(assigner, MergingWindowAssigner) else None
        merging = self._merging is not None
        metrics = self.function.get_runtime_context().get_metrics_group
        scope = WindowScope(
            backend, self.timers, context.clock, assigner, context.task_name, merging, metrics
        )
        self._to_data, self._from_data = serializer.to_data, serializer.from_data
        descriptor = contents_descriptor(settings, self.functions)
        self._contents = backend.live_state(descriptor, window_type)
        self._keeps_all = descriptor.kind == LIST
        self._keeps_times = settings.evictor is not None
        if merging:
            pair_type = Types.TUPLE([window_type, window_type])
            self._window_set = backend.live_state(ListStateDescriptor(MERGING_WINDOWS, pair_type))
        self._trigger = settings.trigger
        self._context = TriggerAndEvictorContext(scope)
        self._process_context = ProcessContext(scope)
        self._apply_function = window_function_caller(self._window_function, self._process_context)
        self._assigner_context = _AssignerContext(context.clock, self.function)
        self._by_event_time = assigner.is_event_time()
        self._lateness_ms = settings.allowed_lateness_ms
        self._side_outputs = context.side_outputs
        self._fires_by_watermark = type(self._trigger) is EventTimeTrigger and self._by_event_time
        self._windows_with_timers: dict[Any, tuple[Any, set[Any]]] = {}
        """For windows that the watermark has not reached, the namespace and the keys with timers."""
        self._known_timers = 0

    # Records.

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Add records to their windows, and return the results of windows that fire at once."""
        select_key = self.settings.key_selector
        assign = self.settings.assigner.assign_windows
        context = self._assigner_context
        backend = self._keyed
        plain, identify = backend.common_kind(), backend.identify
        if backend.cleanups:
            backend.sweep(len(records))
        add = self.add if self._merging is None else self.add_and_merge
        results: list[Record] = []
        late: list[Record] = []
        for record in records:
            value, timestamp = record
            key = select_key(value)
            backend.current_key = key if key.__class__ is plain else identify(key)
            windows = assign(value, timestamp, context)
            if not add(value, timestamp, windows, results) and self._is_late(timestamp):
                late.append(record)
        if late:
            self._emit_late(late)
        return emit_side_outputs(results, self._side_outputs) if OutputTag.exist else results

    def add(self, value: Any, timestamp: int | None, windows: Any, results: list[Record]) -> bool:
        """Add a record to its windows that are not late, and return whether there was one."""
        was_added = False
        key, contents, keeps_times = self._keyed.current_key, self._contents, self._keeps_times
        for window in windows:
            known = self._windows_with_timers.get(window)
            if known is not None and key in known[1]:
                was_added = True
                contents.set_current_namespace(known[0])
                contents.add((value, timestamp) if keeps_times else value)
                continue
            cleanup_ms = self.cleanup_ms(window)
            if self._by_event_time and cleanup_ms <= self.timers.watermark:
                continue
            was_added = True
            namespace = self._to_data(window)
            contents.set_current_namespace(namespace)
            self._add_to(window, namespace, cleanup_ms, value, timestamp, results)
            if self._fires_by_watermark:
                self._remember(window, namespace, key)
        return was_added

    def _remember(self, window: Any, namespace: Any, key: Any) -> None:
        """Remember that a key and window have their timers, until the watermark reaches the window."""
        if window.max_timestamp() <= self.timers.watermark:
            return
        if self._known_timers >= MAX_KNOWN_TIMERS:
            self._windows_with_timers.clear()
            self._known_timers = 0
        self._windows_with_timers.setdefault(window, (namespace, set()))[1].add(key)
        self._known_timers += 1

    def _forget_reached_windows(self, watermark: int) -> None:
        """Forget the windows that the watermark has reached: their later records must call the trigger."""
        for window in [window for window in self._windows_with_timers if window.max_timestamp() <= watermark]:
            self._known_timers -= len(self._windows_with_timers.pop(window)[1])

    def add_and_merge(self, value: Any, timestamp: int | None, windows: Any, results: list[Record]) -> bool:
        """Do the same as ``_add`` for merging windows."""
        was_added = False
        window_set = self.windows_of_key()
        for window in windows:
            actual = window_set.add(window, self._merge)
            cleanup_ms = self.cleanup_ms(actual)
            if self._by_event_time and cleanup_ms <= self.timers.watermark:
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
        """Add a record to the current contents, apply the trigger, and register the cleanup timer."""
        self._contents.add((value, timestamp) if self._keeps_times else value)
        context = self._context
        context.namespace = namespace
        known = MIN_WATERMARK if timestamp is None else timestamp
        result = self._trigger.on_element(value, known, window, context)
        if result is not CONTINUE:
            self._act(result, window, results)
        if cleanup_ms != MAX_WATERMARK:
            if self._by_event_time:
                self.timers.event.register(self._keyed.current_key, (cleanup_ms, namespace))
            else:
                self.timers.register_processing(self._keyed.current_key, (cleanup_ms, namespace))

    def _is_late(self, timestamp: int | None) -> bool:
        if not self._by_event_time or timestamp is None:
            return False
        return timestamp + self._lateness_ms <= self.timers.watermark

    def _emit_late(self, late: list[Record]) -> None:
        self.late_records += len(late)
        tag = self.settings.late_tag
        if tag is None:
            self.late_records_dropped += len(late)
            return
        for emit in self._side_outputs.get(tag, ()):
            emit(list(late))

    # Timers.

    def process_watermark(self, timestamp: int) -> list[Record]:
        timers, trigger = self.timers, self._trigger
        timers.watermark = timestamp
        if self._windows_with_timers:
            self._forget_reached_windows(timestamp)
        results: list[Record] = []
        while (due := timers.event.pop_due(timestamp)) is not None:
            self._keyed.current_key, timer = due
            self.fire(timer, trigger.on_event_time, self._by_event_time, results)
        return emit_side_outputs(results, self._side_outputs) if OutputTag.exist else results

    def process_time(self, now: int) -> list[Record]:
        timers, trigger = self.timers, self._trigger
        results: list[Record] = []
        while (due := timers.processing.pop_due(now)) is not None:
            self._keyed.current_key, timer = due
            self.fire(timer, trigger.on_processing_time, not self._by_event_time, results)
        timers.request_wakeup()
        return emit_side_outputs(results, self._side_outputs) if OutputTag.exist else results

    def fire(
        self,
        timer: tuple[int, Any],
        ask: Callable[[int, Any, TriggerAndEvictorContext], TriggerResult],
        cleans_up: bool,
        results: list[Record],
    ) -> None:
        """Let the trigger decide at a timer, and remove a window that is over."""
        time, namespace = timer
        window = self._from_data(namespace)
        window_set = None
        held_under = namespace
        if self._merging is not None:
            window_set = self.windows_of_key()
            state_window = window_set.state_window(window)
            if state_window is None:
                # A timer of the trigger is left over; its window has been merged or cleared since.
                return
            held_under = self._to_data(state_window)
        self._contents.set_current_namespace(held_under)
        self._context.namespace = namespace
        result = ask(time, window, self._context)
        if result is not CONTINUE:
            self._act(result, window, results)
        if cleans_up and time == self.cleanup_ms(window):
            self._clear(window, window_set)
        if window_set is not None:
            self._persist(window_set)

    # Windows.

    def _act(self, result: TriggerResult, window: Any, results: list[Record]) -> None:
        """Fire the window and purge its contents, as the trigger's result says."""
        if result.is_fire():
            held = self._contents.get()
            if held is not None and not (self._keeps_all and not held):
                timestamp, own = window.max_timestamp(), self._own
                settled = self.settled_kind()
                for value in self._call_function(window, held) or ():
                    kind = value.__class__
                    if kind is not settled:
                        try:
                            if (value in HASHED or ROW_HASHED) if kind is tuple else kind not in PLAIN:
                                value = own(value)
                        except TypeError:
                            value = own(value)
                    results.append((value, timestamp))
        if result.is_purge():
            self._contents.clear()

    def _call_function(self, window: Any, held: Any) -> Any:
        """Return the values of the window function; ``held`` is the records or their folded value."""
        key = value_of(self._keyed.current_key)
        if self.settings.evictor is not None:
            return self._call_function_with_evictor(key, window, held)
        return self._apply_function(key, window, held if self._keeps_all else [held])

    def _call_function_with_evictor(self, key: Any, window: Any, held: list[tuple[Any, int | None]]) -> Any:
        evictor = self.settings.evictor
        assert evictor is not None
        elements = timestamped(held)
        evictor.evict_before(elements, len(elements), window, self._context)
        values = [element.value for element in elements]
        given = values if self._fold is None else [folded(self._fold, values)]
        emitted = self._apply_function(key, window, given)
        # A generator must end before the evictor changes its input.
        emitted = list(emitted or ())
        evictor.evict_after(elements, len(elements), window, self._context)
        self._contents.update([(element.value, element.timestamp) for element in elements])
        return emitted

    def cleanup_ms(self, window: Any) -> int:
        """Return the cleanup time of a window; MAX_WATERMARK means never."""
        end: int = window.max_timestamp()
        if not self._by_event_time:
            return end
        return min(end + self._lateness_ms, MAX_WATERMARK)

    def _clear(self, window: Any, window_set: MergingWindowSet | None) -> None:
        self._contents.clear()
        self._trigger.clear(window, self._context)
        function = self._window_function
        if isinstance(function, ProcessWindowFunction | ProcessAllWindowFunction):
            function.clear(self._process_context.of(window))
        if window_set is not None:
            window_set.retire(window)

    # Merging.

    def windows_of_key(self) -> MergingWindowSet:
        """Return the merging windows of the current key, as its state holds them."""
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
        """Merge windows: the new one's trigger takes over, the old timers go, the contents are merged."""
        self._check_merged(merged)
        context, to_data = self._context, self._to_data
        context.namespace = to_data(merged)
        context.merged = [to_data(window) for window in old]
        self._trigger.on_merge(merged, context)
        queue = self.timers.event if self._by_event_time else self.timers.processing
        for window in old:
            context.namespace = to_data(window)
            self._trigger.clear(window, context)
            queue.delete(self._keyed.current_key, (self.cleanup_ms(window), context.namespace))
        self._contents.merge_namespaces(to_data(state_window), [to_data(window) for window in emptied])

    def _check_merged(self, merged: Any) -> None:
        now = self.timers.watermark if self._by_event_time else self._context.get_current_processing_time()
        if self.cleanup_ms(merged) <= now:
            raise MergedTooLate(
                f"windows were merged into {merged}, whose time was over at {now}:"
                f" {type(self._merging).__name__} must not let a window's end move backwards"
            )

    def close(self) -> None:
        try:
            super().close()
        finally:
            for function in self._functions[:-1]:
                function.close()
