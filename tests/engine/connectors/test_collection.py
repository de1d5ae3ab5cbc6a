"""The source in memory: a reader resumes at any position."""

from __future__ import annotations

import pytest

from onceproof.engine.connectors.collection import CollectionSource


def read_out(reader, limit=2):
    records = []
    while not reader.exhausted:
        records.extend(reader.read(limit))
    return records


def test_values_come_in_order_without_timestamps():
    source = CollectionSource.of_values(["a", "b", "c"])
    assert source.splits() == ["0"]
    assert read_out(source.open_split("0", None)) == [("a", None), ("b", None), ("c", None)]


@pytest.mark.parametrize("given", range(6))
@pytest.mark.parametrize("limit", [1, 2, 10])
def test_reader_resumes_exactly_after_the_last_record(given, limit):
    records = [(n, n * 10) for n in range(5)]
    source = CollectionSource({"s": records})
    first = source.open_split("s", None)
    before = []
    while len(before) < given and not first.exhausted:
        before.extend(first.read(1))
    assert before + read_out(source.open_split("s", first.position), limit) == records


def test_an_empty_split_is_exhausted_at_once_and_reads_nothing():
    reader = CollectionSource({"s": []}).open_split("s", None)
    assert reader.exhausted
    assert reader.read(10) == []


def test_a_batch_is_the_callers_own_list():
    records = [(1, None), (2, None)]
    reader = CollectionSource({"s": records}).open_split("s", None)
    reader.read(10).clear()
    assert records == [(1, None), (2, None)]


def test_an_unknown_split_is_named():
    with pytest.raises(ValueError, match="split 'b' is not in the collection source"):
        CollectionSource({"a": []}).open_split("b", None)


@pytest.mark.parametrize("position", [-1, 2, "1", True])
def test_a_position_that_does_not_fit_is_named(position):
    with pytest.raises(ValueError, match=r"position .* of split 'a' does not fit its 1 records"):
        CollectionSource({"a": [(1, None)]}).open_split("a", position)
