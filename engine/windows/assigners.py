"""Which windows a record belongs to (PyFlink: WindowAssigner).

An assigner is a description, shared by all subtasks. The windows of a record follow from the record, its
timestamp or the time of its arrival, and nothing else: a record that is read again after a failure falls into
the same windows, unless they are windows of processing time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from onceproof.engine.durations import Duration, Time, milliseconds_of
from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.windows.triggers import EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger, Trigger
from onceproof.engine.windows.windows import (
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    WindowMergeCallback,
    WindowSerializer,
)

if TYPE_CHECKING:
    from onceproof.engine.functions import RuntimeContext

Length: TypeAlias = Time | Duration


class NoTimestamp(UnrecoverableError, RuntimeError):
    """A record without a timestamp came to windows of event time. The message is one line."""


class AssignerContext(ABC):
    """What an assigner may know besides the record (PyFlink: WindowAssigner.WindowAssignerContext)."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Milliseconds since the epoch, as of the event in hand."""

    @abstractmethod
    def get_runtime_context(self) -> RuntimeContext:
        """The context of the subtask."""


class WindowAssigner(ABC):
    """Gives a record its windows (PyFlink: WindowAssigner)."""

    WindowAssignerContext: ClassVar = AssignerContext

    @abstractmethod
    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[Any]:
        """The windows of a record; none drops it."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger:
        """The trigger of windows for which no other is set."""

    @abstractmethod
    def get_window_serializer(self) -> WindowSerializer:
        """How the windows are stored."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether records can be late for the windows, which are then cleaned up by watermarks."""


class MergingWindowAssigner(WindowAssigner):
    """Gives windows that can become one (PyFlink: MergingWindowAssigner)."""

    MergeCallback: ClassVar = WindowMergeCallback

    @abstractmethod
    def merge_windows(self, windows: Iterable[Any], callback: WindowMergeCallback) -> None:
        """Tell the callback of each group of windows that become one, and which one."""


class _TimeWindows(WindowAssigner):
    """Windows of event time, or of processing time."""

    _by_event_time = True

    def get_default_trigger(self, env: Any) -> Trigger:
        """By the time that the windows are made of."""
        return EventTimeTrigger.create() if self._by_event_time else ProcessingTimeTrigger.create()

    def get_window_serializer(self) -> WindowSerializer:
        """As start and end."""
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        """Whether the windows are made of event time."""
        return self._by_event_time

    def _time(self, timestamp: int | None, context: AssignerContext) -> int:
        if not self._by_event_time:
            return context.get_current_processing_time()
        if timestamp is None or timestamp == MIN_WATERMARK:
            raise NoTimestamp(
                f"a record without a timestamp came to {type(self).__name__}: give the source a"
                " WatermarkStrategy, or call assign_timestamps_and_watermarks before the windows"
            )
        return timestamp


class _Tumbling(_TimeWindows):
    """Windows of one size, one after another."""

    def __init__(self, size: int, offset: int = 0) -> None:
        _check(
            size, abs(offset) < size, f"size {size} ms and offset {offset} ms: abs(offset) < size is needed"
        )
        self._size = size
        self._offset = offset

    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        """The one in which the record falls."""
        time = timestamp
        if time is None or time == MIN_WATERMARK or not self._by_event_time:
            time = self._time(timestamp, context)
        start = time - (time - self._offset) % self._size
        return (TimeWindow(start, start + self._size),)


class TumblingEventTimeWindows(_Tumbling):
    """Windows of one size in event time, one after another (PyFlink: the same).

    ``offset`` moves their beginnings: days in a time zone 8 hours east begin at an offset of -8 hours.
    """

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingEventTimeWindows:
        """Of a size, beginning at multiples of it, moved by the offset."""
        return TumblingEventTimeWindows(milliseconds_of(size, "size"), _offset_ms(offset))


class TumblingProcessingTimeWindows(_Tumbling):
    """Windows of one size in processing time, one after another (PyFlink: the same)."""

    _by_event_time = False

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingProcessingTimeWindows:
        """Of a size, beginning at multiples of it, moved by the offset."""
        return TumblingProcessingTimeWindows(milliseconds_of(size, "size"), _offset_ms(offset))


class _Sliding(_TimeWindows):
    """Windows of one size, a new one at each slide."""

    def __init__(self, size: int, slide: int, offset: int = 0) -> None:
        _check(
            size,
            slide > 0 and abs(offset) < slide,
            f"slide {slide} ms and offset {offset} ms: abs(offset) < slide is needed",
        )
        self._size = size
        self._slide = slide
        self._offset = offset

    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        """Those in which the record falls, the latest first; none where the slide leaves gaps."""
        time = self._time(timestamp, context)
        size = self._size
        latest = time - (time - self._offset) % self._slide
        return [TimeWindow(start, start + size) for start in range(latest, time - size, -self._slide)]


