"""Window assigners: they assign records to windows (PyFlink: WindowAssigner).

An assigner is an immutable description, shared by all subtasks. The windows of a record depend only on the
record and its timestamp (or its arrival time, for windows of processing time). So a record that is read again
after a failure is assigned to the same windows of event time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from onceproof.engine.durations import Duration, Time, milliseconds_of
from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.type_parameters import TypeParameters
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
    """The context of an assigner (PyFlink: WindowAssigner.WindowAssignerContext)."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the wall clock in milliseconds since the epoch, read once for each event of the task."""

    @abstractmethod
    def get_runtime_context(self) -> RuntimeContext:
        """Return the context of the subtask."""


class WindowAssigner(TypeParameters, ABC):
    """Assigns records to windows (PyFlink: WindowAssigner)."""

    WindowAssignerContext: ClassVar = AssignerContext

    @abstractmethod
    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[Any]:
        """Return the windows of a record; without any, the record is dropped.

        Args:
            element: the value of the record.
            timestamp: its timestamp in milliseconds, or None.
            context: gives the current processing time.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger:
        """Return the trigger for streams that set none."""

    @abstractmethod
    def get_window_serializer(self) -> WindowSerializer:
        """Return the serializer of the windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether the windows are of event time: records can be late, watermarks clean up."""

    @property
    def lengths_ms(self) -> tuple[int, ...]:
        """The size, slide or gap of the windows, as far as they are the same for all (ours)."""
        return ()


class MergingWindowAssigner(WindowAssigner):
    """Assigns records to windows that can merge (PyFlink: MergingWindowAssigner)."""

    MergeCallback: ClassVar = WindowMergeCallback

    @abstractmethod
    def merge_windows(self, windows: Iterable[Any], callback: WindowMergeCallback) -> None:
        """Call ``callback.merge`` for each group of windows to merge."""


class _TimeWindows(WindowAssigner):
    """Base of the assigners of TimeWindows."""

    _by_event_time = True

    @property
    def lengths_ms(self) -> tuple[int, ...]:
        own = vars(self)
        return tuple([own[name] for name in ("_size", "_slide", "_gap") if name in own])

    @property
    def offset_ms(self) -> int:
        """The offset by which the windows are shifted; 0 for sessions (ours)."""
        offset: int = vars(self).get("_offset", 0)
        return offset

    def get_default_trigger(self, env: Any) -> Trigger:
        return EventTimeTrigger.create() if self._by_event_time else ProcessingTimeTrigger.create()

    def get_window_serializer(self) -> WindowSerializer:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
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
    """Base of the tumbling windows."""

    def __init__(self, size: int, offset: int = 0) -> None:
        _check(
            size, abs(offset) < size, f"size {size} ms and offset {offset} ms: abs(offset) < size is needed"
        )
        self._size = size
        self._offset = offset

    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        """Return the one window that contains the record's time."""
        time = timestamp
        if time is None or time == MIN_WATERMARK or not self._by_event_time:
            time = self._time(timestamp, context)
        start = time - (time - self._offset) % self._size
        return (TimeWindow(start, start + self._size),)


class TumblingEventTimeWindows(_Tumbling):
    """Adjacent windows of one size in event time (PyFlink: TumblingEventTimeWindows).

    ``offset`` shifts their starts: days in a time zone 8 hours east of UTC need an offset of -8 hours.
    """

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingEventTimeWindows:
        """Return windows of a size that start at its multiples, shifted by the offset.

        Raises:
            TypeError: ``size`` or ``offset`` is no Time or Duration.
            ValueError: the size is not positive, or the offset is not less than it.
        """
        return TumblingEventTimeWindows(milliseconds_of(size, "size"), _offset_ms(offset))


class TumblingProcessingTimeWindows(_Tumbling):
    """Adjacent windows of one size in processing time (PyFlink: TumblingProcessingTimeWindows)."""

    _by_event_time = False

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingProcessingTimeWindows:
        """Return windows of a size that start at its multiples, shifted by the offset.

        Raises:
            TypeError: ``size`` or ``offset`` is no Time or Duration.
            ValueError: the size is not positive, or the offset is not less than it.
        """
        return TumblingProcessingTimeWindows(milliseconds_of(size, "size"), _offset_ms(offset))


class _Sliding(_TimeWindows):
    """Base of the sliding windows."""

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
        """Return the windows that contain the record's time, the latest first; none in a gap."""
        time = self._time(timestamp, context)
        size = self._size
        latest = time - (time - self._offset) % self._slide
        return [TimeWindow(start, start + size) for start in range(latest, time - size, -self._slide)]


