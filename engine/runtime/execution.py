"""What every driver does alike: carry the effects of the machines out and hand events in.

An execution is one process's run of a job: its job master, the tasks of the current attempt, and the storage.
How a message travels, when a write becomes durable, what a clock is: that differs, and is left to the driver
(the local runtime, the simulation). What follows from it is the same everywhere and stands here once:

- A machine that raises has failed: its task is gone, the job master is told.
- The result of a write is handed to the task that asked for it. Where that task is gone the file is deleted,
  for nobody will ever refer to it.
- Deploying reads the checkpoint; what cannot be read ends the job, since trying again reads the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final

from engine.checkpoint.coordinator import CheckpointCoordinator
from engine.checkpoint.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointPlan,
    CheckpointTriggered,
    DiscardCheckpoint,
    DiscardHandle,
    StartTimer,
    StoreMetadata,
    TooManyFailures,
)
from engine.checkpoint.metadata import StateHandle
from engine.checkpoint.store import CompletedCheckpointStore
from engine.errors import UnrecoverableError
from engine.graph import JobGraph
from engine.job.deployment import build_tasks, fit_max_parallelism, restore_events
from engine.job.events import (
    AttemptDeployed,
    CancelTasks,
    Deploy,
    DeploymentFailed,
    JobFailed,
    JobFinished,
    MasterEvent,
    StartRestartTimer,
)
from engine.job.layout import layout_of
from engine.job.master import JobMaster
from engine.job.restart import restart_strategy
from engine.messages import Send, TaskFailed, TaskId
from engine.protocol_points import COMPLETED, COORDINATOR, TRIGGERED, Probe
from engine.runtime.recovery import RecoverableStorage, Recovered, discard_checkpoint
from engine.task.events import CANCEL, DiscardSnapshot, Restore, StoreSnapshot, TaskEvent
from engine.task.settings import TaskSettings
from engine.task.task import Task


class Execution(ABC):
    """One process's run of a job; drivers derive from it."""

    def __init__(
        self,
        graph: JobGraph,
        storage: RecoverableStorage,
        recovered: Recovered,
        probe: Probe,
        buffer_records: int,
        allow_pickle: bool = False,
        watches_elements: bool = True,
    ) -> None:
        settings = graph.settings
        store = CompletedCheckpointStore(settings.num_retained)
        for metadata in recovered.checkpoints:
            store.add(metadata)
        self.graph = graph
        self.storage = storage
        self.probe = probe
        self.master = JobMaster(
            CheckpointCoordinator(graph.job_id, graph.name, settings, store),
            restart_strategy(settings),
            recovered.incarnation,
        )
        self.tasks: dict[TaskId, Task] = {}
        self.current_task: Task | None = None
        """The task that is handling an event, while its effects are carried out, too."""
        self._buffer_records = buffer_records
        self._allow_pickle = allow_pickle
        self._watches_elements = watches_elements

    # What a driver provides.

    @abstractmethod
    def now(self) -> int:
        """Milliseconds; the time of the step in hand."""

    @abstractmethod
    def send(self, effect: Send) -> None:
        """Let the message travel to its task or to the job master."""

    @abstractmethod
    def store_snapshot(self, effect: StoreSnapshot) -> None:
        """Encode and store; later answer through ``task_event``."""

    @abstractmethod
    def store_metadata(self, effect: StoreMetadata) -> None:
        """Publish atomically; later answer through ``master_event``."""

    @abstractmethod
    def start_timer(self, effect: StartTimer | StartRestartTimer) -> None:
        """Hand ``effect.event`` to the master at ``effect.due_ms``."""

    @abstractmethod
    def start_restoring(self, task: Task, event: Restore) -> None:
        """Hand ``event`` to a task just made, now or as a step of its own."""

    @abstractmethod
    def task_died(self, task: Task, error: BaseException) -> None:
        """A task raised ``error`` and is already gone; tell the job master by ``failure_message``."""

    @abstractmethod
    def job_finished(self, effect: JobFinished) -> None:
        """All output is committed."""

    @abstractmethod
    def job_failed(self, effect: JobFailed) -> None:
        """The job is over."""

    def job_graph(self) -> JobGraph:
        """The graph for the next attempt; a driver that rescales returns another than last time."""
        return self.graph

    def attempt_started(self, effect: Deploy) -> None:
        """For drivers that keep records."""

    def checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        """For drivers that keep records."""

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """For drivers that keep records."""

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """For drivers that keep records."""

    # What is the same for all.

    def master_event(self, event: MasterEvent) -> None:
        """Hand an event to the job master and carry out what follows."""
        self.carry_out(self.master.handle(event, self.now()))

    def task_event(self, task: Task, event: TaskEvent) -> None:
        """Hand an event to a task and carry out what follows; a task that raises is dead."""
        outer = self.current_task
        self.current_task = task
        try:
            effects = task.handle(event, self.now())
        except Exception as error:
            self.tasks.pop(task.id, None)
            self.task_died(task, error)
        else:
            if effects:
                self.carry_out(effects)
        finally:
            self.current_task = outer

    def carry_out(self, effects: Iterable[Any]) -> None:
        """Carry effects out, in order."""
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self.send(effect)
            else:
                getattr(self, _METHODS[kind])(effect)

    def failure_message(self, task: Task, error: BaseException) -> TaskFailed:
        """What the job master is told of a dead task."""
        text = " ".join(str(error).split())
        unrecoverable = isinstance(error, UnrecoverableError)
        cause = text if unrecoverable else f"{task.name}: {type(error).__name__}: {text}"
        return TaskFailed(task.attempt, task.id, cause, unrecoverable)

    def cause_of(self, error: Exception) -> str:
        """Why no attempt can be deployed, in one line."""
        return " ".join(str(error).split())

    def is_current(self, task: Task) -> bool:
        """Whether ``task`` is a living task of the current attempt."""
        return self.tasks.get(task.id) is task

    def _deploy(self, effect: Deploy) -> None:
        self.attempt_started(effect)
        try:
            graph = self.graph = fit_max_parallelism(self.job_graph(), effect.restored)
            layout = layout_of(graph)
            restores = restore_events(graph, layout, effect.restored, self.storage.read)
        except Exception as error:
            self.master_event(DeploymentFailed(self.cause_of(error)))
            return
        settings = graph.settings
        self.tasks = build_tasks(
            graph,
            layout,
            TaskSettings(
                effect.attempt,
                self._buffer_records,
                self.probe,
                settings.enabled,
                self._allow_pickle,
                self._watches_elements,
            ),
        )
        plan = CheckpointPlan(effect.attempt, graph.vertices, layout.upstreams)
        self.master_event(AttemptDeployed(plan))
        for task_id, task in list(self.tasks.items()):
            self.start_restoring(task, restores[task_id])

    def _cancel_tasks(self, effect: CancelTasks) -> None:
        tasks = list(self.tasks.values())
        self.tasks = {}
        for task in tasks:
            self.cancel(task)

    def cancel(self, task: Task) -> None:
        """End a task; it is over even if it cannot close, and what it left the next attempt cleans up."""
        try:
            task.handle(CANCEL, self.now())
        except Exception:
            return

    def _checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        self.probe(TRIGGERED, COORDINATOR, effect.checkpoint_id)
        self.checkpoint_triggered(effect)

    def _checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        self.probe(COMPLETED, COORDINATOR, effect.checkpoint_id)
        self.checkpoint_completed(effect)

    def _discard_checkpoint(self, effect: DiscardCheckpoint) -> None:
        discard_checkpoint(self.storage, effect.checkpoint_id)

    def _discard_handle(self, effect: DiscardHandle | DiscardSnapshot) -> None:
        handle = effect.handle
        assert isinstance(handle, StateHandle)
        self.storage.delete(handle.path)

    def _too_many_failures(self, effect: TooManyFailures) -> None:
        """The job master has already acted on it."""


_METHODS: Final[dict[type, str]] = {
    StoreSnapshot: "store_snapshot",
    DiscardSnapshot: "_discard_handle",
    StartTimer: "start_timer",
    StoreMetadata: "store_metadata",
    DiscardCheckpoint: "_discard_checkpoint",
    DiscardHandle: "_discard_handle",
    CheckpointTriggered: "_checkpoint_triggered",
    CheckpointCompleted: "_checkpoint_completed",
    CheckpointAborted: "checkpoint_aborted",
    TooManyFailures: "_too_many_failures",
    Deploy: "_deploy",
    CancelTasks: "_cancel_tasks",
    StartRestartTimer: "start_timer",
    JobFinished: "job_finished",
    JobFailed: "job_failed",
}
"""By name, not bound: an execution that held its own methods would be garbage for the collector to find."""
