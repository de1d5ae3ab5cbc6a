"""What subtasks and the job master say to each other.

Tasks and the checkpoint coordinator never import each other: they share only these values. Every message
names its attempt, because a network may deliver what a dead attempt once sent; whoever receives a message
of another attempt than his own drops it.

Events, effects and messages are frozen msgspec structs: immutable and slotted as a frozen dataclass is, and
made in a fifth of the time, which shows in the simulation.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, NewType, TypeAlias

from msgspec import Struct

AttemptId = NewType("AttemptId", str)
"""``incarnation.number``: unique over all restarts of a job, those of its process included."""

CHECKPOINT: Final = "checkpoint"
SAVEPOINT: Final = "savepoint"
SYNC_SAVEPOINT: Final = "sync_savepoint"

Kind: TypeAlias = Literal["checkpoint", "savepoint", "sync_savepoint"]
"""What a checkpoint is for: to recover from, for the user, or for the user and as the end of the job."""

_FOLDERS: Final[dict[Kind, str]] = {CHECKPOINT: "chk", SAVEPOINT: "savepoint", SYNC_SAVEPOINT: "savepoint"}


def checkpoint_folder(checkpoint_id: int, kind: Kind = CHECKPOINT) -> str:
    """Where the files of a checkpoint lie in the job's storage, which may lead a savepoint's elsewhere."""
    return f"{_FOLDERS[kind]}-{checkpoint_id}"


DECLINED_SUBSUMED: Final = "CHECKPOINT_DECLINED_SUBSUMED"
DECLINED_ON_CANCELLATION_BARRIER: Final = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
DECLINED_INPUT_END_OF_STREAM: Final = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"
"""Why a task declines a checkpoint that something else has ended (Flink: CheckpointFailureReason)."""


class TaskId(NamedTuple):
    """A subtask: the index of its vertex in the job graph, and its index in the vertex."""

    vertex: int
    subtask: int


class TriggerCheckpoint(Struct, frozen=True, gc=False):
    """Job master to a task without running upstreams: snapshot now and emit the barrier.

    ``drains``: the end of all input comes first, since the job ends with this savepoint.
    """

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    timestamp_ms: int
    kind: Kind = CHECKPOINT
    drains: bool = False


class NotifyCheckpointComplete(Struct, frozen=True, gc=False):
    """Job master to a task: checkpoint ``checkpoint_id`` is durable. Best effort, never repeated.

    ``subsumed_id`` is the checkpoint that was dropped for it, 0 if none was.
    """

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    subsumed_id: int = 0


class NotifyCheckpointAborted(Struct, frozen=True, gc=False):
    """Job master to a task: checkpoint ``checkpoint_id`` will never complete.

    ``latest_completed_id`` is the one that would be restored now, 0 if there is none.
    """

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    latest_completed_id: int = 0


class TaskRunning(Struct, frozen=True, gc=False):
    """A task to the job master: state is restored, checkpoints may begin."""

    attempt: AttemptId
    task: TaskId


class AcknowledgeCheckpoint(Struct, frozen=True, gc=False):
    """A task to the job master: its part of the checkpoint is durable.

    ``handle`` is the StateHandle of what was stored, or None where the task has no state; ``finished`` says
    that the task had processed all its input when it took the snapshot.
    """

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    handle: object | None
    finished: bool


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
    """A task, or whoever watches it, to the job master: it is dead. ``cause`` is one line.

    ``unrecoverable`` says that a restart would end in the same way.
    """

    attempt: AttemptId
    task: TaskId
    cause: str
    unrecoverable: bool = False


ToTask: TypeAlias = TriggerCheckpoint | NotifyCheckpointComplete | NotifyCheckpointAborted
TO_TASK: Final = frozenset((TriggerCheckpoint, NotifyCheckpointComplete, NotifyCheckpointAborted))
"""The types of ToTask."""
ToMaster: TypeAlias = TaskRunning | AcknowledgeCheckpoint | DeclineCheckpoint | TaskFinished | TaskFailed


class Send(Struct, frozen=True, gc=False):
    """Effect of any machine: deliver a message to the task or the job master it is for."""

    message: ToTask | ToMaster
