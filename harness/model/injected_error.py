"""The error that faults inject, which job, sinks and drivers distinguish from genuine errors."""

from __future__ import annotations

from onceproof.engine.errors import TransientError


class InjectedError(TransientError):
    """An error that a fault made the outside answer with."""


def is_injected(error: BaseException) -> bool:
    """Whether an error comes of one that a fault made the outside answer with."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, InjectedError):
        cause = cause.__cause__
    return cause is not None