class SlidingEventTimeWindows(_Sliding):
    """Windows of one size in event time, one for each slide (PyFlink: SlidingEventTimeWindows)."""

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingEventTimeWindows:
        """Return windows of a size that start at multiples of the slide, shifted by the offset.

        Raises:
            TypeError: a length is no Time or Duration.
            ValueError: the size or the slide is not positive, or the offset is not less than the slide.
        """
        return SlidingEventTimeWindows(
            milliseconds_of(size, "size"), milliseconds_of(slide, "slide"), _offset_ms(offset)
        )


class SlidingProcessingTimeWindows(_Sliding):
    """Windows of one size in processing time, one for each slide (PyFlink: SlidingProcessingTimeWindows)."""

    _by_event_time = False

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingProcessingTimeWindows:
        """Return windows of a size that start at multiples of the slide, shifted by the offset.

        Raises:
            TypeError: a length is no Time or Duration.
            ValueError: the size or the slide is not positive, or the offset is not less than the slide.
        """
        return SlidingProcessingTimeWindows(
            milliseconds_of(size, "size"), milliseconds_of(slide, "slide"), _offset_ms(offset)
        )


class SessionWindowTimeGapExtractor(ABC):
    """Extracts the gap of a session from a record (PyFlink: SessionWindowTimeGapExtractor)."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap after a value in milliseconds, greater than 0."""


class _Sessions(_TimeWindows, MergingWindowAssigner):
    """Base of the sessions: a window from each record to the end of its gap; those that touch merge."""

    def merge_windows(self, windows: Iterable[TimeWindow], callback: WindowMergeCallback) -> None:
        TimeWindow.merge_windows(windows, callback)


class _FixedSessions(_Sessions):
    def __init__(self, session_gap: int) -> None:
        _check(session_gap, True, "")
        self._gap = session_gap

    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        time = self._time(timestamp, context)
        return (TimeWindow(time, time + self._gap),)


class _DynamicSessions(_Sessions):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        self._extract = _extractor(session_window_time_gap_extractor)

    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        time = self._time(timestamp, context)
        gap = self._extract(element)
        if gap <= 0:
            raise ValueError(f"a session's gap must be above 0 milliseconds, not {gap} (for {element!r})")
        return (TimeWindow(time, time + gap),)


class EventTimeSessionWindows(_FixedSessions):
    """Sessions in event time: a gap without records ends a session (PyFlink: EventTimeSessionWindows)."""

    @staticmethod
    def with_gap(size: Length) -> EventTimeSessionWindows:
        """Return sessions that end after a gap of ``size``.

        Raises:
            TypeError: ``size`` is no Time or Duration.
            ValueError: ``size`` is not positive.
        """
        return EventTimeSessionWindows(milliseconds_of(size, "gap"))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Return sessions whose gap the extractor reads from each record.

        Raises:
            TypeError: ``extractor`` is no SessionWindowTimeGapExtractor.
        """
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedSessions):
    """Sessions in processing time (PyFlink: ProcessingTimeSessionWindows)."""

    _by_event_time = False

    @staticmethod
    def with_gap(size: Length) -> ProcessingTimeSessionWindows:
        """Return sessions that end after a gap of ``size``.

        Raises:
            TypeError: ``size`` is no Time or Duration.
            ValueError: ``size`` is not positive.
        """
        return ProcessingTimeSessionWindows(milliseconds_of(size, "gap"))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Return sessions whose gap the extractor reads from each record.

        Raises:
            TypeError: ``extractor`` is no SessionWindowTimeGapExtractor.
        """
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicSessions):
    """Sessions in event time with a gap for each record (PyFlink: DynamicEventTimeSessionWindows)."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows:
        """Return sessions whose gap the extractor reads from each record.

        Raises:
            TypeError: ``extractor`` is no SessionWindowTimeGapExtractor.
        """
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicSessions):
    """Sessions in processing time with a gap for each record.

    PyFlink: DynamicProcessingTimeSessionWindows.
    """

    _by_event_time = False

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows:
        """Return sessions whose gap the extractor reads from each record.

        Raises:
            TypeError: ``extractor`` is no SessionWindowTimeGapExtractor.
        """
        return DynamicProcessingTimeSessionWindows(extractor)


class GlobalWindows(WindowAssigner):
    """All records of a key in one window, which never fires by default (PyFlink: GlobalWindows)."""

    @staticmethod
    def create() -> GlobalWindows:
        """Return the assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[GlobalWindow]:
        return (GlobalWindow.get(),)

    def get_default_trigger(self, env: Any) -> Trigger:
        """Return NeverTrigger."""
        return NeverTrigger()

    def get_window_serializer(self) -> WindowSerializer:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False: no record is late for the global window."""
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
