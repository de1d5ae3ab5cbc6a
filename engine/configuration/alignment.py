"""How barriers travel: aligned, unaligned, or holding nothing back (Flink: CheckpointOptions).

It follows from the kind of snapshot and the job's settings. A savepoint is never unaligned, since it must be
restorable at any parallelism and by any job; at-least-once never waits for anyone, so that the switch for
unaligned checkpoints does not matter to it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct


class AlignmentKind(Enum):
    """What a task does with the channels whose barrier has come."""

    ALIGNED = "ALIGNED"
    """It blocks them until the others have delivered theirs."""
    UNALIGNED = "UNALIGNED"
    """The barrier overtakes what is queued, which becomes a part of the checkpoint."""
    FORCED_ALIGNED = "FORCED_ALIGNED"
    """Aligned on this edge, which cannot be otherwise; the tasks behind it may go on unaligned."""
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    """It reads on."""


_ALIGNED: Final = AlignmentKind.ALIGNED
_UNALIGNED: Final = AlignmentKind.UNALIGNED
"""Names of their own: reading a member off its enumeration costs more than a function call."""


class CheckpointOptions(Struct, frozen=True):
    """How one checkpoint is to be taken.

    ``aligned_timeout_ms`` is None where an aligned barrier never turns into an unaligned one.
    """

    alignment: AlignmentKind
    aligned_timeout_ms: int | None = None

    @property
    def needs_alignment(self) -> bool:
        """Whether channels are blocked."""
        return self.alignment in (AlignmentKind.ALIGNED, AlignmentKind.FORCED_ALIGNED)

    @property
    def needs_channel_state(self) -> bool:
        """Whether in-flight records may become a part of the checkpoint."""
        return self.alignment is _UNALIGNED or self.is_timeoutable

    @property
    def is_timeoutable(self) -> bool:
        """Whether the barrier begins aligned and may go on unaligned."""
        return self.alignment is _ALIGNED and self.aligned_timeout_ms is not None

    def on_edge_without_unaligned_support(self) -> CheckpointOptions:
        """The options on an edge whose records must stay on the barrier's side of it."""
        if self.needs_channel_state:
            return CheckpointOptions(AlignmentKind.FORCED_ALIGNED, self.aligned_timeout_ms)
        return self

    def behind_such_an_edge(self) -> CheckpointOptions:
        """The options with which the tasks behind an edge without unaligned support go on."""
        if self.alignment is not AlignmentKind.FORCED_ALIGNED:
            return self
        if self.aligned_timeout_ms is None:
            return UNALIGNED
        return CheckpointOptions(AlignmentKind.ALIGNED, self.aligned_timeout_ms)


ALIGNED: Final = CheckpointOptions(AlignmentKind.ALIGNED)
UNALIGNED: Final = CheckpointOptions(AlignmentKind.UNALIGNED)
AT_LEAST_ONCE: Final = CheckpointOptions(AlignmentKind.AT_LEAST_ONCE)


def checkpoint_options(
    *, is_savepoint: bool, exactly_once: bool, unaligned: bool, aligned_timeout_ms: int | None
) -> CheckpointOptions:
    """The options of a snapshot under a job's settings; a time-out of 0 or None means unaligned at once."""
    if not exactly_once:
        return AT_LEAST_ONCE
    if is_savepoint or not unaligned:
        return ALIGNED
    if not aligned_timeout_ms:
        return UNALIGNED
    return CheckpointOptions(AlignmentKind.ALIGNED, aligned_timeout_ms)
