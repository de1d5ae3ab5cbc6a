"""Runs the job of killed_job under a lease: ``python -m tests.engine.runtime.standby_job FOLDER WORKERS``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from onceproof.engine.runtime.job_result import JobExecutionFailed
from tests.engine.runtime import killed_job

TIMEOUT_SECONDS = 2.5
PAUSE_SECONDS = 0.004
"""After each fourth row, in each worker: the job takes some seconds."""


def main() -> None:
    workers = int(sys.argv[2])
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        killed_job.run(
            Path(sys.argv[1]),
            "hashmap",
            "aligned",
            2,
            PAUSE_SECONDS * workers,
            execution__local__workers=workers,
            high_availability__lease_timeout=f"{int(TIMEOUT_SECONDS * 1000)} ms",
        )
    except JobExecutionFailed as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
