"""What is on the board of a run's faults: a value that is read and replaced as a whole."""

from __future__ import annotations

from pathlib import Path

import msgspec

from onceproof.harness.systems.fault_clock import NOTHING_HIT, ClockState
from onceproof.harness.systems.process.locked_file import LockedFile


class LivingTask(msgspec.Struct, frozen=True):
    """A task that runs in a worker process."""

    process: int
    name: str
    attempt: str
    java: int = 0
    """The process id of the Java that its worker works for; 0 where that is unknown."""


class StoppedTask(msgspec.Struct, frozen=True):
    """A task whose worker is stopped, until a checkpoint is complete without it."""

    process: int
    attempt: str
    checkpoint: int


class LateStrike(msgspec.Struct, frozen=True):
    """A fault that was hit and strikes later, at a time of the machine's monotonic clock in nanoseconds."""

    number: int
    task: str
    at: int


class Refusal(msgspec.Struct, frozen=True):
    """A disk that refuses ``left`` further calls, because of the fault with that number."""

    number: int
    left: int


class BoardState(msgspec.Struct):
    """What is on the board of one run."""

    waiting: ClockState = NOTHING_HIT
    """How far the faults have come."""
    points: dict[str, int] = {}
    """How often each protocol point was passed, by all processes of the run."""
    struck: int = 0
    """How many faults have struck."""
    living: tuple[LivingTask, ...] = ()
    stopped: tuple[StoppedTask, ...] = ()
    late: tuple[LateStrike, ...] = ()
    refusal: Refusal | None = None
    parallelism: int = 0
    """What the last kill with a rescale asked of the processes that live on; 0 while none has."""
    partitions: int = 0
    """With how many a query of Structured Streaming runs, or ran last."""
    deaths: int = 0
    """How many tasks were killed so far."""
    java_is_dead: bool = False
    """The Java of the driver was killed."""
    is_over: bool = False
    """The engine made a mistake of its own: nothing is tried again."""


def board_file(path: str | Path) -> LockedFile[BoardState]:
    """Return the file of a board."""
    return LockedFile(path, BoardState)