class SlidingEventTimeWindows(_Sliding):
    """Windows of one size in event time, a new one at each slide (PyFlink: the same)."""

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingEventTimeWindows:
        """Of a size, beginning at multiples of the slide, moved by the offset."""
        return SlidingEventTimeWindows(
            milliseconds_of(size, "size"), milliseconds_of(slide, "slide"), _offset_ms(offset)
        )


class SlidingProcessingTimeWindows(_Sliding):
    """Windows of one size in processing time, a new one at each slide (PyFlink: the same)."""

    _by_event_time = False

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingProcessingTimeWindows:
        """Of a size, beginning at multiples of the slide, moved by the offset."""
        return SlidingProcessingTimeWindows(
            milliseconds_of(size, "size"), milliseconds_of(slide, "slide"), _offset_ms(offset)
        )


class SessionWindowTimeGapExtractor(ABC):
    """Says how long a silence after a record ends its session (PyFlink: the same)."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """The gap in milliseconds, above 0."""


class _Sessions(_TimeWindows, MergingWindowAssigner):
    """A window from each record to the end of its gap; those that overlap or touch become one."""

    def merge_windows(self, windows: Iterable[TimeWindow], callback: WindowMergeCallback) -> None:
        """Those that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)


class _FixedSessions(_Sessions):
    def __init__(self, session_gap: int) -> None:
        _check(session_gap, True, "")
        self._gap = session_gap

    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        """A session of its own, to begin with."""
        time = self._time(timestamp, context)
        return (TimeWindow(time, time + self._gap),)


class _DynamicSessions(_Sessions):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        self._extract = _extractor(session_window_time_gap_extractor)

    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        """A session of its own, to begin with."""
        time = self._time(timestamp, context)
        gap = self._extract(element)
        if gap <= 0:
            raise ValueError(f"a session's gap must be above 0 milliseconds, not {gap} (for {element!r})")
        return (TimeWindow(time, time + gap),)


class EventTimeSessionWindows(_FixedSessions):
    """Records of event time with no silence longer than the gap among them (PyFlink: the same)."""

    @staticmethod
    def with_gap(size: Length) -> EventTimeSessionWindows:
        """A silence of this length ends a session."""
        return EventTimeSessionWindows(milliseconds_of(size, "gap"))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Each record says how long a silence ends its session."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedSessions):
    """Records that arrive with no silence longer than the gap among them (PyFlink: the same)."""

    _by_event_time = False

    @staticmethod
    def with_gap(size: Length) -> ProcessingTimeSessionWindows:
        """A silence of this length ends a session."""
        return ProcessingTimeSessionWindows(milliseconds_of(size, "gap"))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Each record says how long a silence ends its session."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicSessions):
    """Sessions of event time whose records say how long a silence ends them (PyFlink: the same)."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Each record says how long a silence ends its session."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicSessions):
    """Sessions of processing time whose records say how long a silence ends them (PyFlink: the same)."""

    _by_event_time = False

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Each record says how long a silence ends its session."""
        return DynamicProcessingTimeSessionWindows(extractor)


class GlobalWindows(WindowAssigner):
    """All records of a key in one window, which only a trigger of one's own works out (PyFlink: the same)."""

    @staticmethod
    def create() -> GlobalWindows:
        """A new one."""
        return GlobalWindows()

    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[GlobalWindow]:
        """The one there is."""
        return (GlobalWindow.get(),)

    def get_default_trigger(self, env: Any) -> Trigger:
        """None that ever fires."""
        return NeverTrigger()

    def get_window_serializer(self) -> WindowSerializer:
        """As 0."""
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """No record is late for it."""
        return False


def _offset_ms(offset: Length | None) -> int:
    return 0 if offset is None else milliseconds_of(offset, "offset")


def _extractor(extractor: object) -> Callable[[Any], int]:
    if not isinstance(extractor, SessionWindowTimeGapExtractor):
        raise TypeError(
            f"a dynamic gap needs a SessionWindowTimeGapExtractor, not {extractor!r}:"
            " derive a class from it and pass an object of it"
        )
    return extractor.extract


def _check(length: int, fits: bool, words: str) -> None:
    if type(length) is not int or length <= 0:
        raise ValueError(f"the length of a window must be above 0 milliseconds, not {length!r}")
    if not fits:
        raise ValueError(f"windows of {words}")
