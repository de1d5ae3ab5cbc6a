"""The driver's side of the protocol between a trial and its drivers (`driver_process.py`).

Rules:

- The driver writes a line when it is ready, and then one for each job, with its exit code. It writes nothing
  else to the pipe of its parent: the standard output of jobs goes to the standard error.
- Each line that it reads is the path of a specification. It ends when there is no more, when it can
  run no other, or when its Java was killed, which only its exit code says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final, TextIO

from onceproof.harness.systems.kit.driver_process import ENDED, JAVA_DIED, READY
from onceproof.harness.systems.process.job_specification import Spec, read_spec
from onceproof.harness.systems.recording.event_log import EventLog

UNREADABLE: Final = 2
"""Exit code of a job whose specification cannot be read."""


def claim_standard_output() -> TextIO:
    """Return the pipe to the parent; from now on the standard output goes to the standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def open_job(path: str) -> tuple[Spec, EventLog] | None:
    """Return a specification and its event log; None if one cannot be opened, with a line in the log."""
    try:
        spec = read_spec(path)
        return spec, EventLog(spec.events)
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr, flush=True)
        return None


def serve_jobs(
    serve: Callable[[str], int], answers: TextIO, is_over: Callable[[], bool] = lambda: False
) -> int:
    """Call ``serve`` with the path of each job until the driver ends; return the driver's exit code.

    ``is_over`` is asked after each job whether the driver can run no other.
    """
    print(READY, file=answers, flush=True)
    for line in sys.stdin:
        code = serve(line.rstrip("\n"))
        if code == JAVA_DIED:
            return code
        print(ENDED, code, file=answers, flush=True)
        if is_over():
            break
    return 0
