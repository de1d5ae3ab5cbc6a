"""How a database at the end of a job fails: for a while, for good, or with data gone."""

from __future__ import annotations

from onceproof.engine.errors import TransientError, UnrecoverableError


class DatabaseUnavailable(TransientError, OSError):
    """The database cannot be reached, or does not do now what it may do later. The job is restarted for it.

    The message is one line.
    """


class RefusedByDatabase(UnrecoverableError, ValueError):
    """The database refuses a table, a row or a user, and would refuse it again. The message is one line."""


class LostTransaction(UnrecoverableError):
    """A transaction that a checkpoint lists is neither prepared nor recorded as committed: its rows are gone.

    The message is one line.
    """
