"""Event-time temporal joins: a row meets the version of the right table that held at its time.

Source: Flink 2.3 TemporalRowTimeJoinOperator. Rules:

- Left rows wait until the watermark of both inputs reaches their time; then they go out in order of arrival,
  each with its own kind.
- The right side is the versions of a key by time. A row meets the version with the greatest time that is not
  after its own; if that is a retraction (-D, -U), there is no version then.
- At each firing the versions before the one that holds at the watermark are dropped. So a late left row meets
  what is left.
- With a time to live, all of a key goes when nothing has come for it for between one and one and a half times
  as long, in processing time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.table.nodes.join_spec import JoinSpec, matcher, read_join
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.plans import Node, UnsupportedPlan, duration_ms
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import ADDS, NANOS_PER_MS, Change, Row


class TemporalSpec(Struct, frozen=True):
    """A temporal join on event time."""

    join: JoinSpec
    left_time: int
    right_time: int
    padding: Row
    ttl_ms: int


class TemporalJoin(TableFunction):
    """INNER and LEFT."""

    def __init__(self, spec: TemporalSpec, settings: TableSettings) -> None:
        super().__init__()
        self._spec = spec
        self._matches = matcher(spec.join.condition, settings.scope(self.moment))

    def start(self, context: TableContext) -> None:
        self._timers = context.timers
        self._next = context.value_state("next-index")
        self._waiting = context.map_state("left")
        self._versions = context.map_state("right")
        self._timer = context.value_state("timer")
        self._cleanup = context.value_state("cleanup")

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        index = self._next.value() or 0
        self._next.update(index + 1)
        self._waiting.put(index, (kind, row))
        self._fire_by(row[self._spec.left_time] // NANOS_PER_MS)
        self._live_on()

    def process_second(self, kind: int, row: Row, emit: Emit) -> None:
        time = row[self._spec.right_time] // NANOS_PER_MS
        self._versions.put(time, (kind, row))
        self._fire_by(time)
        self._live_on()

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        self._timer.clear()
        watermark = self.moment.watermark
        versions = sorted(self._versions.items())
        times = [time for time, _ in versions]
        earliest = MAX_WATERMARK
        for index, change in sorted(self._waiting.items()):
            time = change[1][self._spec.left_time] // NANOS_PER_MS
            if time > watermark:
                earliest = min(earliest, time)
                continue
            self._waiting.remove(index)
            place = bisect_right(times, time)
            self._join(change, versions[place - 1][1] if place else None, emit)
        # The version that holds at the watermark stays, if there is one.
        for time in times[: max(0, bisect_right(times, watermark) - 1)]:
            self._versions.remove(time)
        if earliest < MAX_WATERMARK:
            self._fire_by(earliest)
        if not self._spec.ttl_ms:
            return
        if earliest < MAX_WATERMARK or not self._versions.is_empty():
            self._live_on()
        else:
            self._forget_cleanup()
            self._next.clear()

    def _join(self, change: Change, version: Change | None, emit: Emit) -> None:
        kind, left = change
        matches = self._matches
        if version is not None and ADDS[version[0]] and (matches is None or matches(left, version[1])):
            emit((kind, left + version[1]))
        elif self._spec.join.left_is_outer:
            emit((kind, left + self._spec.padding))

    def _fire_by(self, time: int) -> None:
        """Have the timer of the key fire at a time or before."""
        due = self._timer.value()
        if due is None or due > time:
            if due is not None:
                self._timers.delete_event_time_timer(due)
            self._timer.update(time)
            self._timers.register_event_time_timer(time)

    # ---- the time to live

    def _live_on(self) -> None:
        """Put off the clearing of the key (Flink: BaseTwoInputStreamOperatorWithStateRetention)."""
        ttl_ms = self._spec.ttl_ms
        if not ttl_ms:
            return
        now = self._timers.current_processing_time()
        due = self._cleanup.value()
        if due is None or now + ttl_ms > due:
            self._forget_cleanup()
            due = now + ttl_ms * 3 // 2
            self._timers.register_processing_time_timer(due)
            self._cleanup.update(due)

    def _forget_cleanup(self) -> None:
        due = self._cleanup.value()
        if due is not None:
            self._timers.delete_processing_time_timer(due)
            self._cleanup.clear()

    def on_processing_time(self, timestamp: int, emit: Emit) -> None:
        if self._cleanup.value() == timestamp:
            for state in (self._cleanup, self._waiting, self._versions, self._next, self._timer):
                state.clear()


@translator("temporal-join", 1)
def translate_temporal_join(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator, under the keys of the join."""
    left, right = inputs
    attributes = node.attributes
    join = read_join(attributes["joinSpec"])
    right_time = attributes["rightTimeAttributeIndex"]
    if right_time < 0:
        raise UnsupportedPlan("a temporal join in processing time")
    if join.kind not in ("INNER", "LEFT"):
        raise UnsupportedPlan(f"a temporal join of type {join.kind}")
    spec = TemporalSpec(
        join,
        attributes["leftTimeAttributeIndex"],
        right_time,
        (None,) * len(right.type.fields),
        duration_ms(translation.settings.options.get("table.exec.state.ttl", "0 ms")),
    )
    make = partial(TemporalJoin, spec, translation.settings)
    return translation.keyed_two(node, (left, right), (join.left_keys, join.right_keys), make)
