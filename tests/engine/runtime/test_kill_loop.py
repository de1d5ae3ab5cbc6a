"""A job killed with SIGKILL at random moments ends with the rows of a plain computation over its input.

12 kills by default. More of them, with another seed:
``pytest tests/engine/runtime/test_kill_loop.py --kills 3000 --kill-seed 7``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.engine.runtime.exact_rows import Row, at_least, differences, problems_of
from tests.patience import PATIENCE_SECONDS

PROGRAM = Path(__file__).with_name("killed_job.py")
CASES = [("hashmap", "aligned"), ("hashmap", "at-least-once"), ("rocksdb", "unaligned")]
"""Each backend, and each kind of barriers."""
SECONDS_PER_KILL = 60
"""Far above what a kill takes, for a machine under load; a job that hangs ends the test then."""


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
        timeout=PATIENCE_SECONDS + SECONDS_PER_KILL * kills,
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
        problems = problems_of(folder, barriers)
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
    assert differences(Counter([("a", 1, 1, 1), ("a", 2, 2, 3)]), Counter(rows)) == problems


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
    assert list(at_least([("a", 1, 1, 1), ("a", 2, 2, 3)], Counter(rows))) == problems
