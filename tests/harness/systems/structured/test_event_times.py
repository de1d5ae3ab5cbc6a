"""Times in the texts of records, and the records that close a query's windows."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from onceproof.harness.systems.structured.queries.event_times import closing_records, time_of


def milliseconds(*date):
    return int(datetime(*date, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ('{"at": "2026-03-02T09:00:40"}', milliseconds(2026, 3, 2, 9, 0, 40)),
        ('{"at": "2026-03-02 09:00:40.5"}', milliseconds(2026, 3, 2, 9, 0, 40) + 500),
        ("ada,2026-03-02,7", milliseconds(2026, 3, 2)),
        ('{"ts": 1772442040}', 1772442040_000),
        ('{"ts": 1772442040123}', 1772442040_123),
        ('{"ts": 1772442040123456}', 1772442040_123),
        ('{"cents": 500, "price": 1772442040.5}', None),
        ('{"no date": "2026-13-45"}', None),
    ],
)
def test_a_time_is_found_in_the_text_of_a_record(text, time):
    assert time_of(text) == time


def test_closing_records_have_all_times_of_the_latest_one_far_ahead():
    late = {"shown": "2026-03-02T09:00:00", "clicked": 1772442040, "ad": "ada"}
    early = {**late, "shown": "2026-03-01T09:00:00"}
    first, second = closing_records([(0, json.dumps(late)), (1, json.dumps(early))], 2)
    assert json.loads(first[1]) == {
        "shown": "2028-11-26T09:00:00",
        "clicked": 1772442040 + 86_400_000,
        "ad": "ada",
    }
    assert (first[0], second) == (86_400_000_000, (86_400_000_001, first[1]))


def test_a_source_without_records_is_not_closed():
    assert closing_records([], 2) == []
