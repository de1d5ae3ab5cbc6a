"""Compares what killed_job has written with a plain computation over its input."""

from __future__ import annotations

import csv
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

Row = tuple[str, int, int, int]
"""A key, a number, and the key's count and total up to that number."""


def problems_of(folder: Path, barriers: str) -> list[str]:
    """Return in what the output of a round differs from that of a plain computation over its input."""
    expected = computed(folder)
    rows, totals = rows_in_files(folder / "rows"), rows_in_table(folder / "totals.db")
    if barriers == "at-least-once":
        return [*at_least(expected, rows), *table_below(expected, totals)]
    return [*differences(Counter(expected), rows), *table_differs(expected, totals)]


def computed(folder: Path) -> list[Row]:
    """Compute the rows of a round from its input, by a loop."""
    found: list[Row] = []
    for path in folder.glob("*.csv"):
        counts: Counter[str] = Counter()
        totals: Counter[str] = Counter()
        with path.open(newline="") as file:
            for key, number in list(csv.reader(file))[1:]:
                counts[key] += 1
                totals[key] += int(number)
                found.append((key, int(number), counts[key], totals[key]))
    return found


def rows_in_files(folder: Path) -> Counter[Row]:
    """Return the rows that a reader of the file sink's folder sees."""
    found: Counter[Row] = Counter()
    for name in os.listdir(folder):
        if not name.startswith("."):
            with (folder / name).open(newline="") as file:
                found.update((key, int(a), int(b), int(c)) for key, a, b, c in csv.reader(file))
    return found


def rows_in_table(path: Path) -> dict[str, Row]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT key, number, count, total FROM totals").fetchall()
    connection.close()
    return {row[0]: tuple(row) for row in rows}


def latest_of(expected: list[Row]) -> dict[str, Row]:
    return {row[0]: row for row in expected}


def differences(expected: Counter[Row], rows: Counter[Row]) -> list[str]:
    return [
        f"{row}: {rows[row]} times instead of {expected[row]}"
        for row in sorted(expected.keys() | rows.keys())
        if rows[row] != expected[row]
    ]


def table_differs(expected: list[Row], table: dict[str, Row]) -> Iterator[str]:
    latest = latest_of(expected)
    for key in sorted(latest.keys() | table.keys()):
        if latest.get(key) != table.get(key):
            yield f"table: {table.get(key)} instead of {latest.get(key)}"


def at_least(expected: list[Row], rows: Counter[Row]) -> Iterator[str]:
    """Yield what at-least-once forbids: rows lost or invented, and state that lacks records before a row."""
    least = {(key, number): (count, total) for key, number, count, total in expected}
    found = {(key, number) for key, number, *_ in rows}
    yield from (f"{each}: lost" for each in sorted(least.keys() - found))
    yield from (f"{each}: not in the input" for each in sorted(found - least.keys()))
    for key, number, count, total in sorted(rows):
        known = least.get((key, number))
        if known is not None and (count < known[0] or total < known[1]):
            yield f"{(key, number, count, total)}: less than what stands before it in the file"


def table_below(expected: list[Row], table: dict[str, Row]) -> Iterator[str]:
    for key, row in sorted(latest_of(expected).items()):
        there = table.get(key)
        if there is None or any(least > value for least, value in zip(row[1:], there[1:], strict=True)):
            yield f"table: {there} instead of at least {row}"
