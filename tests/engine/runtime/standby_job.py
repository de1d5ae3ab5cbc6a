"""Runs the job of killed_job under a lease: ``python -m tests.engine.runtime.standby_job FOLDER WORKERS``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from onceproof.engine.runtime.job_result import JobExecutionFailed
from tests.engine.runtime import killed_job

TIMEOUT_SECONDS = 6
"""Far above what a busy machine takes to renew a lease."""
ROWS_BEFORE_HOLD = 150
HELD_PAUSE_SECONDS = 0.2
"""For each fourth row: a job that is held back takes minutes, so its test can start further processes."""


def release(folder: Path) -> None:
    """Let the job run to its end at its usual speed."""
    (folder / "released").touch()


class HeldBack(killed_job.CountAndTotal):
    """Counts slowly after the first rows of each file, until the test releases the job."""

    def __init__(self, folder: Path) -> None:
        self._released = folder / "released"

    def pause_seconds(self, number: int) -> float:
        """Return the pause at a number."""
        is_held = number >= ROWS_BEFORE_HOLD and not self._released.exists()
        return HELD_PAUSE_SECONDS if is_held else killed_job.PAUSE_SECONDS


def main() -> None:
    workers = int(sys.argv[2])
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    folder = Path(sys.argv[1])
    try:
        killed_job.run(
            folder,
            "hashmap",
            "aligned",
            2,
            HeldBack(folder),
            execution__local__workers=workers,
            high_availability__lease_timeout=f"{int(TIMEOUT_SECONDS * 1000)} ms",
        )
    except JobExecutionFailed as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
