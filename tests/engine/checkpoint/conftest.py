"""The coordinator's bench: a job of two sources and a sink, its mail, and what is done about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from onceproof.engine.checkpoint.completed_store import CompletedCheckpointStore
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointExpired,
    CheckpointPlan,
    CheckpointTriggered,
    CoordinatorEffect,
    CoordinatorEvent,
    IntervalElapsed,
    MetadataFailed,
    MetadataStored,
    RequestResolved,
    StartTimer,
    StoreMetadata,
    TriggerRequested,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, StateHandle
from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.graph import JobVertex, OperatorNode
from onceproof.engine.messages import (
    CHECKPOINT,
    AcknowledgeCheckpoint,
    AttemptId,
    DeclineCheckpoint,
    Kind,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    Send,
    TaskFinished,
    TaskId,
    TaskRunning,
    TriggerCheckpoint,
)
from onceproof.engine.operators.base import Operator
from onceproof.engine.state.stored import SnapshotIndex, StateFile
from onceproof.engine.wall_clock import WallClock

SOURCES = (TaskId(0, 0), TaskId(0, 1))
SINK = TaskId(1, 0)
TASKS = (*SOURCES, SINK)


def vertex(index: int, name: str, parallelism: int, *operators: str) -> JobVertex:
    nodes = tuple(OperatorNode(f"id of {each}", each, each, Operator) for each in operators)
    return JobVertex(index, name, nodes, parallelism, 128, False, (), ())


class CoordinatorBench:
    """Hands the coordinator its events at ``now``, and validates it after each."""

    def __init__(self, completed: Sequence[int] = (), **settings: Any) -> None:
        self.settings = CheckpointSettings(**{"interval_ms": 100, "timeout_ms": 1000, **settings})
        self.store = CompletedCheckpointStore(self.settings.num_retained)
        for checkpoint_id in completed:
            self.store.add(CheckpointMetadata(checkpoint_id, "job", "words", 0, "checkpoint", "1.1", ()))
        self.wall_clock = WallClock()
        self.coordinator = CheckpointCoordinator(
            "job", "words", self.settings, self.store, wall_clock=self.wall_clock
        )
        self.vertices = (vertex(0, "read", 2, "read"), vertex(1, "write", 1, "map", "write"))
        self.attempt = AttemptId("")
        self.now = 0

    def handle(self, event: CoordinatorEvent) -> list[CoordinatorEffect]:
        effects = list(self.coordinator.handle(event, self.now))
        self.coordinator.validate()
        return effects

    # Attempts.

    def start(self, attempt: str = "1.1", running: Sequence[TaskId] = TASKS) -> list[CoordinatorEffect]:
        self.attempt = AttemptId(attempt)
        upstreams: dict[TaskId, tuple[TaskId, ...]] = dict.fromkeys(SOURCES, ())
        upstreams[SINK] = SOURCES
        effects = self.handle(AttemptStarted(CheckpointPlan(self.attempt, self.vertices, upstreams)))
        for task in running:
            effects += self.run(task)
        return effects

    def end(self) -> list[CoordinatorEffect]:
        return self.handle(AttemptEnded())

    def run(self, task: TaskId) -> list[CoordinatorEffect]:
        return self.handle(TaskRunning(self.attempt, task))

    def finish(self, task: TaskId, attempt: str = "") -> list[CoordinatorEffect]:
        return self.handle(TaskFinished(AttemptId(attempt or self.attempt), task))

    # Checkpoints.

    def request(self, kind: Kind = CHECKPOINT, number: int = 0) -> list[CoordinatorEffect]:
        return self.handle(TriggerRequested(kind, number))

    def elapse(self, now: int, attempt: str = "") -> list[CoordinatorEffect]:
        """The periodic timer rings at ``now``."""
        self.now = now
        return self.handle(IntervalElapsed(AttemptId(attempt or self.attempt)))

    def file(self, task: TaskId, checkpoint_id: int, **index: SnapshotIndex) -> StateHandle:
        return StateHandle(f"chk-{checkpoint_id}/{task.vertex}-{task.subtask}", 1, "", index)

    def acknowledge(
        self,
        task: TaskId,
        checkpoint_id: int,
        attempt: str = "",
        finished: bool = False,
        files: Sequence[StateFile] = (),
    ) -> list[CoordinatorEffect]:
        handle = replace(self.file(task, checkpoint_id), files=tuple(files))
        message = AcknowledgeCheckpoint(
            AttemptId(attempt or self.attempt), task, checkpoint_id, handle, finished
        )
        return self.handle(message)

    def acknowledge_all(self, checkpoint_id: int) -> list[CoordinatorEffect]:
        return [effect for task in TASKS for effect in self.acknowledge(task, checkpoint_id)]

    def decline(
        self, task: TaskId, checkpoint_id: int, attempt: str = "", reason: str = "disk full"
    ) -> list[CoordinatorEffect]:
        return self.handle(DeclineCheckpoint(AttemptId(attempt or self.attempt), task, checkpoint_id, reason))

    def expire(self, checkpoint_id: int, attempt: str = "") -> list[CoordinatorEffect]:
        return self.handle(CheckpointExpired(AttemptId(attempt or self.attempt), checkpoint_id))

    def stored(self, checkpoint_id: int) -> list[CoordinatorEffect]:
        return self.handle(MetadataStored(checkpoint_id))

    def not_stored(self, checkpoint_id: int) -> list[CoordinatorEffect]:
        return self.handle(MetadataFailed(checkpoint_id, "disk full"))

    def complete(self, checkpoint_id: int) -> list[CoordinatorEffect]:
        """All acknowledge, and the metadata is written."""
        self.acknowledge_all(checkpoint_id)
        return self.stored(checkpoint_id)

    # What came out.

    def triggered(self, effects: Sequence[CoordinatorEffect]) -> list[int]:
        return [effect.checkpoint_id for effect in effects if isinstance(effect, CheckpointTriggered)]

    def written(self, effects: Sequence[CoordinatorEffect]) -> list[int]:
        """Whose metadata is to be written."""
        return [effect.metadata.checkpoint_id for effect in effects if isinstance(effect, StoreMetadata)]

    def timer_due_ms(self, effects: Sequence[CoordinatorEffect]) -> list[int]:
        """When the periodic timers that were started will ring."""
        return [
            effect.due_ms
            for effect in effects
            if isinstance(effect, StartTimer) and isinstance(effect.event, IntervalElapsed)
        ]

    def sent(self, effects: Sequence[CoordinatorEffect]) -> list[tuple[str, TaskId, int]]:
        """Return the messages sent to tasks: (verb, task, checkpoint id)."""
        verbs: dict[type, str] = {
            TriggerCheckpoint: "trigger",
            NotifyCheckpointComplete: "complete",
            NotifyCheckpointAborted: "aborted",
        }
        sent: list[Any] = [effect.message for effect in effects if isinstance(effect, Send)]
        assert all(message.attempt == self.attempt for message in sent)
        return [(verbs[type(message)], message.task, message.checkpoint_id) for message in sent]

    def resolved(self, effects: Sequence[CoordinatorEffect]) -> list[tuple[int, int | str | None]]:
        """Return the outcomes of requests: (number, checkpoint id or the reason why there is none)."""
        return [
            (effect.number, effect.checkpoint_id or effect.reason)
            for effect in effects
            if isinstance(effect, RequestResolved)
        ]

    def to_all_tasks(self, verb: str, checkpoint_id: int) -> list[tuple[str, TaskId, int]]:
        """Return the messages of one verb to all tasks."""
        return [(verb, task, checkpoint_id) for task in TASKS]


@pytest.fixture
def bench_with() -> type[CoordinatorBench]:
    """Return the bench's class: settings are keywords, ``completed`` the checkpoints found at the start."""
    return CoordinatorBench


@pytest.fixture
def bench() -> CoordinatorBench:
    """Return a bench with an attempt that runs."""
    bench = CoordinatorBench()
    bench.start()
    return bench
