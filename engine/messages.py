"""What subtasks and the job master say to each other.

Tasks and the checkpoint coordinator never import each other: they share only these values. Every message
names its attempt, because a network may deliver what a dead attempt once sent; whoever receives a message
of another attempt than his own drops it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NewType, TypeAlias

AttemptId = NewType("AttemptId", str)
"""``incarnation.number``: unique over all restarts of a job, those of its process included."""


class TaskId(NamedTuple):
    """A subtask: the index of its vertex in the job graph, and its index in the vertex."""

    vertex: int
    subtask: int


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Job master to a task without running upstreams: snapshot now and emit the barrier."""

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class NotifyCheckpointComplete:
    """Job master to a task: checkpoint ``checkpoint_id`` is durable. Best effort, never repeated."""

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class NotifyCheckpointAborted:
    """Job master to a task: checkpoint ``checkpoint_id`` will never complete."""

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TaskRunning:
    """A task to the job master: state is restored, checkpoints may begin."""

    attempt: AttemptId
    task: TaskId


@dataclass(frozen=True, slots=True)
class AcknowledgeCheckpoint:
    """A task to the job master: its part of the checkpoint is durable.

    ``handle`` is the StateHandle of what was stored, or None where the task has no state; ``finished`` says
    that the task had processed all its input when it took the snapshot.
    """

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    handle: object | None
    finished: bool


@dataclass(frozen=True, slots=True)
class DeclineCheckpoint:
    """A task to the job master: it cannot take part in the checkpoint."""

    attempt: AttemptId
    task: TaskId
    checkpoint_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """A task to the job master: its final checkpoint is complete and committed, it has ended."""

    attempt: AttemptId
    task: TaskId


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A task, or whoever watches it, to the job master: it is dead. ``cause`` is one line."""

    attempt: AttemptId
    task: TaskId
    cause: str


ToTask: TypeAlias = TriggerCheckpoint | NotifyCheckpointComplete | NotifyCheckpointAborted
ToMaster: TypeAlias = (
    TaskRunning | AcknowledgeCheckpoint | DeclineCheckpoint | TaskFinished | TaskFailed
)
