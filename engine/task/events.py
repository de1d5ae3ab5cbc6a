"""The events of a task and its effects, besides messages.

Events exist per buffer, barrier and message, never per record. ``Deliver`` is made once for each channel and
used for every buffer, since it only says whose turn it is: the buffer waits in the task's own queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from onceproof.engine.elements import Buffer
from onceproof.engine.messages import Send, ToTask
from onceproof.engine.state.snapshot import TaskSnapshot


class RestoredOperator(Struct, frozen=True):
    """The state that redistribution gave one operator of a subtask; None where there is none of the kind.

    ``native`` is keyed state as the databases that a backend has stored. ``has_finished``: all subtasks of
    the operator had ended their data.
    """

    keyed: Any
    operator: Any
    native: Any = ()
    has_finished: bool = False


class Restore(Struct, frozen=True):
    """Open the operators, from checkpoint ``checkpoint_id`` or afresh where that is None."""

    checkpoint_id: int | None
    operators: Mapping[str, RestoredOperator]
    in_flight: Sequence[tuple[int, Buffer]] = ()
    """Records that were under way: by input channel, to be processed before anything else."""


class Deliver(Struct, frozen=True):
    """Process the next element of an input channel."""

    channel: int


class Poll(Struct, frozen=True):
    """Read the next buffer from the source at the head of the chain."""


class SnapshotStored(Struct, frozen=True):
    """The snapshot of a StoreSnapshot effect is durable under ``handle``."""

    checkpoint_id: int
    handle: object


class SnapshotFailed(Struct, frozen=True):
    """The snapshot of a StoreSnapshot effect could not be stored; ``reason`` is one line."""

    checkpoint_id: int
    reason: str


class Cancel(Struct, frozen=True):
    """Close the operators: the attempt is over."""


class TimerDue(Struct, frozen=True):
    """The timer of a StartTaskTimer effect is due."""

    due_ms: int


class WallClockAdvanced(Struct, frozen=True):
    """The wall clock has been set forward: timers in processing time may be due before TimerDue."""


class WokenUp(Struct, frozen=True):
    """An operator of the task has asked to be called: a request has come to an answer."""


TaskEvent: TypeAlias = (
    Restore
    | Deliver
    | Poll
    | SnapshotStored
    | SnapshotFailed
    | Cancel
    | TimerDue
    | WallClockAdvanced
    | WokenUp
    | ToTask
)


class StoreSnapshot(Struct, frozen=True):
    """Effect: encode and store the snapshot under ``path``, relative to the job's checkpoint directory.

    ``canonical``: in the form that every backend reads, in one file that needs no other.
    """

    checkpoint_id: int
    path: str
    snapshot: TaskSnapshot
    canonical: bool = False


class HoldSnapshot(Struct, frozen=True):
    """Effect for observers: the task has taken ``store.snapshot``, and holds it until it is whole."""

    store: StoreSnapshot


class DiscardSnapshot(Struct, frozen=True):
    """Effect: delete what was stored under ``handle``; its checkpoint will never refer to it."""

    handle: object


class StartTaskTimer(Struct, frozen=True):
    """Effect: hand TimerDue to the task at ``due_ms`` of the driver's clock or later, if it still lives."""

    due_ms: int


TaskEffect: TypeAlias = Send | StoreSnapshot | HoldSnapshot | DiscardSnapshot | StartTaskTimer

POLL = Poll()
CANCEL = Cancel()
WALL_CLOCK_ADVANCED = WallClockAdvanced()
WOKEN_UP = WokenUp()
