"""Names of transactions and sessions in a database that other sinks and jobs use, too.

The rules this module lives by:

- The name of a transaction carries owner, subtask, epoch and attempt (`two_phase.py`); that of a session
  owner, subtask and attempt. A name is read as a whole: subtask 1 never takes the names of subtask 10 for its
  own.
- A name has letters, digits, dots and underscores only, and at most 100 bytes. PostgreSQL takes 200 for a
  transaction and 63 for a session.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from onceproof.engine.messages import is_of_later_process, order_of

PREFIX: Final = "onceproof"
# On Spark, that of the driver is a word: "1.driver".
_ATTEMPT: Final = r"([0-9]{1,9}\.[0-9a-z.]{1,20})"
_TRANSACTION: Final = re.compile(rf"{PREFIX}_([0-9a-f]{{16}})_([0-9]{{1,9}})_([0-9]{{1,19}})_{_ATTEMPT}")
_SESSION: Final = re.compile(rf"{PREFIX}_([0-9a-f]{{16}})_([0-9]{{1,9}})_{_ATTEMPT}")


class TransactionName(NamedTuple):
    """The writer of a transaction, and the checkpoint with whose snapshot it was begun."""

    owner: str
    subtask: int
    epoch: int
    attempt: str

    def __str__(self) -> str:
        return f"{PREFIX}_{self.owner}_{self.subtask}_{self.epoch}_{self.attempt}"


class SessionName(NamedTuple):
    """The writer that a session with the database belongs to."""

    owner: str
    subtask: int
    attempt: str

    def __str__(self) -> str:
        return f"{PREFIX}_{self.owner}_{self.subtask}_{self.attempt}"


def is_dead(session: SessionName, mine: SessionName, parallelism: int) -> bool:
    """Return whether a session is of an earlier attempt of the same sink, which this subtask must end.

    It ends all those of earlier processes, and within its own process those of the subtasks whose
    transactions it takes over. On Spark, where each task has an attempt of its own, the other subtasks live.
    """
    if session.owner != mine.owner or is_of_later_process(session.attempt, mine.attempt):
        return False
    found, own = order_of(session.attempt), order_of(mine.attempt)
    return found[0] < own[0] or (session.subtask % parallelism == mine.subtask and found[1] < own[1])


def transaction_name_of(text: str) -> TransactionName | None:
    """Return the name that a text is; None if a sink of this engine gives no such name."""
    match = _TRANSACTION.fullmatch(text)
    return None if match is None else TransactionName(match[1], int(match[2]), int(match[3]), match[4])


def session_name_of(text: str) -> SessionName | None:
    """Return the name that a text is; None if a sink of this engine gives no such name."""
    match = _SESSION.fullmatch(text)
    return None if match is None else SessionName(match[1], int(match[2]), match[3])


def owner_prefix(owner: str) -> str:
    """Return what all names of an owner begin with."""
    return f"{PREFIX}_{owner}_"
