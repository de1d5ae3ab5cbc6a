"""How barriers travel: aligned, unaligned or at least once (Flink: CheckpointOptions).

The kind of snapshot and the job's settings decide it. A savepoint is never unaligned, because it must be
restorable at any parallelism and by any job. In at-least-once mode no channel is blocked, so the option for
unaligned checkpoints has no effect.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct


class AlignmentKind(Enum):
    """What a task does with a channel that has delivered its barrier."""

    ALIGNED = "ALIGNED"
    """The task blocks the channel until all others have delivered their barriers."""
    UNALIGNED = "UNALIGNED"
    """The barrier overtakes the queued records, which become a part of the checkpoint."""
    FORCED_ALIGNED = "FORCED_ALIGNED"
    """Aligned on an edge that supports nothing else; the tasks behind it may continue unaligned."""
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    """The task goes on reading the channel."""


_ALIGNED: Final = AlignmentKind.ALIGNED
_UNALIGNED: Final = AlignmentKind.UNALIGNED
"""Bound once: reading a member off its enumeration costs more than a function call."""


class CheckpointOptions(Struct, frozen=True):
    """How the barriers of one checkpoint travel (Flink: CheckpointOptions).

    ``aligned_timeout_ms`` is None if an aligned barrier never turns into an unaligned one.
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
        """Whether the barrier begins aligned and may turn unaligned after the timeout."""
        return self.alignment is _ALIGNED and self.aligned_timeout_ms is not None

    def on_edge_without_unaligned_support(self) -> CheckpointOptions:
        """Return the options on an edge whose records the barrier must not overtake."""
        if self.needs_channel_state:
            return CheckpointOptions(AlignmentKind.FORCED_ALIGNED, self.aligned_timeout_ms)
        return self

    def behind_such_an_edge(self) -> CheckpointOptions:
        """Return the options for the tasks behind an edge without unaligned support."""
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
    """Return the options of a snapshot under a job's settings; a timeout of 0 or None: unaligned at once."""
    if not exactly_once:
        return AT_LEAST_ONCE
    if is_savepoint or not unaligned:
        return ALIGNED
    if not aligned_timeout_ms:
        return UNALIGNED
    return CheckpointOptions(AlignmentKind.ALIGNED, aligned_timeout_ms)
