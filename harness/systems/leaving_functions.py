"""What a function does that leaves: the same in the simulation and in real processes.

The rules this module lives by:

- It raises what is no Exception, or what Python itself takes for the end of something, while the task that
  calls it handles a record. The engine has to take each of them for a failure of that task: an exit with code
  0 in a function is no end of the job.
- Each comes of an InjectedError, so that the failure counts as one of the scenario.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from typing import Final

from onceproof.harness.model.faults import Means
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault

RAISED: Final[Mapping[Means, type[BaseException]]] = {
    "": SystemExit,
    "interrupt": KeyboardInterrupt,
    "cancelled": CancelledError,
    "generator_exit": GeneratorExit,
    "stop_iteration": StopIteration,
}
"""By means, what a function raises."""


def leave(fault: Fault) -> None:
    """Raise what the means of a fault says; SystemExit has the exit code 0."""
    raised = RAISED[fault.means]
    cause = InjectedError("a fault let the function leave")
    if raised is SystemExit:
        raise SystemExit(0) from cause
    raise raised("left by a fault") from cause
