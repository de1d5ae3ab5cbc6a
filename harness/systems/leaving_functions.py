"""What a function does that leaves: the same in the simulation and in real processes.

The rules this module lives by:

- It raises what is no Exception, or what Python itself takes for the end of something, while the task that
  calls it handles a record. The engine has to take each of them for a failure of that task: an exit with code
  0 in a function is no end of the job.
- Each comes of an InjectedError, so that the failure counts as one of the scenario.
- A fork is a function that starts a child and waits for it, while the child returns into the engine, as where
  an exec has failed. The child has to end there: the parent hears of its end, and goes on.
- A function that changes the folder of its process fails as well: relative paths matter to the next attempt.
  Where one does, the job names its output by a relative path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from onceproof.harness.model.fault_kinds import Means
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault

RAISED: Final[tuple[Means, ...]] = ("", "interrupt", "cancelled", "generator_exit", "stop_iteration")
"""The means by which a function raises."""
ELSEWHERE: Final = "elsewhere"
"""Below the folder of the process: where a function takes it."""


def changes_folder(faults: Iterable[Fault]) -> bool:
    """Return whether a function changes the folder of its process."""
    return any(fault.means == "chdir" for fault in faults)


def raised_by(means: Means) -> type[BaseException]:
    """Return what a function raises that leaves by ``means``."""
    match means:
        case "interrupt":
            return KeyboardInterrupt
        case "cancelled":
            # Loading asyncio takes a tenth of the start of a process.
            from asyncio import CancelledError

            return CancelledError
        case "generator_exit":
            return GeneratorExit
        case "stop_iteration":
            return StopIteration
    return SystemExit


def leave(fault: Fault) -> None:
    """Let a function leave by the means of a fault: raise, SystemExit with exit code 0; or fork, or chdir."""
    if fault.means == "fork":
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return
    if fault.means == "chdir":
        os.makedirs(ELSEWHERE, exist_ok=True)
        os.chdir(ELSEWHERE)
        raise InjectedError("a fault let the function fail in another folder")
    raised = raised_by(fault.means)
    cause = InjectedError("a fault let the function leave")
    if raised is SystemExit:
        raise SystemExit(0) from cause
    raise raised("left by a fault") from cause
