"""Aggregates OVER all rows up to the current one, ordered by columns that are no time.

A row that comes or goes changes the results of those behind it, so every change emits updates.

Rules:

- A row that comes is emitted with its own kind, one that goes as -D. Rows behind it are updated in order.
- ROWS: among equals the one that came first is first. RANGE: equals share one result; they are updated
  together with the row that comes or goes.
- RANGE stops at the first place whose accumulators stay as they were, ROWS at the first whose results do.
- A row that goes must be equal to one that is there; otherwise nothing happens.
- With a time to live, rows expire one by one, and the order lives on with each change: it loses those that
  have expired when a change comes. Nothing expires while a change is handled.

State: the order, a list of (sort columns, ids of rows); rows by id; accumulators by id (ROWS) or by sort
columns (RANGE). Flink: NonTimeRowsUnboundedPrecedingFunction, NonTimeRangeUnboundedPrecedingFunction.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from onceproof.engine.table.aggregates.accumulation import AggregateSet
from onceproof.engine.table.aggregates.registry import AggregateCall
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.ordering import SortField, row_equality, sort_key
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import ADDS, DELETE, UPDATE_AFTER, UPDATE_BEFORE, Row

Place = tuple[int, list[int]]
"""The ids of the rows that are equal in the order; the first id stands for the sort columns."""


class UpdatingOverSpec(Struct, frozen=True):
    """What an updating OVER aggregate is to do."""

    calls: tuple[AggregateCall, ...]
    constants: Row
    order: tuple[SortField, ...]
    types: tuple[LogicalType, ...]
    is_rows: bool
    ttl_ms: int = 0


class SteadyMap:
    """A map state whose entries do not expire while a change is handled."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._known: dict[int, Any] = {}

    def begin(self) -> None:
        """Forget what was read for the change before."""
        self._known.clear()

    def get(self, key: int) -> Any:
        """Return the entry as this change has found or put it."""
        if key not in self._known:
            self._known[key] = self._state.get(key)
        return self._known[key]

    def put(self, key: int, value: Any) -> None:
        """Put an entry."""
        self._known[key] = value
        self._state.put(key, value)

    def remove(self, key: int) -> None:
        """Remove an entry."""
        self._known[key] = None
        self._state.remove(key)


