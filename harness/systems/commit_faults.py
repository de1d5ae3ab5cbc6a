"""What a fault does to a commit: the same in the simulation and in real processes.

The rules this module lives by:

- A sink asks before it commits which fault the commit suffers (``refuse``), and again once it has committed
  (``answer``). What raises before has done nothing; what raises afterwards has done everything, as when the
  answer of a server is lost. A commit that takes place later raises before: what makes it late is the
  business of the system that has it.
- Both raise InjectedError with the caller's message, and call ``log_failure`` before, because the task fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from onceproof.harness.model.fault_kinds import FaultKind
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault

LATE_COMMIT: Final[FaultKind] = "late_commit"


def refuse(fault: Fault | None, message: str, log_failure: Callable[[], None]) -> None:
    """Refuse a commit with an error, before anything is done."""
    if fault is not None and not FAULTS[fault.kind].takes_place:
        log_failure()
        raise InjectedError(message, means=fault.means)


def answer(fault: Fault | None, message: str, log_failure: Callable[[], None]) -> None:
    """Let a commit take place, and answer it with an error."""
    if fault is not None and FAULTS[fault.kind].takes_place:
        log_failure()
        raise InjectedError(message, means=fault.means)


COMMIT_METHODS: Final[Mapping[str, Callable[..., None]]] = {
    row.kind: answer if row.takes_place else refuse for row in FAULTS.values() if row.strikes == "commit"
}
"""By kind, what carries a fault of a commit out."""
