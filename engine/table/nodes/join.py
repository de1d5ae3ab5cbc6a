"""Regular joins: both sides are kept, and every change of one meets the rows of the other.

Sources: Flink 2.3 StreamingJoinOperator, StreamingSemiAntiJoinOperator. Rules:

- An inner join hands the kind of a change on. Where the side of the change or the other one is outer, matches
  come as +I and go as -D.
- A row of an outer side knows how many rows it matches. With the first match its padded row goes (-D before
  the +I of the match), with the last one it comes again (+I behind).
- A row whose key has a NULL that matches nothing is not kept: it is padded, or dropped.
- SEMI emits a left row when it gets its first match and takes it back with the last one, ANTI the reverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from onceproof.engine.table.nodes.join_spec import (
    JoinSpec,
    Matches,
    SideRows,
    SideSpec,
    matcher,
    null_test,
    read_join,
    side_rows,
    side_spec,
)
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import ADDS, DELETE, INSERT, Row


class RegularJoinSpec(Struct, frozen=True):
    """A regular join and its sides."""

    join: JoinSpec
    left: SideSpec
    right: SideSpec


class TwoSides(TableFunction):
    """What regular joins of all kinds share: the rows of the sides and their matches."""

    def __init__(self, spec: RegularJoinSpec, settings: TableSettings) -> None:
        super().__init__()
        join = self._join = spec.join
        self._spec = spec
        self._matches: Matches | None = matcher(join.condition, settings.scope(self.moment))
        self._left_is_null = null_test(join.left_not_null)
        self._right_is_null = null_test(join.right_not_null)

    def start(self, context: TableContext) -> None:
        self._left: SideRows = side_rows(context, self._spec.left)
        self._right: SideRows = side_rows(context, self._spec.right)

    def _of_left(self, row: Row) -> Sequence[tuple[Row, int]]:
        """Return the right rows that match a left row."""
        matches, pairs = self._matches, self._right.pairs()
        return pairs if matches is None else [pair for pair in pairs if matches(row, pair[0])]

    def _of_right(self, row: Row) -> Sequence[tuple[Row, int]]:
        """Return the left rows that match a right row."""
        matches, pairs = self._matches, self._left.pairs()
        return pairs if matches is None else [pair for pair in pairs if matches(pair[0], row)]


class RegularJoin(TwoSides):
    """INNER, LEFT, RIGHT and FULL."""

    def __init__(self, spec: RegularJoinSpec, settings: TableSettings) -> None:
        super().__init__(spec, settings)
        self._left_pad: Row = (None,) * len(spec.right.types)
        self._right_pad: Row = (None,) * len(spec.left.types)
        self._left_is_outer = spec.join.left_is_outer
        self._right_is_outer = spec.join.right_is_outer

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        """Join a left change with the right rows."""
        is_outer, other_is_outer, pad = self._left_is_outer, self._right_is_outer, self._right_pad
        if self._left_is_null(row):
            if is_outer:
                emit((INSERT if ADDS[kind] else DELETE, row + self._left_pad))
            return
        adds, own, others = ADDS[kind], self._left, self._right
        if not adds:
            own.retract(row)
        found = self._of_left(row)
        if adds:
            own.add(row, len(found) if is_outer else 0)
        if not found and is_outer:
            emit((INSERT if adds else DELETE, row + self._left_pad))
        sent = (INSERT if adds else DELETE) if is_outer or (adds and other_is_outer) else kind
        for other, matches in found:
            if not other_is_outer:
                emit((sent, row + other))
            elif adds:
                if matches == 0:
                    emit((DELETE, pad + other))
                others.update(other, matches + 1)
                emit((sent, row + other))
            else:
                emit((sent, row + other))
                if matches == 1:
                    emit((INSERT, pad + other))
                others.update(other, matches - 1)

    def process_second(self, kind: int, row: Row, emit: Emit) -> None:
        """Join a right change with the left rows."""
        is_outer, other_is_outer, pad = self._right_is_outer, self._left_is_outer, self._left_pad
        if self._right_is_null(row):
            if is_outer:
                emit((INSERT if ADDS[kind] else DELETE, self._right_pad + row))
            return
        adds, own, others = ADDS[kind], self._right, self._left
        if not adds:
            own.retract(row)
        found = self._of_right(row)
        if adds:
            own.add(row, len(found) if is_outer else 0)
        if not found and is_outer:
            emit((INSERT if adds else DELETE, self._right_pad + row))
        sent = (INSERT if adds else DELETE) if is_outer or (adds and other_is_outer) else kind
        for other, matches in found:
            if not other_is_outer:
                emit((sent, other + row))
            elif adds:
                if matches == 0:
                    emit((DELETE, other + pad))
                others.update(other, matches + 1)
                emit((sent, other + row))
            else:
                emit((sent, other + row))
                if matches == 1:
                    emit((INSERT, other + pad))
                others.update(other, matches - 1)


class SemiJoin(TwoSides):
    """SEMI and ANTI."""

    def __init__(self, spec: RegularJoinSpec, settings: TableSettings) -> None:
        super().__init__(spec, settings)
        self._is_anti = spec.join.kind == "ANTI"

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        if self._left_is_null(row):
            if self._is_anti:
                emit((kind, row))
            return
        found = self._of_left(row)
        if bool(found) is not self._is_anti:
            emit((kind, row))
        if ADDS[kind]:
            self._left.add(row, len(found))
        else:
            self._left.retract(row)

    def process_second(self, kind: int, row: Row, emit: Emit) -> None:
        if self._right_is_null(row):
            return
        is_anti, left, adds = self._is_anti, self._left, ADDS[kind]
        found = self._of_right(row)
        if adds:
            self._right.add(row, 0)
            for other, matches in found:
                if matches == 0:
                    emit((DELETE if is_anti else kind, other))
                left.update(other, matches + 1)
            return
        self._right.retract(row)
        for other, matches in found:
            if matches == 1:
                emit((INSERT if is_anti else kind, other))
            left.update(other, matches - 1)


@translator("join", 1)
def translate_join(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator, under the keys of the join."""
    left, right = inputs
    attributes = node.attributes
    join = read_join(attributes["joinSpec"])
    if translation.settings.options.get("table.exec.mini-batch.enabled") == "true":
        raise UnsupportedPlan("a join with mini-batch")
    spec = RegularJoinSpec(
        join,
        _side("left-records", left, join.left_keys, attributes.get("leftUpsertKeys"), node.ttl_ms(0)),
        _side("right-records", right, join.right_keys, attributes.get("rightUpsertKeys"), node.ttl_ms(1)),
    )
    function = SemiJoin if join.kind in ("SEMI", "ANTI") else RegularJoin
    make = partial(function, spec, translation.settings)
    return translation.keyed_two(node, (left, right), (join.left_keys, join.right_keys), make)


def _side(name: str, given: TableStream, keys: Sequence[int], unique_keys: Any, ttl_ms: int) -> SideSpec:
    return side_spec(name, given.type, keys, unique_keys, ttl_ms)
