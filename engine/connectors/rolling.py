"""When the file sink begins a new part file (PyFlink: RollingPolicy).

Every policy begins one with each checkpoint, because only what a checkpoint lists becomes visible. In between
a policy may begin further ones. It is asked at each write: a file that nothing is written to waits for the
checkpoint anyway.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

PART_SIZE: Final = 128 << 20
INTERVAL_MS: Final = 60_000


class RollingPolicy(ABC):
    """Decides after each write whether the part file is complete."""

    @abstractmethod
    def should_roll(self, length: int, begun_ms: int, written_ms: int, now_ms: int) -> bool:
        """Return whether to begin a new file before the next row.

        Args:
            length: the bytes of the file.
            begun_ms: when it was begun.
            written_ms: when it was written to before.
            now_ms: the processing time.
        """

    @staticmethod
    def default_rolling_policy(
        part_size: int = PART_SIZE,
        rollover_interval: int = INTERVAL_MS,
        inactivity_interval: int = INTERVAL_MS,
    ) -> DefaultRollingPolicy:
        """Return a policy by size, age and idleness; see DefaultRollingPolicy."""
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Return the policy that begins a new file with each checkpoint only."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """Begins a new file where the old one is large, old, or was idle.

    Args:
        part_size: the bytes from which a file is large.
        rollover_interval: the milliseconds from which it is old.
        inactivity_interval: the milliseconds without a row from which it was idle.

    Raises:
        ValueError: a number is not above 0.
    """

    def __init__(self, part_size: int, rollover_interval: int, inactivity_interval: int) -> None:
        for name, given in (
            ("part_size", part_size),
            ("rollover_interval", rollover_interval),
            ("inactivity_interval", inactivity_interval),
        ):
            if type(given) is not int or given < 1:
                raise ValueError(f"{name} of a rolling policy is {given!r}: give a whole number above 0")
        self._part_size = part_size
        self._rollover_ms = rollover_interval
        self._inactivity_ms = inactivity_interval

    def should_roll(self, length: int, begun_ms: int, written_ms: int, now_ms: int) -> bool:
        return (
            length >= self._part_size
            or now_ms - begun_ms >= self._rollover_ms
            or now_ms - written_ms >= self._inactivity_ms
        )


class OnCheckpointRollingPolicy(RollingPolicy):
    """Begins a new file with each checkpoint only."""

    def should_roll(self, length: int, begun_ms: int, written_ms: int, now_ms: int) -> bool:
        return False
