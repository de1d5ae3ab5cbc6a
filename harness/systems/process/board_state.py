"""The state of a fault board: which faults have struck, and which tasks live. One value, in one file."""

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
    """The process id of the Java that started the worker; 0 if unknown."""


class StoppedTask(msgspec.Struct, frozen=True):
    """A task whose worker is stopped until a checkpoint completes without it."""

    process: int
    attempt: str
    checkpoint: int


class LateStrike(msgspec.Struct, frozen=True):
    """A fault whose point was passed and that strikes at a later time (monotonic clock, nanoseconds)."""

    number: int
    task: str
    at: int


class Refusal(msgspec.Struct, frozen=True):
    """A disk that refuses ``left`` further calls, because of the fault with index ``number``."""

    number: int
    left: int


class DueRequest(msgspec.Struct, frozen=True):
    """A request of the scenario's user whose point was passed, and when it is made (as in LateStrike)."""

    number: int
    at: int


class BoardState(msgspec.Struct):
    """The shared state of one run's faults and tasks."""

    waiting: ClockState = NOTHING_HIT
    """The state of the fault clock: how many passes each fault still waits for."""
    points: dict[str, int] = {}
    """How often each protocol point was passed, by all processes of the run."""
    struck: int = 0
    """How many faults have struck."""
    living: tuple[LivingTask, ...] = ()
    stopped: tuple[StoppedTask, ...] = ()
    late: tuple[LateStrike, ...] = ()
    refusal: Refusal | None = None
    parallelism: int = 0
    """The parallelism that the last rescale asked for, by a kill or by the user; 0 if none has."""
    partitions: int = 0
    """The number of shuffle partitions of a Structured Streaming query in its current or last run."""
    deaths: int = 0
    """How many tasks were killed."""
    java_is_dead: bool = False
    """Whether the driver's Java was killed."""
    killed: tuple[int, ...] = ()
    """The processes of workers that a fault has killed."""
    asked: tuple[int, ...] = ()
    """How many passes of its point each request of the user still waits for; empty before the first pass."""
    requests: tuple[DueRequest, ...] = ()
    """The requests that are due and have not been made."""
    attempt: str = ""
    """The attempt that runs, if its tasks are in workers that live as long as it."""
    read: dict[str, int] = {}
    """How many records its sources have read of each split, as far as they wait for more."""
    is_over: bool = False
    """Whether an error occurred that no fault injected: then no process tries anything again."""


def board_file(path: str | Path) -> LockedFile[BoardState]:
    return LockedFile(path, BoardState)
