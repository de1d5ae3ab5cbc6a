"""When the file sink begins a new part file (PyFlink: RollingPolicy).

Every policy begins one with each checkpoint, because only what a checkpoint lists becomes visible. In between
a policy may begin further ones. It is asked at each write: a file that nothing is written to waits for the
checkpoint anyway.

PyFlink's policies know nothing of the number of rows; in Java, users count them in a RollingPolicy of their
own. Here each policy takes the number, ``part_rows``, which holds to the row, however many come at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

PART_SIZE: Final = 128 << 20
INTERVAL_MS: Final = 60_000


class RollingPolicy(ABC):
    """Decides after each write whether the part file is complete."""

    part_rows: int | None = None
    """The rows with which a file is complete; None: any number. The sink counts them, for each bucket."""

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
        part_rows: int | None = None,
    ) -> DefaultRollingPolicy:
        """Return a policy by size, age, idleness and number of rows; see DefaultRollingPolicy."""
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval, part_rows)

    @staticmethod
    def on_checkpoint_rolling_policy(part_rows: int | None = None) -> OnCheckpointRollingPolicy:
        """Return the policy that begins a new file with each checkpoint; see OnCheckpointRollingPolicy."""
        return OnCheckpointRollingPolicy(part_rows)


class DefaultRollingPolicy(RollingPolicy):
    """Begins a new file where the old one is large, old, full, or was idle.

    Args:
        part_size: the bytes from which a file is large.
        rollover_interval: the milliseconds from which it is old.
        inactivity_interval: the milliseconds without a row from which it was idle.
        part_rows: the rows with which it is full; None: any number.

    Raises:
        ValueError: a number is not above 0.
    """

    def __init__(
        self, part_size: int, rollover_interval: int, inactivity_interval: int, part_rows: int | None = None
    ) -> None:
        _check(
            part_size=part_size,
            rollover_interval=rollover_interval,
            inactivity_interval=inactivity_interval,
            part_rows=1 if part_rows is None else part_rows,
        )
        self.part_rows = part_rows
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
    """Begins a new file with each checkpoint, and where the old one is full.

    Bulk formats take this policy alone: the bytes of such a file are known only at its end.

    Args:
        part_rows: the rows with which a file is full; None: any number.

    Raises:
        ValueError: the number is not above 0.
    """

    def __init__(self, part_rows: int | None = None) -> None:
        _check(part_rows=1 if part_rows is None else part_rows)
        self.part_rows = part_rows

    def should_roll(self, length: int, begun_ms: int, written_ms: int, now_ms: int) -> bool:
        return False


def _check(**numbers: int) -> None:
    for name, given in numbers.items():
        if type(given) is not int or given < 1:
            raise ValueError(f"{name} of a rolling policy is {given!r}: give a whole number above 0")
