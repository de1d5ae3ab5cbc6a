"""What goes into a task besides messages, and what comes out of it besides messages.

Events exist per buffer, barrier and message, never per record. ``Deliver`` is made once for each channel and
used for every buffer, since it only says whose turn it is: the buffer waits in the task's own queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from engine.messages import Send, ToTask
from engine.state.snapshot import TaskSnapshot


@dataclass(frozen=True, slots=True)
class RestoredOperator:
    """The state that redistribution gave one operator of a subtask; None where there is none of the kind."""

    keyed: Any
    operator: Any


@dataclass(frozen=True, slots=True)
class Restore:
    """Open the operators, from checkpoint ``checkpoint_id`` or afresh where that is None.
    """

    checkpoint_id: int | None
    operators: Mapping[str, RestoredOperator]


@dataclass(frozen=True, slots=True)
class Deliver:
    """Process the next element of an input channel."""

    channel: int


@dataclass(frozen=True, slots=True)
class Poll:
    """Read the next buffer from the source at the head of the chain."""


@dataclass(frozen=True, slots=True)
class SnapshotStored:
    """What StoreSnapshot asked for is durable under ``handle``."""

    checkpoint_id: int
    handle: object


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    """What StoreSnapshot asked for could not be stored; ``reason`` is one line."""

    checkpoint_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Close the operators: the attempt is over."""


TaskEvent: TypeAlias = (
    Restore | Deliver | Poll | SnapshotStored | SnapshotFailed | Cancel | ToTask
)


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """Effect: encode and store the snapshot under ``path``, relative to the job's checkpoint directory."""

    checkpoint_id: int
    path: str
    snapshot: TaskSnapshot


@dataclass(frozen=True, slots=True)
class DiscardSnapshot:
    """Effect: delete what was stored under ``handle``; its checkpoint will never refer to it."""

    handle: object


TaskEffect: TypeAlias = Send | StoreSnapshot | DiscardSnapshot

POLL = Poll()
CANCEL = Cancel()
