"""TUMBLE, HOP, CUMULATE and SESSION as table functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from onceproof.engine.table.nodes.window_sessions import SessionRows
from onceproof.engine.table.nodes.windows import Windowing, read_windowing
from onceproof.engine.table.operators import Emit, TableFunction
from onceproof.engine.table.plans import Node
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import NANOS_PER_MS, Row


class AlignedWindows(TableFunction):
    """Emits a row once for each of its windows (Flink: AlignedWindowTableFunctionOperator).

    It keeps nothing and drops no late row, only rows without a time.
    """

    def __init__(self, windowing: Windowing) -> None:
        super().__init__()
        self._assign = windowing.window.assign
        self._to_moment = windowing.clock.to_moment
        self._rowtime = windowing.time_column if windowing.is_rowtime else None
        self._time_of = windowing.time_of(self.moment)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        if self._rowtime is not None and row[self._rowtime] is None:
            return
        for start, end in self._assign(self._time_of(row)):
            time = self._to_moment(end - 1)
            bounds = (start * NANOS_PER_MS, end * NANOS_PER_MS, time * NANOS_PER_MS)
            emit((kind, row + bounds))


@translator("window-table-function", 1)
def translate_window_table_function(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator; SESSION under the key of its partition."""
    windowing = read_windowing(node.attributes["windowing"], node, translation.settings)
    if windowing.window.kind == "SESSION":
        keys = windowing.window.partition
        return translation.keyed(node, inputs[0], keys, partial(SessionRows, windowing))
    return translation.plain(node, inputs[0], partial(AlignedWindows, windowing))
