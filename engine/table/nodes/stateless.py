"""Nodes without state: projections, grouping sets, constant rows, unions and exchanges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from onceproof.engine.elements import Record
from onceproof.engine.table.expressions.registry import compile_condition, compile_projection
from onceproof.engine.table.operators import Emit, Moment, RowOperator, TableFunction
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import INSERT, Row

_EXCHANGES = frozenset({"HASH", "SINGLETON", "ANY", "UNKNOWN", "KEEP_INPUT_AS_IS"})
"""The distributions of exchanges; a stateful node sends its input to the owner of the key itself."""


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


@translator("python-calc", 1)
@translator("calc", 1)
def translate_calc(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator."""
    attributes = node.attributes
    create = partial(
        CalcOperator, attributes["projection"], attributes.get("condition"), translation.settings
    )
    return translation.operator(node, inputs[0], create)


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


@translator("values", 1)
def translate_values(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Read the rows from a collection."""
    scope = translation.settings.scope(Moment())
    changes = [
        (INSERT, compile_projection(expressions, scope)(())) for expressions in node.attributes["tuples"]
    ]
    stream = translation.environment.from_collection(changes)
    stream.name("values").uid(f"{node.id}_values")
    return TableStream(stream, node.output)


@translator("union", 1)
def translate_union(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Unite the inputs."""
    first, *others = inputs
    return TableStream(first.stream.union(*[each.stream for each in others]), node.output)


@translator("exchange", 1)
def translate_exchange(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Pass the input on: the stateful node behind it sends rows to the owner of their key.

    Its type says what is a time attribute, which that of a source with watermarks of its own does not.
    """
    for each in node.distributions:
        if each.kind not in _EXCHANGES:
            raise UnsupportedPlan(f"an exchange by {each.kind}")
    return TableStream(inputs[0].stream, node.output)
