"""Sessions of each key: records whose windows of GAP_MS touch belong together, in any order of arrival."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from onceproof import Workload

GAP_MS = 5
record_schema = "key STRING, amount BIGINT"
row_schema = "key STRING, start BIGINT, stop BIGINT, total BIGINT"


def generate(random: Random) -> Workload:
    """Draw up to 40 amounts of up to 2 keys, out of order, also from before 1970."""
    keys = 1 + int(random.random() * 2)
    records = [
        (
            int(random.random() * 60) - 20,
            (f"k{int(random.random() * keys)}", 1 + int(random.random() * 9)),
        )
        for _ in range(1 + int(random.random() * 40))
    ]
    return Workload({"amounts": records})


def expected(records: Mapping[str, Sequence[tuple[int, Any]]], declared: object) -> list[tuple[Any, ...]]:
    """Return key, first time, end and sum of each session."""
    by_key: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for split in records.values():
        for time, (key, amount) in split:
            by_key[key].append((time, amount))
    rows: list[tuple[Any, ...]] = []
    for key, amounts in by_key.items():
        begin = end = total = 0
        for number, (time, amount) in enumerate(sorted(amounts)):
            if number and time <= end:
                end, total = time + GAP_MS, total + amount
                continue
            if number:
                rows.append((key, begin, end, total))
            begin, end, total = time, time + GAP_MS, amount
        rows.append((key, begin, end, total))
    return rows
