"""What the totals must be: the input that is drawn, and the rows that follow from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from onceproof import Workload

record_schema = "key STRING, amount BIGINT"
row_schema = "key STRING, total BIGINT"


def generate(random: Random) -> Workload:
    """Draw one file of up to 60 amounts of up to 4 keys."""
    keys = 1 + int(random.random() * 4)
    records = [
        (number, (f"k{int(random.random() * keys)}", 1 + int(random.random() * 9)))
        for number in range(1 + int(random.random() * 60))
    ]
    return Workload({"amounts": records})


def expected(records: Mapping[str, Sequence[tuple[int, Any]]], declared: object) -> list[tuple[str, int]]:
    """Return the running total behind each amount of a key, in the order of the file."""
    totals: dict[str, int] = defaultdict(int)
    rows = []
    for split in records.values():
        for _, (key, amount) in split:
            totals[key] += amount
            rows.append((key, totals[key]))
    return rows
