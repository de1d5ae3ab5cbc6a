"""Lookup joins: a row meets the rows that a table has for its key as it is processed.

Source: Flink 2.3 StreamExecLookupJoin, LookupJoinRunner and LookupJoinWithCalcRunner. Rules:

- The key is columns of the row and constants. A NULL in it matches nothing.
- What is found is filtered and projected first, then the join's condition holds for pairs.
- The kind of a change stays: a retraction looks rows up again. A plan that keeps what it had found
  (``table.optimizer.non-deterministic-update.strategy``) is refused.
- Asynchronous lookups are made one after the other, in order: the same rows as in Flink, in one of its
  orders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from onceproof.engine.table.expressions.registry import (
    compile_condition,
    compile_expression,
    compile_projection,
)
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.table_ends import MakeLookup, lookup_end
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import Row

_Expression = Mapping[str, Any] | None


class LookupSpec(Struct, frozen=True):
    """What a plan says of a lookup join."""

    is_left: bool
    keys: tuple[Mapping[str, Any], ...]
    """FieldRef or Constant, in the order of the key columns of the table."""
    before: _Expression
    """What must hold for a row to be looked up."""
    filter: _Expression
    projection: tuple[Mapping[str, Any], ...] | None
    """What is made of the rows that are found; None: they stay as they are."""
    condition: _Expression
    """What must hold for a pair."""
    padding: Row


class LookupJoin(TableFunction):
    """INNER and LEFT."""

    def __init__(self, spec: LookupSpec, make_lookup: MakeLookup, settings: TableSettings) -> None:
        super().__init__()
        scope = settings.scope(self.moment)
        self._is_left, self._padding = spec.is_left, spec.padding

        def condition(expression: _Expression) -> Callable[[Row], Any] | None:
            return None if expression is None else compile_condition(expression, scope)

        self._before, self._filter = condition(spec.before), condition(spec.filter)
        self._matches = condition(spec.condition)
        self._project = None if spec.projection is None else compile_projection(spec.projection, scope)
        self._key = [_part(each, scope) for each in spec.keys]
        self._make_lookup = make_lookup

    def start(self, context: TableContext) -> None:
        self._lookup = self._make_lookup()
        self._lookup.open()

    def close(self) -> None:
        """Close the lookup."""
        if (lookup := getattr(self, "_lookup", None)) is not None:
            lookup.close()

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        is_met = False
        if self._before is None or self._before(row) is True:
            for found in self._found(row):
                pair = row + found
                if self._matches is None or self._matches(pair) is True:
                    is_met = True
                    emit((kind, pair))
        if self._is_left and not is_met:
            emit((kind, row + self._padding))

    def _found(self, row: Row) -> Sequence[Row]:
        key = tuple([part(row) for part in self._key])
        if None in key:
            return ()
        found = self._lookup.rows(key)
        if self._filter is not None:
            found = [each for each in found if self._filter(each) is True]
        return found if self._project is None else [self._project(each) for each in found]


def _part(key: Mapping[str, Any], scope: Any) -> Callable[[Row], Any]:
    if key["type"] == "FieldRef":
        column: int = key["index"]
        return lambda row: row[column]
    if key["type"] != "Constant":
        raise UnsupportedPlan(f"a lookup key of type {key['type']}")
    return compile_expression(key["literal"], scope)


@translator("lookup-join", 1)
def translate_lookup_join(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator where the input is."""
    attributes = node.attributes
    kind = attributes["joinType"]
    if kind not in ("INNER", "LEFT"):
        raise UnsupportedPlan(f"a lookup join of type {kind}")
    for option in ("upsertMaterialize", "requireUpsertMaterialize", "retryOptions"):
        if attributes.get(option):
            raise UnsupportedPlan(f"a lookup join with {option}")
    end = lookup_end(node)
    columns = sorted(map(int, attributes["lookupKeys"]))
    projection = attributes.get("projectionOnTemporalTable")
    spec = LookupSpec(
        kind == "LEFT",
        tuple([attributes["lookupKeys"][str(column)] for column in columns]),
        attributes.get("preFilterCondition"),
        attributes.get("filterOnTemporalTable"),
        None if projection is None else tuple(projection),
        attributes.get("joinCondition"),
        (None,) * (len(node.output.fields) - len(inputs[0].type.fields)),
    )
    make_lookup = translation.tables.lookup(end, columns)
    make = partial(LookupJoin, spec, make_lookup, translation.settings)
    return translation.plain(node, inputs[0], make)
