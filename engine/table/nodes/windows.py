"""Windows of time: what plans say of them, which of them a row is in, and when they fire.

Rules:

- Windows are aligned to local time: a TIMESTAMP as it is read, a TIMESTAMP_LTZ in the zone of the session. So
  days have 23 or 25 hours where the clock changes. Their bounds are milliseconds of local readings; timers
  and watermarks are moments.
- A window [start, end) fires when the watermark reaches end - 1 ms. Where that reading occurs twice the later
  moment counts, where it does not occur, the change of the clock does.
- TUMBLE, HOP and CUMULATE are cut into slices, named by their ends: a row is added to one slice, and a window
  is a merge of slices. A row is late when the last window of its slice has fired.

Flink: TimeWindowUtil, SliceAssigners, GroupWindowAssigner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import gcd
from typing import Any, Final, TypeAlias

from msgspec import Struct

from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.table.expressions.calendar import Zone, session_zone
from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.operators import Emit, Moment, TableFunction
from onceproof.engine.table.plans import InvalidPlan, Node, UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import LogicalType, read_type
from onceproof.engine.table.values import NANOS_PER_MS, Row
from onceproof.engine.types import Types

TimeOf: TypeAlias = Callable[[Row], int]

MS_PER_HOUR: Final = 3_600_000
NO_ROWTIME: Final = "RowTime field should not be null, please convert it to a non-null long value."
_DURATION: Final = re.compile(
    r"P(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d{1,9}))?S)?)?", re.ASCII
)


def iso_duration_ms(text: str) -> int:
    """Return the milliseconds of a duration as Java prints it, such as PT1H0.5S."""
    match = _DURATION.fullmatch(text)
    if match is None or len(text) < 3:
        raise InvalidPlan(f"{text!r} is no duration")
    days, hours, minutes = (int(each or 0) for each in match.groups()[:3])
    milliseconds = int(match[5] or 0) * 1000 + int((match[6] or "").ljust(3, "0")[:3])
    minutes += (days * 24 + hours) * 60
    return minutes * 60_000 + (-milliseconds if match[4] else milliseconds)


class WindowClock:
    """The local time of windows (Flink: TimeWindowUtil)."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self.is_fixed = zone.fixed_ms is not None
        """Whether the zone has always the same offset."""
        if zone.fixed_ms == 0:
            self.to_local: Callable[[int], int] = _same
            self.to_moment: Callable[[int], int] = _same
        else:
            self.to_local = lru_cache(maxsize=4096)(zone.local_ms)
            self.to_moment = lru_cache(maxsize=4096)(zone.utc_ms)

    def fires_at(self, end: int) -> int:
        """Return the moment at which a window with this end fires."""
        moment = self.to_moment(end - 1)
        if self.is_fixed:
            return moment
        later = self.to_moment(end - 1 + MS_PER_HOUR)
        if later - moment > MS_PER_HOUR:
            return later - MS_PER_HOUR
        return moment - moment % MS_PER_HOUR if later == moment else moment

    def ends_at(self, moment: int, interval: int, offset: int) -> Sequence[int]:
        """Return the ends, ``interval`` apart, of the windows that may fire at a moment."""
        if self.is_fixed:
            return (self.to_local(moment) + 1,)
        last = self.to_local(moment) + 1
        last -= (last - offset) % interval
        ends = range(last, last - MS_PER_HOUR - 2, -interval)
        return [end for end in reversed(ends) if self.fires_at(end) == moment]


def _same(milliseconds: int) -> int:
    return milliseconds


class WindowSpec(Struct, frozen=True):
    """A window function with its times in milliseconds."""

    kind: str
    """TUMBLE, HOP, CUMULATE or SESSION."""
    size: int
    """The gap of SESSION, the greatest size of CUMULATE."""
    step: int
    """The slide of HOP and the step of CUMULATE; of TUMBLE its size."""
    offset: int = 0
    partition: tuple[int, ...] = ()
    """The columns by which SESSION keeps sessions apart."""

    @property
    def slice_size(self) -> int:
        """The distance of the ends of slices."""
        return gcd(self.size, self.step)

    @property
    def shares_slices(self) -> bool:
        """Whether a slice belongs to several windows."""
        return self.kind in ("HOP", "CUMULATE")

    def slice_end(self, time: int) -> int:
        """Return the end of the slice of a time."""
        size = self.slice_size
        return time - (time - self.offset) % size + size

    def start_of(self, end: int) -> int:
        """Return the start of the window with an end."""
        if self.kind == "CUMULATE":
            return end - 1 - (end - 1 - self.offset) % self.size
        return end - self.size

    def last_end(self, slice_end: int) -> int:
        """Return the end of the last window of a slice."""
        if self.kind == "CUMULATE":
            return self.start_of(slice_end) + self.size
        return slice_end - self.slice_size + self.size

    def assign(self, time: int) -> list[tuple[int, int]]:
        """Return the windows of a time: HOP the latest first, CUMULATE the smallest first."""
        size, step, offset = self.size, self.step, self.offset
        if self.kind == "CUMULATE":
            start = time - (time - offset) % size
            first = time - (time - offset) % step + step
            return [(start, end) for end in range(first, start + size + 1, step)]
        latest = time - (time - offset) % step
        return [(start, start + size) for start in range(latest, time - size, -step)]


