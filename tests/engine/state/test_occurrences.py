"""What is watched of restored state in a trial."""

from __future__ import annotations

from typing import Any

import pytest

from onceproof.engine.state.hashmap import HeapLists, HeapMaps
from onceproof.engine.state.occurrences import Occurrence, WatchedReads


def watched(table: Any) -> tuple[WatchedReads, Occurrence]:
    read = Occurrence()
    return WatchedReads(table, set(table), read), read


def test_read_of_a_restored_value_is_noted() -> None:
    table, read = watched({"ann": 1})
    table["bob"] = 2
    assert table.get("bob") == 2
    assert not read.happened
    assert table.get("ann") == 1
    assert read.happened


@pytest.mark.parametrize("replace_first", [True, False])
def test_value_that_is_replaced_or_removed_first_is_not_restored(replace_first: bool) -> None:
    table, read = watched({"ann": 1})
    if replace_first:
        table["ann"] = 5
    else:
        assert table.pop("ann", None) == 1
    assert table.get("ann") == (5 if replace_first else None)
    assert ("ann" in table) == replace_first
    assert not read.happened


def test_element_that_is_added_to_a_restored_list_reads_nothing() -> None:
    table, read = watched(HeapLists({"ann": [1]}))
    table.append("ann", 2)
    assert not read.happened
    assert table.get("ann") == [1, 2]
    assert read.happened


@pytest.mark.parametrize("call", ["get", "contains", "items", "is_empty"])
def test_each_read_of_a_restored_map_is_noted(call: str) -> None:
    table, read = watched(HeapMaps({"ann": {"a": 1}}))
    table.put("ann", "b", 2)
    assert not read.happened
    getattr(table, call)("ann", *(["a"] if call in ("get", "contains") else []))
    assert read.happened
