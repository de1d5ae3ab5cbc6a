"""Grouping sets: each row once for each set, with NULL in the columns that are not of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from onceproof.engine.table.expressions.registry import compile_projection
from onceproof.engine.table.operators import Emit, TableFunction
from onceproof.engine.table.plans import Node
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import Row


class Expand(TableFunction):
    """Emits a row once for each projection (Flink: StreamExecExpand)."""

    def __init__(self, projections: Sequence[Sequence[Mapping[str, Any]]], settings: TableSettings) -> None:
        super().__init__()
        scope = settings.scope(self.moment)
        self._projections = [compile_projection(each, scope) for each in projections]

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        for project in self._projections:
            emit((kind, project(row)))


@translator("expand", 1)
def translate_expand(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator."""
    make = partial(Expand, node.attributes["projects"], translation.settings)
    return translation.plain(node, inputs[0], make)
