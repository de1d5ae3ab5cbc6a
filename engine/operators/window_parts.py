"""The parts of the window operator: its settings, its state, and the contexts of functions and triggers.

The contents of windows and the state of triggers and process functions are keyed state with the window as
namespace. So they are in snapshots, are redistributed with their key, and are cleared with the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.functions import AggregateFunction, Function, KeyedStateStore, ReduceFunction
from onceproof.engine.metrics import MetricGroup
from onceproof.engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.timers import Timers
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.wrapped import nullable
from onceproof.engine.windows.assigners import WindowAssigner
from onceproof.engine.windows.evictors import Evictor, TimestampedValue, WindowEvictorContext
from onceproof.engine.windows.triggers import MergedScope, Trigger
from onceproof.engine.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowContext,
    WindowFunction,
)

CONTENTS: Final = "window-contents"
WINDOW_TIMERS: Final = "window-timers"
MERGING_WINDOWS: Final = "merging-window-set"
"""The names of state and timers in Flink's WindowOperator."""


class WindowSettings(Struct, frozen=True):
    """How a stream is windowed. ``late_tag`` is the id of the side output of late records."""

    assigner: WindowAssigner
    trigger: Trigger
    key_selector: Callable[[Any], Any]
    key_type: TypeInformation | None
    value_type: TypeInformation | None
    accumulator_type: TypeInformation | None = None
    evictor: Evictor | None = None
    allowed_lateness_ms: int = 0
    late_tag: str | None = None


class WindowFunctions:
    """The function that folds records into a window, and the window function; either may be None."""

    def __init__(self, fold: ReduceFunction | AggregateFunction | None, function: Function | None) -> None:
        self.fold = fold
        self.function = function

    def all(self) -> list[Function]:
        """Return the functions that are set, the window function last."""
        return [each for each in (self.fold, self.function) if each is not None]


def contents_descriptor(settings: WindowSettings, functions: WindowFunctions) -> StateDescriptor:
    """Return the descriptor of a window's contents: a list of records, or their folded value."""
    value_type = settings.value_type or Types.DYNAMIC()
    fold = functions.fold
    if settings.evictor is not None:
        return ListStateDescriptor(CONTENTS, Types.TUPLE([value_type, nullable(Types.LONG())]))
    if isinstance(fold, ReduceFunction):
        return ReducingStateDescriptor(CONTENTS, fold, value_type)
    if fold is not None:
        return AggregatingStateDescriptor(CONTENTS, fold, settings.accumulator_type)
    return ListStateDescriptor(CONTENTS, value_type)


def folded(fold: ReduceFunction | AggregateFunction, values: Sequence[Any]) -> Any:
    """Fold the records of a window with an evictor, which keeps them one by one and may leave none."""
    if isinstance(fold, ReduceFunction):
        if not values:
            return None
        result = values[0]
        for value in values[1:]:
            result = fold.reduce(result, value)
        return result
    accumulator = fold.create_accumulator()
    for value in values:
        accumulator = fold.add(value, accumulator)
    return fold.get_result(accumulator)


def window_function_caller(
    function: Function | None, context: ProcessContext
) -> Callable[[Any, Any, Sequence[Any]], Iterable[Any] | None]:
    """Return a function of (key, window, elements) that calls the window function of any kind."""
    if function is None:
        return lambda key, window, elements: elements
    if isinstance(function, WindowFunction):
        return function.apply
    if isinstance(function, AllWindowFunction):
        apply = function.apply
        return lambda key, window, elements: apply(window, elements)
    if isinstance(function, ProcessWindowFunction):
        process = function.process
        return lambda key, window, elements: process(key, context.of(window), elements)
    assert isinstance(function, ProcessAllWindowFunction)
    process_all = function.process
    return lambda key, window, elements: process_all(context.of(window), elements)


