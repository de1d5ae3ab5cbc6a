"""The messages between tasks and the job master.

The rules this module lives by:

- Tasks and the checkpoint coordinator never import each other: they share only these values.
- Every message names its attempt, because a network may deliver what a dead attempt sent. The receiver drops
  a message of any attempt but its own.
- Events, effects and messages are frozen msgspec structs: immutable and slotted like a frozen dataclass, and
  constructed in a fifth of the time, which shows in the simulation.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, NewType, TypeAlias

from msgspec import Struct

AttemptId = NewType("AttemptId", str)
"""``incarnation.number``: unique over all restarts of a job and of its process."""


_LAST_NUMBER: Final = (1 << 63) - 1


def is_of_later_process(attempt: str, other: str) -> bool:
    """Return whether an attempt is of a later process than another one, or names no attempt of a job."""
    incarnation = attempt.partition(".")[0]
    return not incarnation.isdecimal() or int(incarnation) > int(other.partition(".")[0])


def order_of(attempt: str) -> tuple[int, int]:
    """Return the incarnation and the number of an attempt, which order all attempts of a job.

    On Spark, where each task has an attempt of its own, they order those of one subtask. That of the driver,
    which has a word for its number, is later than those of its tasks.
    """
    incarnation, number = attempt.partition(".")[0], attempt.rpartition(".")[2]
    return int(incarnation), int(number) if number.isdecimal() else _LAST_NUMBER


CHECKPOINT: Final = "checkpoint"
SAVEPOINT: Final = "savepoint"
SYNC_SAVEPOINT: Final = "sync_savepoint"

Kind: TypeAlias = Literal["checkpoint", "savepoint", "sync_savepoint"]
"""A checkpoint for recovery, a savepoint for the user, or a savepoint with which the job stops."""

_FOLDERS: Final[dict[Kind, str]] = {CHECKPOINT: "chk", SAVEPOINT: "savepoint", SYNC_SAVEPOINT: "savepoint"}


def checkpoint_folder(checkpoint_id: int, kind: Kind = CHECKPOINT) -> str:
    """Return the folder of a checkpoint, relative to the job's storage.

    The storage may map the folder of a savepoint to another directory.
    """
    return f"{_FOLDERS[kind]}-{checkpoint_id}"


DECLINED_SUBSUMED: Final = "CHECKPOINT_DECLINED_SUBSUMED"
DECLINED_ON_CANCELLATION_BARRIER: Final = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
DECLINED_IN_BATCH: Final = "CHECKPOINT_DECLINED_IN_BATCH"
"""Ours: a stage of a job in BATCH mode is in the middle of its input."""
DECLINED_INPUT_END_OF_STREAM: Final = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"
"""Reasons of a task to decline a checkpoint (Flink: CheckpointFailureReason)."""


class TaskId(NamedTuple):
    """A subtask: the index of its vertex in the job graph, and its index in the vertex."""

    vertex: int
    subtask: int


class TriggerCheckpoint(Struct, frozen=True, gc=False):
    """Job master to a task without running upstream tasks: snapshot now and emit the barrier.

    ``timestamp_ms`` is by the wall clock, which was ``ahead_ms`` ahead of the driver's clock. ``drains``: the
    task ends its input before the snapshot, because the job stops with this savepoint.
    """

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    timestamp_ms: int
    kind: Kind = CHECKPOINT
    drains: bool = False
    ahead_ms: int = 0


class NotifyCheckpointComplete(Struct, frozen=True, gc=False):
    """Job master to a task: checkpoint ``checkpoint_id`` is durable. Best effort; it may come twice or never.

    ``subsumed_id`` is the checkpoint that it subsumed, 0 if none.
    """

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    subsumed_id: int = 0


class NotifyCheckpointAborted(Struct, frozen=True, gc=False):
    """Job master to a task: checkpoint ``checkpoint_id`` will never complete.

    ``latest_completed_id`` is the checkpoint that a restart would restore now, 0 if there is none.
    """

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    latest_completed_id: int = 0


class TaskRunning(Struct, frozen=True, gc=False):
    """A task to the job master: its state is restored, checkpoints may begin."""

    attempt: AttemptId
    task: TaskId


class CheckpointMeasures(Struct, frozen=True, gc=False):
    """How long the parts of a checkpoint took in one task, in milliseconds (Flink: CheckpointMetrics).

    ``start_delay_ms`` is from the trigger to the first barrier, ``alignment_ms`` from there until all
    barriers had come, ``sync_ms`` while the task copied its state, ``async_ms`` until the copy was durable.
    """

    start_delay_ms: int
    alignment_ms: int
    sync_ms: int
    async_ms: int
    is_unaligned: bool = False


class AcknowledgeCheckpoint(Struct, frozen=True, gc=False):
    """A task to the job master: its part of the checkpoint is durable.

    ``handle`` is the StateHandle of what was stored, or None where the task has no state; ``finished`` says
    that the task had processed all its input when it took the snapshot. ``measures`` are for observers; None:
    the driver has not asked for them.
    """

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    handle: object | None
    finished: bool
    measures: CheckpointMeasures | None = None


class DeclineCheckpoint(Struct, frozen=True, gc=False):
    """A task to the job master: it cannot take part in the checkpoint."""

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    reason: str


class TaskFinished(Struct, frozen=True, gc=False):
    """A task to the job master: its final checkpoint is complete and committed, it has ended."""

    attempt: AttemptId
    task: TaskId


class TaskFailed(Struct, frozen=True, gc=False):
    """A task or its driver to the job master: the task is dead. ``cause`` is one line.

    ``unrecoverable`` says that a restart would fail in the same way. ``error`` is the error of user code that
    it died of, without the subtask; "" for a kill, and for an error whose cause may pass. ``taken`` is how
    many buffers the task had taken.
    """

    attempt: AttemptId
    task: TaskId
    cause: str
    unrecoverable: bool = False
    error: str = ""
    taken: int = 0


ToTask: TypeAlias = TriggerCheckpoint | NotifyCheckpointComplete | NotifyCheckpointAborted
TO_TASK: Final = frozenset((TriggerCheckpoint, NotifyCheckpointComplete, NotifyCheckpointAborted))
ToMaster: TypeAlias = TaskRunning | AcknowledgeCheckpoint | DeclineCheckpoint | TaskFinished | TaskFailed


class Send(Struct, frozen=True, gc=False):
    """Effect of any machine: the driver delivers the message to its task or to the job master."""

    message: ToTask | ToMaster
