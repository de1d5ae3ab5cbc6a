"""What all joins have in common: keys, the condition on a pair of rows, padding, and the state of a side.

Rules:

- A row with NULL in a key column that is compared by ``=`` matches nothing (Flink:
  JoinConditionWithNullFilters). ``IS NOT DISTINCT FROM`` matches NULL with NULL.
- The columns of the right row follow those of the left one, in conditions as in results.
- Rows and unique keys are keys of maps (``ordering.row_codec``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from onceproof.engine.table.expressions.registry import Scope, compile_condition
from onceproof.engine.table.operators import TableContext
from onceproof.engine.table.ordering import fields_of, row_codec
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import Row

Matches = Callable[[Row, Row], bool]
"""Whether a left and a right row of one key make a pair."""


class JoinSpec(Struct, frozen=True):
    """What a plan says of a join (Flink: JoinSpec)."""

    kind: str
    """INNER, LEFT, RIGHT, FULL, SEMI or ANTI."""
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    filters_null: tuple[bool, ...]
    """For each key column: whether NULL matches nothing."""
    condition: Mapping[str, Any] | None
    """What must hold besides the keys."""

    @property
    def left_is_outer(self) -> bool:
        """Whether left rows without a match are padded."""
        return self.kind in ("LEFT", "FULL")

    @property
    def right_is_outer(self) -> bool:
        """Whether right rows without a match are padded."""
        return self.kind in ("RIGHT", "FULL")

    @property
    def left_not_null(self) -> tuple[int, ...]:
        """The key columns of the left side in which NULL matches nothing."""
        return self._not_null(self.left_keys)

    @property
    def right_not_null(self) -> tuple[int, ...]:
        """The key columns of the right side in which NULL matches nothing."""
        return self._not_null(self.right_keys)

    def _not_null(self, keys: Sequence[int]) -> tuple[int, ...]:
        return tuple([key for key, filters in zip(keys, self.filters_null, strict=True) if filters])


def read_join(data: Mapping[str, Any]) -> JoinSpec:
    """Read a join from its JSON."""
    return JoinSpec(
        data["joinType"],
        tuple(data["leftKeys"]),
        tuple(data["rightKeys"]),
        tuple(data["filterNulls"]),
        data.get("nonEquiCondition"),
    )


def matcher(condition: Mapping[str, Any] | None, scope: Scope) -> Matches | None:
    """Return the condition on a pair of rows; None: every pair of a key matches."""
    if condition is None:
        return None
    holds = compile_condition(condition, scope)
    return lambda left, right: holds(left + right) is True


def null_test(columns: Sequence[int]) -> Callable[[Row], bool]:
    """Return whether a row has NULL in one of the columns."""
    if len(columns) == 1:
        (column,) = columns
        return lambda row: row[column] is None
    return lambda row: any(row[column] is None for column in columns)


# ---- the state of a side


class SideSpec(Struct, frozen=True):
    """The rows of one input of a regular join, as state keeps them (Flink: JoinInputSideSpec)."""

    name: str
    types: tuple[LogicalType, ...]
    unique_key: tuple[int, ...] | None
    """The columns of the shortest key by which the input's changes are keyed; None: it has none."""
    is_single: bool
    """Whether the join key contains a unique key, so that it has one row at most."""
    ttl_ms: int


def side_spec(
    name: str,
    row: LogicalType,
    join_key: Sequence[int],
    unique_keys: Sequence[Sequence[int]] | None,
    ttl_ms: int,
) -> SideSpec:
    """Return the spec of an input (Flink: JoinUtil.analyzeJoinInput)."""
    keys = [tuple(each) for each in unique_keys or ()]
    is_single = any(set(key) <= set(join_key) for key in keys)
    return SideSpec(name, tuple(row.types), min(keys, key=len, default=None), is_single, ttl_ms)


class SideRows:
    """The rows of one side under the current key, each with how many rows of the other side it matches.

    The number is kept for the sides that are outer; the others leave it 0.
    """

    def add(self, row: Row, matches: int) -> None:
        """Add a row, or replace the one with its unique key."""
        raise NotImplementedError

    def update(self, row: Row, matches: int) -> None:
        """Set the number of matches of a row."""
        raise NotImplementedError

    def retract(self, row: Row) -> None:
        """Remove one copy of a row, or the one with its unique key; do nothing if it is not there."""
        raise NotImplementedError

    def pairs(self) -> Sequence[tuple[Row, int]]:
        """Return the rows and their numbers of matches, each copy by itself."""
        raise NotImplementedError


class SingleRow(SideRows):
    """At most one row (Flink: JoinKeyContainsUniqueKey)."""

    def __init__(self, context: TableContext, spec: SideSpec) -> None:
        self._state = context.value_state(spec.name, spec.ttl_ms)

    def add(self, row: Row, matches: int) -> None:
        self._state.update((row, matches))

    update = add

    def retract(self, row: Row) -> None:
        self._state.clear()

    def pairs(self) -> Sequence[tuple[Row, int]]:
        held = self._state.value()
        return () if held is None else (held,)


class UniqueRows(SideRows):
    """Rows by their unique key (Flink: InputSideHasUniqueKey)."""

    def __init__(self, context: TableContext, spec: SideSpec, columns: Sequence[int]) -> None:
        self._state = context.map_state(spec.name, spec.ttl_ms)
        encode, _ = row_codec([spec.types[column] for column in columns])
        select = fields_of(columns)
        self._key_of: Callable[[Row], Row] = lambda row: encode(select(row))

    def add(self, row: Row, matches: int) -> None:
        self._state.put(self._key_of(row), (row, matches))

    update = add

    def retract(self, row: Row) -> None:
        self._state.remove(self._key_of(row))

    def pairs(self) -> Sequence[tuple[Row, int]]:
        return [held for _, held in self._state.items()]


class CountedRows(SideRows):
    """Rows with the number of their copies (Flink: InputSideHasNoUniqueKey)."""

    def __init__(self, context: TableContext, spec: SideSpec) -> None:
        self._state = context.map_state(spec.name, spec.ttl_ms)
        self._key_of, self._row_of = row_codec(spec.types)

    def add(self, row: Row, matches: int) -> None:
        key = self._key_of(row)
        held = self._state.get(key)
        self._state.put(key, (1 if held is None else held[0] + 1, matches))

    def update(self, row: Row, matches: int) -> None:
        key = self._key_of(row)
        held = self._state.get(key)
        self._state.put(key, (1 if held is None else held[0], matches))

    def retract(self, row: Row) -> None:
        key = self._key_of(row)
        held = self._state.get(key)
        if held is None:
            return
        copies, matches = held
        if copies > 1:
            self._state.put(key, (copies - 1, matches))
        else:
            self._state.remove(key)

    def pairs(self) -> Sequence[tuple[Row, int]]:
        row_of = self._row_of
        return [
            pair
            for key, (copies, matches) in self._state.items()
            for pair in ((row_of(key), matches),) * copies
        ]


def side_rows(context: TableContext, spec: SideSpec) -> SideRows:
    """Return the state of a side that fits its unique keys."""
    if spec.is_single:
        return SingleRow(context, spec)
    if spec.unique_key is not None:
        return UniqueRows(context, spec, spec.unique_key)
    return CountedRows(context, spec)
