"""Errors after which the job master does not restart a job.

Most failures have causes that pass, so the restart strategy decides about them. An UnrecoverableError (a
malformed row, state of the wrong type) would happen again in the same way: it ends the job at once with its
message. The checkpoints stay, and a corrected job restores from them.
"""

from __future__ import annotations


class UnrecoverableError(Exception):
    """The job must not be restarted for this (Flink: SuppressRestartsException). The message is one line."""


def text_of(error: BaseException) -> str:
    """Return the message of an error in one line, also where asking it for its message raises another one."""
    try:
        return " ".join(str(error).split())
    except (Exception, SystemExit) as failed:
        return f"it has no message, because its __str__ raises {type(failed).__name__}"
