"""A job killed with SIGKILL at random moments ends with the rows of a plain computation over its input.

60 kills by default. More of them, with another seed:
``pytest tests/engine/runtime/test_kill_loop.py --kills 3000 --kill-seed 7``.
"""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_job.py")
CASES = [
    (backend, barriers)
    for backend in ("hashmap", "rocksdb")
    for barriers in ("aligned", "unaligned", "at-least-once")
]
SECONDS_PER_KILL = 60
"""Far above what a kill takes, for a machine under load; a job that hangs ends the test then."""

Row = tuple[str, int, int, int]
"""A key, a number, and the key's count and total up to that number."""


@pytest.mark.local_kill
@pytest.mark.parametrize(("backend", "barriers"), CASES)
def test_job_killed_at_random_moments_ends_with_the_exact_rows(
    backend: str, barriers: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = -(-request.config.getoption("--kills") // len(CASES))
    seed = request.config.getoption("--kill-seed") + CASES.index((backend, barriers))
    finished = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), backend, barriers, str(kills), str(seed)],
        capture_output=True,
        text=True,
        timeout=SECONDS_PER_KILL * (kills + 1),
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert len(report["progress"]) == kills
    if kills >= 10:
        # Half of the kills wait for checkpoints of the process that they strike; not all find it running.
        assert sum(map(bool, report["progress"])) >= kills // 4, report["progress"]
    for folder in map(Path, report["rounds"]):
        expected = _computed(folder)
        rows, totals = _rows_in_files(folder / "rows"), _rows_in_table(folder / "totals.db")
        if barriers == "at-least-once":
            problems = [*_at_least(expected, rows), *_table_below(expected, totals)]
        else:
            problems = [*_differences(Counter(expected), rows), *_table_differs(expected, totals)]
        assert not problems, f"{folder}, {kills} kills, seed {seed}:\n" + "\n".join(problems[:20])


@pytest.mark.parametrize(
    ("rows", "problems"),
    [
        ([("a", 1, 1, 1), ("a", 2, 2, 3)], []),
        ([("a", 1, 1, 1)], ["('a', 2, 2, 3): 0 times instead of 1"]),
        ([("a", 1, 1, 1), ("a", 2, 2, 3), ("a", 2, 2, 3)], ["('a', 2, 2, 3): 2 times instead of 1"]),
        (
            [("a", 1, 1, 1), ("a", 2, 3, 4)],
            ["('a', 2, 2, 3): 0 times instead of 1", "('a', 2, 3, 4): 1 times instead of 0"],
        ),
    ],
    ids=["same", "lost", "twice", "wrong"],
)
def test_exact_rows_differ_by_one_row_that_is_lost_repeated_or_wrong(
    rows: list[Row], problems: list[str]
) -> None:
    assert _differences(Counter([("a", 1, 1, 1), ("a", 2, 2, 3)]), Counter(rows)) == problems


@pytest.mark.parametrize(
    ("rows", "problems"),
    [
        ([("a", 1, 1, 1), ("a", 2, 2, 3)], []),
        ([("a", 1, 1, 1), ("a", 1, 2, 2), ("a", 2, 3, 4)], []),
        ([("a", 1, 1, 1)], ["('a', 2): lost"]),
        ([("a", 1, 1, 1), ("a", 2, 1, 2)], ["('a', 2, 1, 2): less than what stands before it in the file"]),
        ([("a", 1, 1, 1), ("a", 2, 2, 3), ("a", 3, 3, 6)], ["('a', 3): not in the input"]),
    ],
    ids=["same", "twice", "lost", "state lost", "phantom"],
)
def test_at_least_once_allows_rows_twice_and_no_other_difference(
    rows: list[Row], problems: list[str]
) -> None:
    assert list(_at_least([("a", 1, 1, 1), ("a", 2, 2, 3)], Counter(rows))) == problems


def _computed(folder: Path) -> list[Row]:
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


def _rows_in_files(folder: Path) -> Counter[Row]:
    """Return the rows that a reader of the file sink's folder sees."""
    found: Counter[Row] = Counter()
    for name in os.listdir(folder):
        if not name.startswith("."):
            with (folder / name).open(newline="") as file:
                found.update((key, int(a), int(b), int(c)) for key, a, b, c in csv.reader(file))
    return found


def _rows_in_table(path: Path) -> dict[str, Row]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT key, number, count, total FROM totals").fetchall()
    connection.close()
    return {row[0]: tuple(row) for row in rows}


def _latest(expected: list[Row]) -> dict[str, Row]:
    return {row[0]: row for row in expected}


def _differences(expected: Counter[Row], rows: Counter[Row]) -> list[str]:
    return [
        f"{row}: {rows[row]} times instead of {expected[row]}"
        for row in sorted(expected.keys() | rows.keys())
        if rows[row] != expected[row]
    ]


def _table_differs(expected: list[Row], table: dict[str, Row]) -> Iterator[str]:
    latest = _latest(expected)
    for key in sorted(latest.keys() | table.keys()):
        if latest.get(key) != table.get(key):
            yield f"table: {table.get(key)} instead of {latest.get(key)}"


def _at_least(expected: list[Row], rows: Counter[Row]) -> Iterator[str]:
    """Yield what at-least-once forbids: rows lost or invented, and state that lacks records before a row."""
    least = {(key, number): (count, total) for key, number, count, total in expected}
    found = {(key, number) for key, number, *_ in rows}
    yield from (f"{each}: lost" for each in sorted(least.keys() - found))
    yield from (f"{each}: not in the input" for each in sorted(found - least.keys()))
    for key, number, count, total in sorted(rows):
        known = least.get((key, number))
        if known is not None and (count < known[0] or total < known[1]):
            yield f"{(key, number, count, total)}: less than what stands before it in the file"


def _table_below(expected: list[Row], table: dict[str, Row]) -> Iterator[str]:
    for key, row in sorted(_latest(expected).items()):
        there = table.get(key)
        if there is None or any(least > value for least, value in zip(row[1:], there[1:], strict=True)):
            yield f"table: {there} instead of at least {row}"
