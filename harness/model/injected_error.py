"""The error that faults inject, which job, sinks and drivers distinguish from genuine errors."""

from __future__ import annotations

from onceproof.engine.errors import TransientError
from onceproof.harness.model.fault_kinds import Means


class InjectedError(TransientError):
    """An error that a fault made the outside answer with."""

    means: Means = ""
    """By what the fault came about. Each end of a job answers with the error of its own client for it."""

    def __init__(self, *said: object, means: Means = "") -> None:
        super().__init__(*said)
        self.means = means


def is_injected(error: BaseException) -> bool:
    """Whether an error comes of one that a fault made the outside answer with."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, InjectedError):
        cause = cause.__cause__
    return cause is not None
