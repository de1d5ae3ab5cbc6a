"""Sinks whose primary key is not the key of the query: one row for each primary key, or an error.

What ``ON CONFLICT`` says chooses the function: DEDUPLICATE (also where nothing is said) keeps the rows of a
key and writes the last one that is alive; ERROR and NOTHING wait for the watermark, so that changes which
belong together have arrived, and then take the only row of a key, or refuse, or keep the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.ordering import fields_of, row_equality
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.translation import MakeFunction, TableStream, Translation
from onceproof.engine.table.types import TIMESTAMPS, LogicalType
from onceproof.engine.table.values import (
    ADDS,
    DELETE,
    INSERT,
    UPDATE_AFTER,
    Change,
    Row,
    timestamp_text,
)

RUNTIME_EXCEPTION: Final = "org.apache.flink.table.api.TableRuntimeException"
_BUFFER_LIVES_LONGER_MS: Final = 5_000


class MaterializeSpec(Struct, frozen=True):
    """How rows are brought under the primary key."""

    type: LogicalType
    primary_key: tuple[int, ...]
    upsert_key: tuple[int, ...]
    """The columns that tell the rows of a primary key apart; (): all of them do."""
    ttl_ms: int
    fails: bool = False
    """Whether a second row of a primary key fails the job, under ON CONFLICT DO ERROR."""

    def same_row(self) -> Callable[[Row, Row], bool]:
        """Return whether two rows are versions of one row of the query."""
        if not self.upsert_key:
            return row_equality(self.type.types)
        key_of = fields_of(self.upsert_key)
        same = row_equality([self.type.types[place] for place in self.upsert_key])
        return lambda first, second: same(key_of(first), key_of(second))


class LiveRows:
    """The rows of a primary key; a version takes the place of the one before it."""

    def __init__(self, spec: MaterializeSpec) -> None:
        self._has_key = bool(spec.upsert_key)
        self._same = spec.same_row()

    def place_of(self, rows: Sequence[Row], row: Row) -> int:
        """Return where the first version of a row is; -1: nowhere."""
        return next((place for place, each in enumerate(rows) if self._same(each, row)), -1)

    def add(self, rows: list[Row], row: Row) -> None:
        """Add a row, or replace its version."""
        place = self.place_of(rows, row) if self._has_key else -1
        if place < 0:
            rows.append(row)
        else:
            rows[place] = row

    def remove(self, rows: list[Row], row: Row) -> int:
        """Remove the first version of a row; return where it was, or -1."""
        place = self.place_of(rows, row)
        if place >= 0:
            del rows[place]
        return place


class UpsertMaterializer(TableFunction):
    """Writes the last row that is alive (Flink: SinkUpsertMaterializer).

    A row that comes is written; when the last one goes, the one before it is written again. A retraction of
    what is not there is dropped.
    """

    def __init__(self, spec: MaterializeSpec) -> None:
        super().__init__()
        self._spec = spec
        self._rows = LiveRows(spec)

    def start(self, context: TableContext) -> None:
        self._state = context.value_state("values", self._spec.ttl_ms)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        rows: list[Row] = self._state.value() or []
        if ADDS[kind]:
            emit((UPDATE_AFTER if rows else INSERT, row))
            self._rows.add(rows, row)
        else:
            place = self._rows.remove(rows, row)
            if place < 0:
                return
            if not rows:
                emit((DELETE, row))
            elif place == len(rows):
                emit((UPDATE_AFTER, rows[-1]))
        if rows:
            self._state.update(rows)
        else:
            self._state.clear()


class WatermarkStamp(TableFunction):
    """Appends the current watermark to each row (Flink: WatermarkTimestampAssigner)."""

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        emit((kind, (*row, self.moment.watermark)))


class WatermarkMaterializer(TableFunction):
    """Waits for the next watermark and takes the only row (Flink: WatermarkCompactingSinkMaterializer).

    Its input is stamped with watermarks. In what waits under one of them an addition and a retraction of
    equal rows cancel each other, whichever came first.
    """

    def __init__(self, spec: MaterializeSpec) -> None:
        super().__init__()
        self._spec = spec
        self._rows = LiveRows(spec)
        self._equal = row_equality(spec.type.types)

    def start(self, context: TableContext) -> None:
        ttl_ms = self._spec.ttl_ms
        self._timers = context.timers
        self._buffer = context.map_state("watermark-buffer", ttl_ms and ttl_ms + _BUFFER_LIVES_LONGER_MS)
        self._current = context.value_state("current-value", ttl_ms)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        *columns, stamp = row
        change = INSERT if ADDS[kind] else DELETE, tuple(columns)
        waiting: list[Change] = self._buffer.get(stamp) or []
        place = self._opposite(waiting, change)
        waiting = [*waiting, change] if place < 0 else [*waiting[:place], *waiting[place + 1 :]]
        self._buffer.put(stamp, waiting)
        self._timers.register_event_time_timer(stamp + 1)

    def _opposite(self, waiting: Sequence[Change], change: Change) -> int:
        for place, (kind, row) in enumerate(waiting):
            if kind != change[0] and self._equal(row, change[1]):
                return place
        return -1

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        current = self._current.value()
        rows = self._compacted(current, timestamp - 1)
        if len(rows) > 1:
            if self._spec.fails:
                raise FunctionFailed(_conflict(self._spec, rows[0]), RUNTIME_EXCEPTION)
            if current is not None:
                return
        if not rows:
            if current is not None:
                emit((DELETE, current))
                self._current.clear()
        elif current is None or not self._equal(current, rows[0]):
            emit((INSERT if current is None else UPDATE_AFTER, rows[0]))
            self._current.update(rows[0])

    def _compacted(self, current: Row | None, stamp: int) -> list[Row]:
        rows = [] if current is None else [current]
        for each in sorted([each for each, _ in self._buffer.items() if each <= stamp]):
            for kind, row in self._buffer.get(each):
                if kind == INSERT:
                    self._rows.add(rows, row)
                else:
                    self._rows.remove(rows, row)
            self._buffer.remove(each)
        return rows


def _conflict(spec: MaterializeSpec, row: Row) -> str:
    fields = [spec.type.fields[place] for place in spec.primary_key]
    values = [_text(row[place], spec.type.types[place]) for place in spec.primary_key]
    key = ", ".join([f"{field.name}={value}" for field, value in zip(fields, values, strict=True)])
    return (
        "Primary key constraint violation: multiple distinct records with the same primary key detected."
        f" Conflicting key: [{key}]. Use ON CONFLICT DO NOTHING to keep the first record."
    )


def _text(value: Any, kind: LogicalType) -> str:
    """Return a value as Java prints what Flink has of it."""
    if value is None or kind.root == "BOOLEAN":
        return str(value).lower().replace("none", "null")
    return timestamp_text(value, kind.precision) if kind.root in TIMESTAMPS else str(value)


def materialize(node: Node, given: TableStream, end: TableEnd, translation: Translation) -> TableStream:
    """Bring a stream under the primary key of its sink. Raises UnsupportedPlan for an unknown strategy."""
    upsert_key = tuple(node.attributes.get("inputUpsertKey") or ())
    behavior = (node.attributes.get("conflictStrategy") or {}).get("behavior", "DEDUPLICATE")
    spec = MaterializeSpec(end.type, end.primary_key, upsert_key, node.ttl_ms(), behavior == "ERROR")
    match behavior:
        case "DEDUPLICATE":
            make: MakeFunction = partial(UpsertMaterializer, spec)
        case "ERROR" | "NOTHING":
            given = translation.plain(node, given, WatermarkStamp, "watermark")
            make = partial(WatermarkMaterializer, spec)
        case other:
            raise UnsupportedPlan(f"ON CONFLICT DO {other}")
    return translation.keyed(node, given, end.primary_key, make, "materialize")
