"""What goes into the checkpoint coordinator besides messages, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from engine.checkpoint.metadata import CheckpointMetadata
from engine.graph import JobVertex
from engine.messages import (
    AcknowledgeCheckpoint,
    AttemptId,
    DeclineCheckpoint,
    Send,
    TaskFinished,
    TaskId,
    TaskRunning,
)


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The tasks of an attempt and who feeds whom (Flink: CheckpointPlan).

    ``upstreams[task]`` are the tasks with a channel to ``task``: none for a source.
    """

    attempt: AttemptId
    vertices: tuple[JobVertex, ...]
    upstreams: Mapping[TaskId, tuple[TaskId, ...]]


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """A new attempt is deployed: its tasks restore themselves and report that they run."""

    plan: CheckpointPlan


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The attempt is over: what is pending and not yet being finalized is aborted."""


@dataclass(frozen=True, slots=True)
class TriggerRequested:
    """Someone other than the interval wants a checkpoint now."""


@dataclass(frozen=True, slots=True)
class IntervalElapsed:
    """The periodic timer of an attempt is due."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class CheckpointExpired:
    """The time-out of a checkpoint is due."""

    attempt: AttemptId
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class MetadataStored:
    """The metadata of the checkpoint is durable: from here on it is complete."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class MetadataFailed:
    """The metadata is certainly not there. Whoever stores it must make sure before saying so."""

    checkpoint_id: int
    reason: str


CoordinatorTimer: TypeAlias = IntervalElapsed | CheckpointExpired

CoordinatorEvent: TypeAlias = (
    AttemptStarted
    | AttemptEnded
    | TriggerRequested
    | CoordinatorTimer
    | MetadataStored
    | MetadataFailed
    | TaskRunning
    | TaskFinished
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
)


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Effect: hand ``event`` back at ``due_ms``. A timer is never cancelled; a stale event is ignored."""

    due_ms: int
    event: CoordinatorTimer


@dataclass(frozen=True, slots=True)
class StoreMetadata:
    """Effect: publish the metadata atomically under ``chk-<id>/_metadata``; nothing is written after it."""

    metadata: CheckpointMetadata


@dataclass(frozen=True, slots=True)
class DiscardCheckpoint:
    """Effect: delete all files of a checkpoint that was subsumed or aborted."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class DiscardHandle:
    """Effect: delete one stored snapshot whose acknowledgement came too late."""

    handle: object


@dataclass(frozen=True, slots=True)
class CheckpointTriggered:
    """Effect for whoever watches: a checkpoint begins."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CheckpointCompleted:
    """Effect for whoever watches: a checkpoint is complete."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CheckpointAborted:
    """Effect for whoever watches: a checkpoint will never complete."""

    checkpoint_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class TooManyFailures:
    """Effect: more checkpoints failed in a row than the job tolerates; the attempt must end."""

    reason: str


CoordinatorEffect: TypeAlias = (
    Send
    | StartTimer
    | StoreMetadata
    | DiscardCheckpoint
    | DiscardHandle
    | CheckpointTriggered
    | CheckpointCompleted
    | CheckpointAborted
    | TooManyFailures
)
