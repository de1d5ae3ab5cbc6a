"""The names of the sink's transactions (Flink: TransactionalIdFactory, TransactionNamingStrategy).

The rules this module lives by:

- A transactional id is used for one transaction: that of one subtask between two checkpoints in one attempt.
  The broker lets the producer that has an id write on while another process commits its transaction; nothing
  writes under an id whose transaction is pre-committed, because its writer has gone on to the next id.
- The id is ``prefix-owner-subtask-epoch-attempt``. The owner is this sink of this job over this checkpoint
  folder (`engine/owner_ids.py`), so that two jobs with one prefix do not abort each other's transactions.
- An id is read by its whole form. ``app-1`` is a prefix of ``app-10-...``, so a comparison of beginnings
  would take the transactions of another sink or of subtask 10 for those of subtask 1.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self

from onceproof.engine.owner_ids import OWNER_DIGITS

LONGEST_PREFIX_BYTES: Final = 6400
"""As in Flink: KafkaSinkBuilder.MAXIMUM_PREFIX_BYTES."""
_FORM: Final = re.compile(
    rf"(?P<prefix>.*)-(?P<owner>[0-9a-f]{{{OWNER_DIGITS}}})-(?P<subtask>\d+)-(?P<epoch>\d+)-(?P<attempt>[^-]+)",
    re.DOTALL,
)


class TransactionalId(NamedTuple):
    """The parts of a transactional id of this sink."""

    prefix: str
    owner: str
    subtask: int
    epoch: int
    """The checkpoint whose snapshot began the transaction; 0 at a fresh start."""
    attempt: str

    def __str__(self) -> str:
        return f"{self.prefix}-{self.owner}-{self.subtask}-{self.epoch}-{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the parts of an id, or None if it is not one of this sink."""
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        prefix, owner, subtask, epoch, attempt = found.groups()
        return cls(prefix, owner, int(subtask), int(epoch), attempt)
