"""Errors that trying again cannot mend.

A failure is followed by a restart, since most have causes that pass. What derives from UnrecoverableError
would happen again in the same way (a malformed row, state of the wrong type), so it ends the job at once with
its message; the checkpoints stay, and a mended job goes on from them.
"""

from __future__ import annotations


class UnrecoverableError(Exception):
    """The job must not be restarted for this (Flink: SuppressRestartsException). The message is one line."""
