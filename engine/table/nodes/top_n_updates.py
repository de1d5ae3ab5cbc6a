"""Top-N of streams with updates."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from onceproof.engine.table.nodes.top_n import BufferedTopN, RankSpec, TopN
from onceproof.engine.table.operators import Emit, TableContext, add_row
from onceproof.engine.table.ordering import fields_of, row_equality
from onceproof.engine.table.values import ADDS, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Row


class UpdatedTopN(BufferedTopN):
    """Top-N of rows with a key whose updates only move forward, and are never deleted.

    Flink: UpdatableTopNFunction. Only what is within the bounds is kept, by sort key and then by row key. An
    update that moves backward, because an operator upstream forgot its state, is taken as it is.
    """

    name = "data-state-with-update"

    def __init__(self, spec: RankSpec) -> None:
        super().__init__(spec)
        self._row_key = fields_of(spec.row_key)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        self.bound(row)
        buffer, key, row_key = self.load(), self.raw_key(row), self._row_key(row)
        old_place = next((place for place, each in enumerate(buffer) if row_key in each[1]), -1)
        if old_place >= 0:
            self._update(buffer, old_place, row, emit)
        else:
            size = sum(len(rows) for _, rows, _ in buffer)
            if not self.is_candidate(buffer, key, size):
                return
            place = self._put(buffer, key, row_key, row)
            if self.spec.numbers:
                rank, following = self._rank_and_following(buffer, place)
                self.shift(row, rank, following, emit)
                self.forget(buffer)
            else:
                if size + 1 > self.end:
                    emit((DELETE, self._remove_last(buffer)))
                emit((INSERT, row))
        self.store(buffer)

    def _put(self, buffer: list[Any], key: Row, row_key: Row, row: Row) -> int:
        """Add or replace a row; return the place of its sort key."""
        place = self.place_of(buffer, key)
        rows = buffer[place][1] if (is_there := self.is_at(buffer, place, key)) else {}
        rows[row_key] = row
        buffer[place : place + is_there] = [(key, rows, self.now())]
        return place

    @staticmethod
    def _rank_and_following(buffer: list[Any], place: int) -> tuple[int, list[Row]]:
        """Return the rank of the last row of a sort key, and the rows behind it."""
        rank = sum(len(rows) for _, rows, _ in buffer[: place + 1])
        return rank, [each for _, rows, _ in buffer[place + 1 :] for each in rows.values()]

    @staticmethod
    def _remove_last(buffer: list[Any]) -> Row:
        rows = buffer[-1][1]
        _, last = rows.popitem()
        if not rows:
            buffer.pop()
        return last  # type: ignore[no-any-return]

    def _update(self, buffer: list[Any], old_place: int, row: Row, emit: Emit) -> None:
        key, row_key = self.raw_key(row), self._row_key(row)
        old_key, rows, _ = buffer[old_place]
        old_rank = sum(len(each[1]) for each in buffer[:old_place]) + list(rows).index(row_key) + 1
        old = rows[row_key]
        order, old_order = self.order_of(key), self.order_of(old_key)
        if order != old_order:
            del rows[row_key]
            if not rows:
                del buffer[old_place]
        place = self._put(buffer, key, row_key, row)
        if not self.spec.numbers:
            if self.spec.emits_before:
                emit((UPDATE_BEFORE, old))
            emit((UPDATE_AFTER, row))
        elif order == old_order:
            self.replace(old, row, old_rank, emit)
        elif order < old_order:
            rank, following = self._rank_and_following(buffer, place)
            self._move_forward(rank, following, (old_rank, old), row, emit)
            self.forget(buffer)
        else:
            self._move_backward(buffer, place, (old_rank, old), row, emit)

    def _move_forward(
        self, rank: int, following: list[Row], old: tuple[int, Row], row: Row, emit: Emit
    ) -> None:
        """Emit that a row moves to a rank, and that those up to its old one move on."""
        old_rank, old_row = old
        is_retracted = False
        for each in following[: old_rank - rank]:
            self.emit(UPDATE_BEFORE, each, rank, emit)
            if not is_retracted:
                self.emit(UPDATE_BEFORE, old_row, old_rank, emit)
                is_retracted = True
            self.emit(UPDATE_AFTER, row, rank, emit)
            row = each
            rank += 1
        if rank <= self.end:
            if not is_retracted:
                self.emit(UPDATE_BEFORE, old_row, old_rank, emit)
            self.emit(UPDATE_AFTER, row, rank, emit)

    def _move_backward(
        self, buffer: list[Any], place: int, old: tuple[int, Row], row: Row, emit: Emit
    ) -> None:
        old_rank, old_row = old
        new_rank, _ = self._rank_and_following(buffer, place)
        rows = [each for _, group, _ in buffer for each in group.values()]
        self.emit(UPDATE_BEFORE, old_row, old_rank, emit)
        for rank in range(old_rank, new_rank):
            self.emit(UPDATE_BEFORE, rows[rank - 1], rank + 1, emit)
            self.emit(UPDATE_AFTER, rows[rank - 1], rank, emit)
        self.emit(UPDATE_AFTER, row, new_rank, emit)


class RetractedTopN(TopN):
    """Top-N of any changes (Flink: RetractableTopNFunction); all rows are kept.

    - One state has the sort keys in order, with the number of rows of each; another one has the rows by sort
      key. With a time to live they may expire apart: a sort key without rows is dropped when it is met.
    - A retraction of a row that is not there emits nothing. If its sort key is there, the number falls.
    """

    def __init__(self, spec: RankSpec) -> None:
        super().__init__(spec)
        self._same = row_equality(spec.types)

    def start(self, context: TableContext) -> None:
        super().start(context)
        self._tree = context.value_state("sorted-map", self.spec.ttl_ms)
        self._data = context.map_state("data-state", self.spec.ttl_ms)

    def _order_of_entry(self, entry: tuple[Row, int]) -> Any:
        return self.order_of(entry[0])

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        self.bound(row)
        tree: list[tuple[Row, int]] = self._tree.value() or []
        key = self.raw_key(row)
        order = self.order_of(key)
        place = bisect_left(tree, order, key=self._order_of_entry)
        is_there = place < len(tree) and self._order_of_entry(tree[place]) == order
        if ADDS[kind]:
            tree[place : place + is_there] = [(key, tree[place][1] + 1 if is_there else 1)]
            (self._enter_numbered if self.spec.numbers else self._enter)(tree, place, row, emit)
            add_row(self._data, key, row)
        else:
            self._retract(tree, place if is_there else -1, row, emit)
        if tree:
            self._tree.update(tree)
        else:
            self._tree.clear()

    def _entries(self, tree: list[tuple[Row, int]], place: int) -> Iterator[tuple[int, list[Row]]]:
        """Iterate over numbers and rows of the sort keys from a place on; those without rows are dropped."""
        while place < len(tree):
            key, count = tree[place]
            rows = self._data.get(key)
            if rows is None:
                del tree[place]
            else:
                place += 1
                yield count, rows

    def _enter_numbered(self, tree: list[tuple[Row, int]], place: int, row: Row, emit: Emit) -> None:
        rank = sum(count for _, count in tree[: place + 1])
        if rank <= self.end:
            following = (each for _, rows in self._entries(tree, place + 1) for each in rows)
            self.shift(row, rank, following, emit)

    def _enter(self, tree: list[tuple[Row, int]], place: int, row: Row, emit: Emit) -> None:
        rank = sum(count for _, count in tree[: place + 1])
        if rank > self.end:
            return
        passed = rank
        for count, rows in self._entries(tree, place + 1):
            if passed + count > self.end:
                emit((DELETE, rows[self.end - passed]))
                break
            passed += count
        self.emit(INSERT, row, rank, emit)

    def _retract(self, tree: list[tuple[Row, int]], place: int, row: Row, emit: Emit) -> None:
        if place < 0:
            return
        key, count = tree[place]
        rows = self._data.get(key)
        if rows is None:
            del tree[place]
            return
        index = next((index for index, each in enumerate(rows) if self._same(each, row)), -1)
        if index >= 0:
            gone, rows = rows[index], [*rows[:index], *rows[index + 1 :]]
            rank = sum(number for _, number in tree[:place]) + index + 1
            if rank <= self.end:
                leave = self._leave_numbered if self.spec.numbers else self._leave
                leave(tree, place, (rank, gone), rows[index:], emit)
            if rows:
                self._data.put(key, rows)
            else:
                self._data.remove(key)
        if count > 1:
            tree[place] = key, count - 1
        else:
            del tree[place]

    def _leave_numbered(
        self, tree: list[tuple[Row, int]], place: int, old: tuple[int, Row], rest: list[Row], emit: Emit
    ) -> None:
        """Emit that the rows behind a row move up: first the ``rest`` of its sort key."""
        rank, previous = old
        for rows in self._all(rest, tree, place + 1):
            for each in rows:
                if rank > self.end:
                    return
                self.replace(previous, each, rank, emit)
                previous = each
                rank += 1
        self.emit(DELETE, previous, rank, emit)

    def _all(self, rest: list[Row], tree: list[tuple[Row, int]], place: int) -> Iterator[list[Row]]:
        yield rest
        for _, rows in self._entries(tree, place):
            yield rows

    def _leave(
        self, tree: list[tuple[Row, int]], place: int, old: tuple[int, Row], rest: list[Row], emit: Emit
    ) -> None:
        rank, row = old
        self.emit(DELETE, row, rank, emit)
        if rank + len(rest) > self.end:
            self.emit(INSERT, rest[self.end - rank], self.end, emit)
            return
        rank += len(rest)
        for count, rows in self._entries(tree, place + 1):
            if rank + count > self.end:
                emit((INSERT, rows[self.end - rank]))
                return
            rank += count
