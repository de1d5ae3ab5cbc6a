"""Lateral joins with table functions: UNNEST, the rows that set operations repeat, functions in Python.

Rules:

- The function is called for each change, and its rows get the kind of the change.
- A condition tests the row of the function. LEFT pads where no row is left.
- UNNEST of NULL has no rows. Rows that are elements are taken apart; an element that is a NULL row is left
  out. A multiset gives each element as often as it counts.
- A function of the user returns an iterable of rows (``user_functions.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from onceproof.engine.elements import Record
from onceproof.engine.table.expressions.registry import (
    Evaluate,
    compile_condition,
    compile_expression,
)
from onceproof.engine.table.expressions.rex import Call, read_expression
from onceproof.engine.table.operators import Moment, RowOperator
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import Row

Rows: TypeAlias = Callable[[Row], Iterable[Row]]
"""The rows of a table function for a row of the left side."""

_ROWS: Final = ("ROW", "STRUCTURED")


def _unnest(call: Call, operands: Sequence[Evaluate]) -> Rows:
    """Flink: UnnestRowsFunction."""
    (collection,) = operands
    elements, is_row = _elements(call.operands[0].type)

    def rows(left: Row) -> Iterable[Row]:
        found = elements(collection(left))
        return [each for each in found if each is not None] if is_row else [(each,) for each in found]

    return rows


def _unnest_with_ordinality(call: Call, operands: Sequence[Evaluate]) -> Rows:
    """Flink: UnnestRowsWithOrdinalityFunction."""
    (collection,) = operands
    elements, is_row = _elements(call.operands[0].type)
    null = (None,) * (len(call.type.fields) - 1)

    def rows(left: Row) -> Iterable[Row]:
        found = enumerate(elements(collection(left)), 1)
        if is_row:
            return [(*(null if each is None else each), place) for place, each in found]
        return [(each, place) for place, each in found]

    return rows


def _elements(kind: LogicalType) -> tuple[Callable[[Any], Sequence[Any]], bool]:
    """Return what iterates over a collection, and whether its elements are rows."""
    if kind.root == "ARRAY":
        return (lambda value: value or (), kind.element.root in _ROWS)
    if kind.root == "MAP":
        return (lambda value: value or (), True)
    if kind.root == "MULTISET":
        return (
            lambda value: [each for each, count in value or () for _ in range(count)],
            kind.element.root in _ROWS,
        )
    raise UnsupportedPlan(f"UNNEST of {kind}")


def _replicate(call: Call, operands: Sequence[Evaluate]) -> Rows:
    """Flink: ReplicateRowsFunction."""
    count, *columns = operands
    return lambda left: [tuple([column(left) for column in columns])] * count(left)


_FUNCTIONS: Final[Mapping[str, Callable[[Call, Sequence[Evaluate]], Rows]]] = {
    "$UNNEST_ROWS$1": _unnest,
    "$UNNEST_ROWS_WITH_ORDINALITY$1": _unnest_with_ordinality,
    "$REPLICATE_ROWS$1": _replicate,
}


def _user_rows(function: Callable[..., Any], call: Call, operands: Sequence[Evaluate]) -> Rows:
    if hasattr(function, "rows"):
        function = function.rows([each.type for each in call.operands], call.type)
    return lambda left: function(*[operand(left) for operand in operands])


def table_function(data: Mapping[str, Any], settings: TableSettings, moment: Moment) -> Rows:
    """Return the rows of a call of a table function. Raises UnsupportedPlan for one that is not known."""
    scope = settings.scope(moment)
    scope.correlated = lambda variable: lambda left: left
    call = read_expression(data)
    assert isinstance(call, Call)
    operands = [compile_expression(each, scope) for each in call.operands]
    if call.is_user_function:
        function = settings.functions.get(call.name)
        if function is None:
            raise UnsupportedPlan(f"user function {call.name}")
        return _user_rows(function, call, operands)
    build = _FUNCTIONS.get(call.name)
    if build is None:
        raise UnsupportedPlan(f"table function {call.name}")
    return build(call, operands)


class CorrelateOperator(RowOperator):
    """Joins each row with the rows of a table function (Flink: StreamExecCorrelate).

    Args:
        call: the call, as the plan has it.
        condition: what a row of the function must meet, or None.
        padding: what a left row gets where there is no row; None: it is dropped.
        settings: those of the job.
    """

    def __init__(
        self,
        call: Mapping[str, Any],
        condition: Mapping[str, Any] | None,
        padding: Row | None,
        settings: TableSettings,
    ) -> None:
        super().__init__()
        self._rows = table_function(call, settings, self.moment)
        scope = settings.scope(self.moment)
        self._keeps = None if condition is None else compile_condition(condition, scope)
        self._padding: Sequence[Row] = () if padding is None else (padding,)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        rows_of, keeps, padding = self._rows, self._keeps, self._padding
        emitted: list[Record] = []
        for (kind, left), _ in records:
            rows = rows_of(left)
            if keeps is not None:
                rows = [row for row in rows if keeps(row) is True]
            emitted.extend([((kind, left + row), None) for row in rows or padding])
        return emitted


@translator("correlate", 1)
@translator("python-correlate", 1)
def translate_correlate(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator."""
    (given,) = inputs
    attributes = node.attributes
    if (kind := attributes["joinType"]) not in ("INNER", "LEFT"):
        raise UnsupportedPlan(f"a lateral join of type {kind}")
    padding = (None,) * (len(node.output.fields) - len(given.type.fields)) if kind == "LEFT" else None
    create = partial(
        CorrelateOperator,
        attributes["functionCall"],
        attributes.get("condition"),
        padding,
        translation.settings,
    )
    return translation.operator(node, given, create)
