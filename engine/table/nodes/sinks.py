"""Sinks of tables: what is checked and cut before a row is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.operators import Emit, TableFunction
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.tables import TableEnd, sink_end
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import Row

NOT_NULL: Final = "table.exec.sink.not-null-enforcer"
LENGTH: Final = "table.exec.sink.type-length-enforcer"
ENFORCER_EXCEPTION: Final = "org.apache.flink.table.runtime.operators.sink.constraint.EnforcerException"

Materialize = Callable[[Node, TableStream, TableEnd, Translation], TableStream]
MATERIALIZERS: Final[list[Materialize]] = []
"""The one that a module of nodes adds (Flink: SinkUpsertMaterializer)."""


class NotNullEnforcer(TableFunction):
    """Fails the job, or drops the row, for a NULL in a NOT NULL column (Flink: ConstraintEnforcer)."""

    def __init__(self, columns: Sequence[tuple[int, str]], drops: bool) -> None:
        super().__init__()
        self._columns = columns
        self._drops = drops

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        for column, name in self._columns:
            if row[column] is None:
                if self._drops:
                    return
                raise FunctionFailed(
                    f"Column '{name}' is NOT NULL, however, a null value is being written into it."
                    f" You can set job configuration '{NOT_NULL}'='DROP' to suppress this exception and"
                    " drop such records silently.",
                    ENFORCER_EXCEPTION,
                )
        emit((kind, row))


@translator("sink", 1, 2)
def translate_sink(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Check the rows, and hand the stream to the sink of the table."""
    (given,) = inputs
    end = sink_end(node)
    columns = [(place, each.name) for place, each in enumerate(end.type.fields) if not each.type.nullable]
    if columns:
        make = partial(NotNullEnforcer, columns, node.option(NOT_NULL) == "DROP")
        given = translation.plain(node, given, make, "not-null")
    if node.option(LENGTH, "IGNORE") not in ("IGNORE", "ERROR", "TRIM_PAD"):
        raise UnsupportedPlan(f"{LENGTH} {node.option(LENGTH)}")
    if node.attributes.get("requireUpsertMaterialize"):
        if not MATERIALIZERS:
            raise UnsupportedPlan("a sink with upsert materialize")
        given = MATERIALIZERS[0](node, given, end, translation)
    translation.tables.sink(given.stream, end)
    return TableStream(given.stream, node.output)
