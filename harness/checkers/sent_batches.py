"""The order in which the batches of a write-ahead sink become visible, where the target has refused some.

The rules this module lives by:

- When a checkpoint is complete, a subtask tries all its batches up to it, oldest first. So a batch is sent
  ahead of an older one only if the older one was refused right before: after the checkpoint that first lists
  the later batch was complete, and after the later one was last refused itself.
- If the refusal is an error, the batches behind it wait (``holds_back`` in the history, which only the
  simulation says). None of them is sent before the older one was tried again.
- A call that is answered with an error and takes place later says nothing about the order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

Writer: TypeAlias = tuple[str, str, int]
"""Attempt, sink and subtask."""

LATE_CALL: Final = "late_commit"
"""The fault of a call that takes place later."""


class _Refusal(NamedTuple):
    moment: int
    holds_back: bool


class _Sent(NamedTuple):
    epoch: int
    moment: int
    tried_after: int
    """The moment of its last refusal, or when it could first be sent."""


class SentBatches:
    """The tries of all batches up to one event of a history."""

    __slots__ = ("_is_late", "_late", "_listed", "_moment", "_refusals", "_sent")

    def __init__(self) -> None:
        self._moment = 0
        """Counts what is entered here."""
        self._listed: dict[str, int] = {}
        """By batch, the moment when a complete checkpoint first listed it."""
        self._refusals: dict[str, list[_Refusal]] = {}
        self._sent: dict[Writer, list[_Sent]] = {}
        self._is_late = False
        self._late: set[str] = set()
        """The batches whose call may take place at any moment."""

    def listed(self, batches: Iterable[str]) -> None:
        """Enter that a checkpoint is complete, and the batches that it is the first to list."""
        self._moment += 1
        for batch in batches:
            self._listed[batch] = self._moment

    def fault_fired(self, kind: str) -> None:
        """Enter a fault, which may be that of the next refusal."""
        self._is_late = kind == LATE_CALL

    def refused(self, batch: str, *, holds_back: bool) -> None:
        """Enter that a call was answered with an error."""
        self._moment += 1
        self._refusals.setdefault(batch, []).append(_Refusal(self._moment, holds_back))
        if self._is_late:
            self._late.add(batch)
            self._is_late = False

    def sent(self, writer: Writer, epoch: int, batch: str) -> bool:
        """Enter that a batch became visible. Return whether it may do so after those that are visible."""
        self._moment += 1
        refusals = self._refusals.get(batch, [])
        earlier = self._sent.setdefault(writer, [])
        is_excused = all(_may_overtake(later, refusals) for later in earlier if later.epoch > epoch)
        if batch not in self._late:
            tried = max(self._listed.get(batch, 0), *[each.moment for each in refusals], 0)
            earlier.append(_Sent(epoch, self._moment, tried))
        return is_excused and bool(refusals)


def _may_overtake(later: _Sent, refusals: list[_Refusal]) -> bool:
    """Return whether a batch that was sent may have been tried behind an older one with these refusals."""
    before = [each for each in refusals if each.moment < later.moment]
    return bool(before) and before[-1].moment > later.tried_after and not before[-1].holds_back
