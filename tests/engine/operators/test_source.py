"""The source operator: which subtask reads which split, in turn, and the positions after a restore."""

from __future__ import annotations

import pytest

from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.operators.source import SourceOperator


def source_of(**splits):
    return CollectionSource({name: [(value, None) for value in values] for name, values in splits.items()})


def read_out(operator, limit=1):
    values = []
    while records := operator.poll(limit):
        values.extend(value for value, _ in records)
    return values


def test_splits_are_read_in_turn(bench):
    operator = bench.open(SourceOperator(source_of(a="123", b="4", c="56")))
    assert read_out(operator) == ["1", "4", "5", "2", "6", "3"]
    assert operator.exhausted
    assert operator.records_read == 6
    assert operator.poll(1) == []


def test_a_poll_reads_one_split_and_no_more_than_it_may(bench):
    operator = bench.open(SourceOperator(source_of(a="123", b="4567")))
    assert [operator.poll(2) for _ in range(5)] == [
        [("1", None), ("2", None)],
        [("4", None), ("5", None)],
        [("3", None)],
        [("6", None), ("7", None)],
        [],
    ]


def test_empty_splits_are_passed_over(bench):
    operator = bench.open(SourceOperator(source_of(a="", b="1", c="")))
    assert read_out(operator) == ["1"]
    assert bench.open(SourceOperator(source_of(a=""))).poll(1) == []
    assert bench.open(SourceOperator(source_of())).poll(1) == []


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_every_split_has_one_reader(bench, parallelism):
    source = source_of(d="4", a="1", c="3", b="2")
    operators = bench.open_all(lambda: SourceOperator(source), parallelism)
    owned = [list(operator.positions()) for operator in operators]
    assert sorted(split for splits in owned for split in splits) == ["a", "b", "c", "d"]
    assert owned[0][0] == "a", "the order of the source does not matter"
    assert sorted(value for operator in operators for value in read_out(operator)) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("polls", [0, 1, 3, 5, 20])
@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (2, 1), (2, 3), (3, 2)])
def test_every_split_continues_at_its_position_after_a_restore(bench, before, after, polls):
    source = source_of(a="abc", b="defg", c="h", d="ij")
    operators = bench.open_all(lambda: SourceOperator(source), before)
    read = []
    for operator in operators:
        for _ in range(polls):
            read.extend(value for value, _ in operator.poll(1))
    restored = bench.restore_all(operators, lambda: SourceOperator(source), after)
    for operator in restored:
        read.extend(read_out(operator))
    assert sorted(read) == list("abcdefghij")


def test_snapshot_does_not_see_later_reads(bench):
    source = source_of(a="123")
    operator = bench.open(SourceOperator(source))
    operator.poll(1)
    snapshot = operator.snapshot(1, 0)
    operator.poll(1)
    (stored,) = snapshot.operator.lists
    assert stored.elements == [["a", 1]]


def test_a_restored_subtask_that_was_dealt_nothing_reads_nothing(bench):
    """A subtask without splits: others own them, or finished subtasks had exhausted them."""
    operator = bench.open(SourceOperator(source_of(a="123")), restored=7, lists={})
    assert operator.poll(1) == []


def test_a_source_that_had_finished_reads_nothing_more(bench):
    """Its split has grown since, or never ends and was ended by a stop that drains."""
    operator = bench.open(SourceOperator(source_of(a="1")))
    assert operator.poll(1)
    longer = source_of(a="123")
    for restored in bench.restore_all([operator], lambda: SourceOperator(longer), 2, has_finished=True):
        assert restored.poll(1) == []
        assert restored.exhausted


def test_a_source_that_is_new_in_a_restored_job_reads_from_the_beginning(bench):
    operator = bench.open(SourceOperator(source_of(a="12")), restored=7, lists=None)
    assert read_out(operator) == ["1", "2"]


def test_closing_closes_every_reader(bench):
    closed = []

    class Closing(CollectionSource):
        def open_split(self, split, position):
            reader = super().open_split(split, position)

            class Wrapped:
                exhausted = False

                def close(self):
                    closed.append(split)

                read = staticmethod(reader.read)
                when_available = staticmethod(reader.when_available)
                react_to_change = staticmethod(reader.react_to_change)

            return Wrapped()

    operator = bench.open(SourceOperator(Closing({"a": [], "b": []})))
    operator.close()
    assert closed == ["a", "b"]
