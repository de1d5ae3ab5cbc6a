"""The events of the checkpoint coordinator, besides messages, and its effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.graph import JobVertex
from onceproof.engine.messages import (
    CHECKPOINT,
    AcknowledgeCheckpoint,
    AttemptId,
    DeclineCheckpoint,
    Kind,
    Send,
    TaskFinished,
    TaskId,
    TaskRunning,
)


class CheckpointPlan(Struct, frozen=True):
    """The tasks of an attempt and their upstreams (Flink: CheckpointPlan).

    ``upstreams[task]`` are the tasks with a channel to ``task``: none for a source.
    """

    attempt: AttemptId
    vertices: tuple[JobVertex, ...]
    upstreams: Mapping[TaskId, tuple[TaskId, ...]]


class AttemptStarted(Struct, frozen=True):
    """A new attempt is deployed: its tasks restore themselves and report that they run."""

    plan: CheckpointPlan


class AttemptEnded(Struct, frozen=True):
    """The attempt is over: queued requests are refused, pending checkpoints not being finalized aborted."""


class TriggerRequested(Struct, frozen=True):
    """A user requests a checkpoint or a savepoint now.

    RequestResolved reports the outcome under ``number``, unless that is 0. ``drains`` belongs to a
    synchronous savepoint: the job ends as if its input had.
    """

    kind: Kind = CHECKPOINT
    number: int = 0
    drains: bool = False


class PeriodicTriggerRequested(Struct, frozen=True):
    """As if the interval had elapsed, and nothing else: the next one comes when it would have come."""

    number: int = 0


class StartScheduler(Struct, frozen=True):
    """Start periodic requests; an attempt that starts does so by itself."""


class StopScheduler(Struct, frozen=True):
    """Abort pending checkpoints, refuse queued requests and all further periodic ones."""


class AbortPending(Struct, frozen=True):
    """Abort pending checkpoints; the attempt goes on, and queued requests begin."""

    reason: str


class Shutdown(Struct, frozen=True):
    """The job is over: abort pending checkpoints and refuse all requests from now on."""


class IntervalElapsed(Struct, frozen=True):
    """The periodic timer of an attempt is due."""

    attempt: AttemptId


class CheckpointExpired(Struct, frozen=True):
    """The time-out of a checkpoint is due."""

    attempt: AttemptId
    checkpoint_id: int


class MetadataStored(Struct, frozen=True):
    """The metadata of the checkpoint is durable: from here on it is complete."""

    checkpoint_id: int


class MetadataFailed(Struct, frozen=True):
    """The metadata is certainly not there; the driver makes sure of that before it reports it."""

    checkpoint_id: int
    reason: str


CoordinatorTimer: TypeAlias = IntervalElapsed | CheckpointExpired

CoordinatorEvent: TypeAlias = (
    AttemptStarted
    | AttemptEnded
    | TriggerRequested
    | PeriodicTriggerRequested
    | StartScheduler
    | StopScheduler
    | AbortPending
    | Shutdown
    | CoordinatorTimer
    | MetadataStored
    | MetadataFailed
    | TaskRunning
    | TaskFinished
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
)


class StartTimer(Struct, frozen=True):
    """Effect: hand ``event`` back at ``due_ms``. A timer is never cancelled; a stale event is ignored."""

    due_ms: int
    event: CoordinatorTimer


class StoreMetadata(Struct, frozen=True):
    """Effect: publish the metadata atomically in the checkpoint's folder; nothing is written after it.

    With a synchronous savepoint the job ends, and its output will be committed: before that is reported as
    stored, it must also be certain that every later process goes on from it.
    """

    metadata: CheckpointMetadata


class DiscardCheckpoint(Struct, frozen=True):
    """Effect: delete all files of a checkpoint that was subsumed or aborted."""

    checkpoint_id: int
    kind: Kind = CHECKPOINT


class DiscardHandle(Struct, frozen=True):
    """Effect: delete one stored snapshot whose acknowledgement came too late."""

    handle: object


class DiscardSharedFiles(Struct, frozen=True):
    """Effect: delete files that no checkpoint uses any more, or that were stored a second time."""

    paths: tuple[str, ...]


class CheckpointTriggered(Struct, frozen=True):
    """Effect for observers: a checkpoint begins; ``number`` is that of the request, if it has one."""

    checkpoint_id: int
    kind: Kind = CHECKPOINT
    number: int = 0


class CheckpointCompleted(Struct, frozen=True):
    """Effect for observers: a checkpoint is complete."""

    checkpoint_id: int


class CheckpointAborted(Struct, frozen=True):
    """Effect for observers: a checkpoint will never complete.

    ``missing`` are the tasks that had not acknowledged one whose time is up.
    """

    checkpoint_id: int
    reason: str
    missing: tuple[TaskId, ...] = ()


class RequestResolved(Struct, frozen=True):
    """Effect for the sender of a request: its checkpoint is complete, or failed for ``reason``."""

    number: int
    checkpoint_id: int | None
    reason: str | None = None


class AnsweredTooLate(Struct, frozen=True):
    """Effect for observers: a task answered a checkpoint whose time had run out."""

    checkpoint_id: int
    task: TaskId


class TooManyFailures(Struct, frozen=True):
    """Effect: more checkpoints failed in a row than the job tolerates; the attempt must end."""

    reason: str


CoordinatorEffect: TypeAlias = (
    Send
    | StartTimer
    | StoreMetadata
    | DiscardCheckpoint
    | DiscardHandle
    | DiscardSharedFiles
    | CheckpointTriggered
    | CheckpointCompleted
    | CheckpointAborted
    | RequestResolved
    | AnsweredTooLate
    | TooManyFailures
)
