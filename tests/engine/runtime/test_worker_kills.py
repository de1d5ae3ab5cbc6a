"""A job in workers ends with the exact rows, whichever of its processes are killed, and leaves none behind.

4 kills by default. More of them, with another seed:
``pytest tests/engine/runtime/test_worker_kills.py --kills 3000 --kill-seed 7``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.runtime.exact_rows import problems_of
from tests.patience import PATIENCE_SECONDS

CASES = [
    ("hashmap", "timed"),
    ("hashmap", "at-least-once"),
    ("rocksdb", "aligned"),
    ("rocksdb", "unaligned"),
]
SECONDS_PER_KILL = 60
"""Far above what a kill takes, for a machine under load; a job that hangs ends the test then."""
SHARE = 0.6
"""Of the kills that are asked for: each of these costs a restart of the whole job."""


@pytest.mark.local_kill
@pytest.mark.parametrize(("backend", "barriers"), CASES)
def test_job_whose_workers_are_killed_ends_with_the_exact_rows(
    backend: str, barriers: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = max(1, int(request.config.getoption("--kills") * SHARE) // len(CASES))
    seed = request.config.getoption("--kill-seed") + CASES.index((backend, barriers))
    module = "tests.engine.runtime.killed_worker_job"
    finished = subprocess.run(
        [sys.executable, "-m", module, str(tmp_path), backend, barriers, str(kills), str(seed)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS + SECONDS_PER_KILL * kills,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert report["worker"] + report["coordinator"] == kills
    if kills >= 6:
        assert report["worker"] >= 1
        assert "has died" in finished.stderr
    for folder in map(Path, report["rounds"]):
        problems = problems_of(folder, barriers)
        assert not problems, f"{folder}, {report}, seed {seed}:\n" + "\n".join(problems[:20])
