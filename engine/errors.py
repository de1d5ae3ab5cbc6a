"""Errors after which the job master does not restart a job.

Most failures have causes that pass, so the restart strategy decides about them. An UnrecoverableError (a
malformed row, state of the wrong type) would happen again in the same way: it ends the job at once with its
message. The checkpoints stay, and a corrected job restores from them.
"""

from __future__ import annotations


class UnrecoverableError(Exception):
    """The job must not be restarted for this (Flink: SuppressRestartsException). The message is one line."""


class TransientError(Exception):
    """The cause is expected to pass, as that of an OSError: equal ones are retried without a limit."""


def repeatable(error: BaseException) -> bool:
    """Return whether an error that comes again and again in the same way will come for ever.

    Kills are no Exception. An OSError is what storage, network and files raise while they are not there; what
    was raised from one passes with it.
    """
    cause: BaseException | None = error
    while cause is not None:
        if not isinstance(cause, Exception) or isinstance(cause, OSError | TransientError):
            return False
        cause = cause.__cause__
    return True


def text_of(error: BaseException) -> str:
    """Return the message of an error in one line, also where asking it for its message raises another one."""
    try:
        return " ".join(str(error).split())
    except (Exception, SystemExit) as failed:
        return f"it has no message, because its __str__ raises {type(failed).__name__}"
