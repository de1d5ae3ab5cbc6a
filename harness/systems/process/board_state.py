"""What is on the board of a run's faults: a value that is read and replaced as a whole."""

from __future__ import annotations

from pathlib import Path

import msgspec

from onceproof.harness.systems.fault_clock import ClockState


class LivingTask(msgspec.Struct, frozen=True):
    """A task that runs in a worker, and where."""

    process: int
    name: str
    attempt: str
    java: int = 0
    """The Java that its worker works for; 0 where nobody knows."""


class StoppedTask(msgspec.Struct, frozen=True):
    """A task whose worker is stopped, until a checkpoint is complete without it."""

    process: int
    attempt: str
    checkpoint: int


class LateStrike(msgspec.Struct, frozen=True):
    """A fault that was hit and strikes at its time, by the machine's monotonic clock in nanoseconds."""

    number: int
    task: str
    at: int


class Refusal(msgspec.Struct, frozen=True):
    """A disk that refuses so many more calls, because of a fault."""

    number: int
    left: int


class BoardState(msgspec.Struct):
    """What is on the board."""

    waiting: ClockState = ClockState()
    points: dict[str, int] = {}
    """How often each protocol point was passed, by all processes of the run."""
    living: tuple[LivingTask, ...] = ()
    stopped: tuple[StoppedTask, ...] = ()
    late: tuple[LateStrike, ...] = ()
    refusal: Refusal | None = None
    parallelism: int = 0
    """What the last kill of tasks asked for; 0 while none has."""
    deaths: int = 0
    """How many tasks were killed so far."""
    java_is_dead: bool = False
    """That of the driver was killed."""
    is_over: bool = False
    """The engine made a mistake of its own: nothing is tried again."""


_decoder = msgspec.json.Decoder(BoardState)
_encoder = msgspec.json.Encoder()


def encode_board(state: BoardState) -> bytes:
    """Return what is written of a board."""
    return _encoder.encode(state)


def read_board(path: str | Path) -> BoardState:
    """Return what is on a board; a new one is empty."""
    try:
        return _decoder.decode(Path(path).read_bytes())
    except FileNotFoundError:
        return BoardState()
