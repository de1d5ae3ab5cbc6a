"""Evictors: what is left of a window's records."""

import pytest

from onceproof.engine.durations import Time
from onceproof.engine.windows.evictors import CountEvictor, DeltaEvictor, TimeEvictor, TimestampedValue


def left(evictor, pairs, side="before"):
    elements = [TimestampedValue(value, timestamp) for value, timestamp in pairs]
    getattr(evictor, f"evict_{side}")(elements, len(elements), None, None)
    return [element.get_value() for element in elements]


RECORDS = [("a", 10), ("b", 40), ("c", 30), ("d", 35)]


@pytest.mark.parametrize(
    ("evictor", "expected"),
    [
        (CountEvictor.of(2), ["c", "d"]),
        (CountEvictor.of(4), ["a", "b", "c", "d"]),
        (CountEvictor.of(0), []),
        (TimeEvictor.of(Time.milliseconds(10)), ["b", "d"]),
        (TimeEvictor.of(Time.milliseconds(11)), ["b", "c", "d"]),
        (DeltaEvictor.of(2, lambda value, last: ord(last) - ord(value)), ["c", "d"]),
    ],
)
def test_remaining_records_by_evictor(evictor, expected):
    assert left(evictor, RECORDS) == expected
    assert left(evictor, RECORDS, "after") == ["a", "b", "c", "d"]


def test_evicting_afterwards_leaves_everything_before():
    evictor = CountEvictor.of(1, True)
    assert left(evictor, RECORDS) == ["a", "b", "c", "d"]
    assert left(evictor, RECORDS, "after") == ["d"]


def test_records_without_timestamps_are_not_evicted_by_time():
    assert left(TimeEvictor.of(Time.milliseconds(1)), [("a", None), ("b", None)]) == ["a", "b"]
    assert left(TimeEvictor.of(Time.milliseconds(1)), []) == []
