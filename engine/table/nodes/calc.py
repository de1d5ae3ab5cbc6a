"""Projections and conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from onceproof.engine.elements import Record
from onceproof.engine.table.expressions.registry import compile_condition, compile_projection
from onceproof.engine.table.operators import RowOperator
from onceproof.engine.table.plans import Node
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator


class CalcOperator(RowOperator):
    """Keeps the rows whose condition is TRUE, and computes columns of them (Flink: StreamExecCalc).

    Args:
        projection: the expressions of the columns, as the plan has them.
        condition: the expression of the condition, or None.
        settings: those of the job.
    """

    def __init__(
        self,
        projection: Sequence[Mapping[str, Any]],
        condition: Mapping[str, Any] | None,
        settings: TableSettings,
    ) -> None:
        super().__init__()
        scope = settings.scope(self.moment)
        self._project = compile_projection(projection, scope)
        self._keeps = None if condition is None else compile_condition(condition, scope)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        project, keeps = self._project, self._keeps
        if keeps is None:
            return [((change[0], project(change[1])), None) for change, _ in records]
        return [((change[0], project(change[1])), None) for change, _ in records if keeps(change[1])]


@translator("calc", 1)
def translate_calc(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator."""
    attributes = node.attributes
    create = partial(
        CalcOperator, attributes["projection"], attributes.get("condition"), translation.settings
    )
    return translation.operator(node, inputs[0], create)