class WindowStateStore(KeyedStateStore, kw_only=True):
    """Gives a process window function the state of the current key and window."""

    window_type: TypeInformation
    namespace: Any

    def get_state(self, state_descriptor: Any) -> Any:
        return self._of_window(state_descriptor)

    def get_list_state(self, state_descriptor: Any) -> Any:
        return self._of_window(state_descriptor)

    def get_map_state(self, state_descriptor: Any) -> Any:
        return self._of_window(state_descriptor)

    def get_reducing_state(self, state_descriptor: Any) -> Any:
        return self._of_window(state_descriptor)

    def get_aggregating_state(self, state_descriptor: Any) -> Any:
        return self._of_window(state_descriptor)

    def _of_window(self, descriptor: StateDescriptor) -> Any:
        state = self._keyed_backend(descriptor).state(descriptor, self.window_type)
        state.set_current_namespace(self.namespace)
        return state


class WindowScope:
    """The state, timers and clock that the contexts of a window operator share."""

    __slots__ = ("backend", "clock", "merging", "metrics", "task_name", "timers", "to_data", "window_type")

    def __init__(
        self,
        backend: KeyedStateBackend,
        timers: Timers,
        clock: Callable[[], int],
        assigner: WindowAssigner,
        task_name: str,
        merging: bool,
        metrics: Callable[[], MetricGroup],
    ) -> None:
        serializer = assigner.get_window_serializer()
        self.backend = backend
        self.timers = timers
        self.clock = clock
        self.window_type = serializer.window_type
        self.to_data = serializer.to_data
        self.task_name = task_name
        self.merging = merging
        self.metrics = metrics


class ProcessContext(WindowContext):
    """The context of process window functions; one object serves all windows of a subtask."""

    def __init__(self, scope: WindowScope) -> None:
        self._scope = scope
        self._window: Any = None

    def of(self, window: Any) -> ProcessContext:
        """Set the current window, and return this object."""
        self._window = window
        return self

    def window(self) -> Any:
        return self._window

    def current_processing_time(self) -> int:
        return self._scope.clock()

    def current_watermark(self) -> int:
        return self._scope.timers.watermark

    def window_state(self) -> KeyedStateStore:
        scope = self._scope
        if scope.merging:
            raise TypeError(
                f"{scope.task_name!r} asks for the state of a window that may merge with others:"
                " keep it in global_state(), or use windows that do not merge"
            )
        return WindowStateStore(
            task_name=scope.task_name,
            backend=scope.backend,
            window_type=scope.window_type,
            namespace=scope.to_data(self._window),
        )

    def global_state(self) -> KeyedStateStore:
        return KeyedStateStore(task_name=self._scope.task_name, backend=self._scope.backend)


class TriggerAndEvictorContext(MergedScope, WindowEvictorContext):
    """The context of triggers and evictors, for the backend's current key and the window ``namespace``.

    ``merged`` are the namespaces of the windows that are being merged.
    """

    def __init__(self, scope: WindowScope) -> None:
        self._backend = scope.backend
        self._timers = scope.timers
        self._clock = scope.clock
        self._metrics = scope.metrics
        self._window_type = scope.window_type
        self._states: dict[str, Any] = {}
        self.namespace: Any = None
        self.merged: list[Any] = []

    def get_current_processing_time(self) -> int:
        return self._clock()

    def get_current_watermark(self) -> int:
        return self._timers.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.register_processing(self._backend.current_key, (time, self.namespace))

    def register_event_time_timer(self, time: int) -> None:
        self._timers.event.register(self._backend.current_key, (time, self.namespace))

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.processing.delete(self._backend.current_key, (time, self.namespace))

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.event.delete(self._backend.current_key, (time, self.namespace))

    def get_metric_group(self) -> MetricGroup:
        return self._metrics()

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        state = self._states.get(state_descriptor.name)
        if state is None:
            state = self._backend.state(state_descriptor, self._window_type)
            self._states[state_descriptor.name] = state
        state.set_current_namespace(self.namespace)
        return state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        state = self.get_partitioned_state(state_descriptor)
        state.merge_namespaces(self.namespace, self.merged)


def timestamped(pairs: Iterable[tuple[Any, int | None]]) -> list[TimestampedValue]:
    """Return stored records in the form that evictors get."""
    return [TimestampedValue(value, timestamp) for value, timestamp in pairs]
