"""Joins of rows in the same window.

Rows of both sides wait, by the end of their window, until the watermark of both inputs fires it. Then every
pair of its rows is tried: matches come in the order of the left rows (RIGHT: of the right ones), and rows
without a match are padded, for FULL the right ones at the end. A row whose window has fired is dropped.

Flink: WindowJoinOperator.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from onceproof.engine.table.nodes.join_spec import JoinSpec, matcher, null_test, read_join
from onceproof.engine.table.nodes.windows import Windowing, read_windowing, require_rowtime
from onceproof.engine.table.operators import Emit, TableContext, TableFunction, add_row
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import INSERT, NANOS_PER_MS, Row


class WindowJoin(TableFunction):
    """Joins the rows of a key by window.

    Args:
        spec: keys and condition.
        windowings: those of both sides; rows bring their windows with them.
        widths: how many columns a row of each side has.
        settings: those of the job.
    """

    def __init__(
        self,
        spec: JoinSpec,
        windowings: tuple[Windowing, Windowing],
        widths: tuple[int, int],
        settings: TableSettings,
    ) -> None:
        super().__init__()
        self._spec = spec
        self._clock = windowings[0].clock
        self._ends = [each.end_column for each in windowings]
        self._pads = [(None,) * width for width in widths]
        self._holds = matcher(spec.condition, settings.scope(self.moment))
        self._has_null = null_test(spec.left_not_null)

    def start(self, context: TableContext) -> None:
        self._timers = context.timers
        self._sides = [context.map_state(name) for name in ("left-records", "right-records")]

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        self._keep(0, row)

    def process_second(self, kind: int, row: Row, emit: Emit) -> None:
        self._keep(1, row)

    def _keep(self, side: int, row: Row) -> None:
        column = self._ends[side]
        assert column is not None
        end = row[column]
        fires_at = self._clock.fires_at(end // NANOS_PER_MS)
        if fires_at <= self.moment.watermark:
            return
        if add_row(self._sides[side], end, row):
            self._timers.register_event_time_timer(fires_at)

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        fires_at = self._clock.fires_at
        ends = {end for side in self._sides for end, _ in side.items()}
        for end in sorted([end for end in ends if fires_at(end // NANOS_PER_MS) <= timestamp]):
            left, right = [[tuple(row) for row in side.get(end) or ()] for side in self._sides]
            self._join(left, right, emit)
            for side in self._sides:
                side.remove(end)

    def _matches(self, left: Row, right: Row) -> bool:
        # Rows of one key have NULL in the same columns, so the left row speaks for both.
        return not self._has_null(left) and (self._holds is None or self._holds(left, right))

    def _join(self, left: list[Row], right: list[Row], emit: Emit) -> None:
        kind, matches = self._spec.kind, self._matches
        match kind:
            case "SEMI" | "ANTI":
                for row in left:
                    if any(matches(row, other) for other in right) is (kind == "SEMI"):
                        emit((INSERT, row))
            case "RIGHT":
                for row in right:
                    pairs = [other + row for other in left if matches(other, row)]
                    for pair in pairs or [self._pads[0] + row]:
                        emit((INSERT, pair))
            case _:
                self._join_left_first(left, right, emit)

    def _join_left_first(self, left: list[Row], right: list[Row], emit: Emit) -> None:
        matched: set[int] = set()
        for row in left:
            places = [place for place, other in enumerate(right) if self._matches(row, other)]
            for place in places:
                emit((INSERT, row + right[place]))
            matched.update(places)
            if not places and self._spec.left_is_outer:
                emit((INSERT, row + self._pads[1]))
        if self._spec.right_is_outer:
            for place, other in enumerate(right):
                if place not in matched:
                    emit((INSERT, self._pads[0] + other))


@translator("window-join", 1)
def translate_window_join(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator, under the key of the join."""
    left, right = inputs
    attributes: Any = node.attributes
    windowings = [
        read_windowing(attributes[name], node, translation.settings)
        for name in ("leftWindowing", "rightWindowing")
    ]
    for each in windowings:
        require_rowtime(each, "a window join")
    spec = read_join(attributes["joinSpec"])
    if spec.kind not in ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"):
        raise UnsupportedPlan(f"a window join of kind {spec.kind}")
    make = partial(
        WindowJoin,
        spec,
        (windowings[0], windowings[1]),
        (len(left.type.fields), len(right.type.fields)),
        translation.settings,
    )
    return translation.keyed_two(node, (left, right), (spec.left_keys, spec.right_keys), make)