class UpdatingOver(TableFunction):
    """Keeps all rows of a key in order, and the accumulators at each place."""

    def __init__(self, spec: UpdatingOverSpec, settings: TableSettings) -> None:
        super().__init__()
        self._spec = spec
        self._constants = spec.constants
        self._aggregates = AggregateSet(spec.calls, settings)
        self._order = sort_key(spec.order, spec.types)
        self._equal = row_equality(spec.types)

    def start(self, context: TableContext) -> None:
        ttl_ms = self._spec.ttl_ms
        self._next_id = context.value_state("idState", ttl_ms)
        self._places = context.value_state("sortedListState", ttl_ms)
        self._rows = context.map_state("valueMapState", ttl_ms)
        self._accumulators = context.map_state("accMapState", ttl_ms)
        if ttl_ms:
            self._rows, self._accumulators = SteadyMap(self._rows), SteadyMap(self._accumulators)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        places: list[list[int]] = [list(ids) for ids in self._places.value() or ()]
        if self._spec.ttl_ms:
            places = self._alive(places)
        if ADDS[kind]:
            self._insert(places, kind, row, emit)
        else:
            self._remove(places, row, emit)

    def _alive(self, places: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the places without the rows that have expired, and begin a change."""
        rows, accumulators = self._rows, self._accumulators
        rows.begin()
        accumulators.begin()
        for ids in places:
            # Accumulators are put after their row. Read before it, they are there if the row still is.
            for each in ids if self._spec.is_rows else (self._name(ids),):
                accumulators.get(each)
        left = ([each for each in ids if rows.get(each) is not None] for ids in places)
        return [ids for ids in left if ids]

    def _find(self, places: Sequence[Sequence[int]], row: Row) -> tuple[int, bool]:
        """Return the place of a row, and whether there are equal ones."""
        order, rows, wanted = self._order, self._rows, self._order(row)
        index = bisect_left(places, wanted, key=lambda ids: order(rows.get(ids[0])))
        found = index < len(places) and order(rows.get(places[index][0])) == wanted
        return index, found

    def _before(self, places: Sequence[Sequence[int]], index: int) -> Any:
        """Return a copy of the accumulators before a place."""
        if index == 0:
            return self._aggregates.create()
        held = self._accumulators.get(self._name(places[index - 1]))
        return self._aggregates.create() if held is None else copy.deepcopy(held)

    def _name(self, ids: Sequence[int]) -> int:
        """Return under which id the accumulators after a place are."""
        return ids[-1]

    def _add(self, held: Any, row: Row) -> None:
        self._aggregates.add(held, tuple(row) + self._constants)

    def _insert(self, places: list[list[int]], kind: int, row: Row, emit: Emit) -> None:
        index, found = self._find(places, row)
        new_id = self._next_id.value() or 0
        peers = places[index] if found else []
        before: Any = self._accumulators.get(self._name(peers)) if found else None
        if self._spec.is_rows and found:
            held = copy.deepcopy(before)
        else:
            held = self._before(places, index)
            for each in peers:
                self._add(held, self._rows.get(each))
        self._add(held, row)
        if not self._spec.is_rows and found and before != held:
            self._update(peers, before, held, emit)
        emit((kind, (*row, *self._aggregates.results(held))))
        if found:
            if not self._spec.is_rows:
                self._accumulators.remove(self._name(peers))
            peers.append(new_id)
        else:
            places.insert(index, [new_id])
        self._rows.put(new_id, row)
        self._accumulators.put(new_id, held)
        self._places.update(places)
        self._next_id.update(new_id + 1)
        self._update_rest(places, index + 1, held, emit)

    def _remove(self, places: list[list[int]], row: Row, emit: Emit) -> None:
        index, found = self._find(places, row)
        if not found:
            return
        peers = places[index]
        same = [place for place, each in enumerate(peers) if self._equal(tuple(self._rows.get(each)), row)]
        if not same:
            return
        remove = self._remove_rows if self._spec.is_rows else self._remove_range
        held = remove(places, index, same, emit)
        if peers:
            index += 1
        else:
            del places[index]
        if places:
            self._places.update(places)
            self._update_rest(places, index, held, emit)
        else:
            # Nothing is left of the key, so ids may begin again.
            self._places.clear()
            self._next_id.clear()

    def _remove_range(self, places: list[list[int]], index: int, same: list[int], emit: Emit) -> Any:
        """Take away the last of the equal rows; the result is without all of them, as in Flink."""
        peers, place = places[index], same[-1]
        before = self._accumulators.get(self._name(peers))
        held = self._before(places, index)
        for other, each in enumerate(peers):
            if other not in same:
                self._add(held, self._rows.get(each))
        changed = before != held
        if changed:
            self._update(peers[:place], before, held, emit)
        emit((DELETE, (*self._rows.get(peers[place]), *self._aggregates.results(before))))
        if changed:
            self._update(peers[place + 1 :], before, held, emit)
        self._accumulators.remove(self._name(peers))
        self._rows.remove(peers.pop(place))
        if peers:
            self._accumulators.put(self._name(peers), held)
        return held

    def _remove_rows(self, places: list[list[int]], index: int, same: list[int], emit: Emit) -> Any:
        """Take away the first of the equal rows."""
        peers, place = places[index], same[0]
        held = (
            copy.deepcopy(self._accumulators.get(peers[place - 1])) if place else self._before(places, index)
        )
        gone = peers.pop(place)
        results = self._aggregates.results(self._accumulators.get(gone))
        emit((DELETE, (*self._rows.get(gone), *results)))
        for each in peers[place:]:
            if not self._move(each, held, emit):
                break
        self._rows.remove(gone)
        self._accumulators.remove(gone)
        return held

    def _move(self, row_id: int, held: Any, emit: Emit) -> bool:
        """Give a row its new result; return whether it has changed."""
        row = tuple(self._rows.get(row_id))
        self._add(held, row)
        before = self._aggregates.results(self._accumulators.get(row_id))
        after = self._aggregates.results(held)
        if before == after:
            return False
        emit((UPDATE_BEFORE, (*row, *before)))
        emit((UPDATE_AFTER, (*row, *after)))
        self._accumulators.put(row_id, copy.deepcopy(held))
        return True

    def _update(self, ids: Sequence[int], before: Any, after: Any, emit: Emit) -> None:
        old, new = self._aggregates.results(before), self._aggregates.results(after)
        for each in ids:
            row = self._rows.get(each)
            emit((UPDATE_BEFORE, (*row, *old)))
            emit((UPDATE_AFTER, (*row, *new)))

    def _update_rest(self, places: Sequence[Sequence[int]], start: int, held: Any, emit: Emit) -> None:
        """Give the rows from a place on their new results."""
        held = copy.deepcopy(held)
        for ids in places[start:]:
            if self._spec.is_rows:
                for each in ids:
                    if not self._move(each, held, emit):
                        return
                continue
            for each in ids:
                self._add(held, self._rows.get(each))
            before = self._accumulators.get(self._name(ids))
            if before == held:
                return
            self._update(ids, before, held, emit)
            self._accumulators.put(self._name(ids), copy.deepcopy(held))