class Windowing(Struct, frozen=True):
    """How a node finds the windows of its rows (Flink: WindowingStrategy)."""

    window: WindowSpec
    is_rowtime: bool
    zone: str
    time_column: int | None
    """Of the time attribute; None where rows have their windows or slices already."""
    start_column: int | None
    end_column: int | None
    """Of the window's bounds, if rows have them."""
    slice_column: int | None
    """Set for the second phase of an aggregate; its rows end with the end of their slice."""

    @property
    def clock(self) -> WindowClock:
        """The local time of the windows."""
        return WindowClock(session_zone(self.zone))

    def time_of(self, moment: Moment) -> TimeOf:
        """Return the function from a row to its local time."""
        to_local = self.clock.to_local
        if not self.is_rowtime:
            return lambda row: to_local(moment.processing_ms())
        column = self.time_column
        assert column is not None

        def rowtime(row: Row) -> int:
            nanos = row[column]
            if nanos is None:
                raise FunctionFailed(NO_ROWTIME)
            return to_local(nanos // NANOS_PER_MS)

        return rowtime


_KINDS: Final = {
    "TumblingWindow": ("TUMBLE", "size", "size"),
    "HoppingWindow": ("HOP", "size", "slide"),
    "CumulativeWindow": ("CUMULATE", "maxSize", "step"),
    "SessionWindow": ("SESSION", "gap", "gap"),
}


def read_windowing(data: Mapping[str, Any], node: Node, settings: TableSettings) -> Windowing:
    """Read a windowing strategy of a node. Raises UnsupportedPlan."""
    window = data["window"]
    if window["type"] not in _KINDS:
        raise UnsupportedPlan(f"a window of type {window['type']}")
    kind, size, step = _KINDS[window["type"]]
    spec = WindowSpec(
        kind,
        iso_duration_ms(window[size]),
        iso_duration_ms(window[step]),
        iso_duration_ms(window.get("offset") or "PT0S"),
        tuple(window.get("partition_key_indices", ())),
    )
    return Windowing(
        spec,
        data["isRowtime"],
        zone_of(read_type(data["timeAttributeType"]), node, settings),
        data.get("timeAttributeIndex"),
        data.get("windowStart"),
        data.get("windowEnd"),
        data.get("sliceEnd"),
    )


def zone_of(time_attribute: LogicalType, node: Node, settings: TableSettings) -> str:
    """Return the zone of windows over a time attribute (Flink: TimeWindowUtil.getShiftTimeZone)."""
    if time_attribute.root != "TIMESTAMP_LTZ":
        return "UTC"
    zone = node.option("table.local-time-zone") or settings.options.get("table.local-time-zone", "")
    return zone if zone not in ("", "default") else "UTC"


def require_rowtime(windowing: Windowing, what: str) -> None:
    """Refuse windows in processing time. Raises UnsupportedPlan."""
    if not windowing.is_rowtime:
        raise UnsupportedPlan(f"{what} in processing time")


class KeepsWatermark(TableFunction, CheckpointedFunction):
    """A function whose watermark is in its checkpoints, unlike that of others (Flink: WindowAggOperator).

    So a row that was late before a failure is late after it.
    """

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._watermarks = context.get_union_list_state(ListStateDescriptor("watermark", Types.LONG()))
        self._restored = min(self._watermarks.get() or (), default=MIN_WATERMARK)
        self.moment.watermark = self._restored

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._watermarks.update([self.moment.watermark])

    def on_watermark(self, watermark: int, emit: Emit) -> None:
        self.moment.watermark = max(watermark, self._restored)


class WindowProperties:
    """The columns of a result that describe its window (Flink: NamedWindowProperty)."""

    def __init__(self, named: Sequence[Mapping[str, Any]], clock: WindowClock) -> None:
        self._kinds = [each["property"]["kind"] for each in named]
        self._clock = clock
        if unknown := {*self._kinds} - {"WindowStart", "WindowEnd", "Rowtime", "Proctime"}:
            raise UnsupportedPlan(f"window property {', '.join(sorted(unknown))}")

    def of(self, start: int, end: int) -> list[int | None]:
        """Return the columns of a window; the processing time is known to its reader only."""
        values: dict[str, int] = {"WindowStart": start * NANOS_PER_MS, "WindowEnd": end * NANOS_PER_MS}
        if "Rowtime" in self._kinds:
            values["Rowtime"] = self._clock.to_moment(end - 1) * NANOS_PER_MS
        return [values.get(kind) for kind in self._kinds]
