"""The base of drivers whose tasks run in the driver's own process.

An execution is one process's run of a job: its job master, the tasks of the current attempt, and the storage.
The driver (the local runtime, the simulation) decides how messages travel, when a write becomes durable, and
what the clock is. The rules that all drivers share:

- A task that raises has failed, whatever it raises: the driver drops it and reports the failure to the job
  master. Only an Ending (errors.py) passes through.
- The driver hands the result of a write to the task that asked for it. Where that task is gone the driver
  deletes the file, because no checkpoint will ever list it.
- A probe may raise Killed: the task that passes the protocol point dies there without closing anything, as
  if its process had been killed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

from onceproof.engine.checkpoint.events import CheckpointAborted
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.errors import Ending, UnrecoverableError, repeatable, text_of, user_line
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout
from onceproof.engine.job.deployment import build_tasks, restore_events
from onceproof.engine.job.events import CancelTasks
from onceproof.engine.messages import AttemptId, Send, TaskFailed, TaskId
from onceproof.engine.metrics import MetricRegistry
from onceproof.engine.operators.async_requests import MakeRequests
from onceproof.engine.owned import ValueWatch
from onceproof.engine.protocol_points import Probe
from onceproof.engine.runtime.job_driver import JobDriver
from onceproof.engine.runtime.job_warnings import UNSEEN, Delay, Stage
from onceproof.engine.runtime.recovery import RecoverableStorage, Recovered
from onceproof.engine.runtime.request_loop import EventLoopRequests
from onceproof.engine.state.rocksdb.databases import Databases
from onceproof.engine.task.events import (
    CANCEL,
    WALL_CLOCK_ADVANCED,
    HoldSnapshot,
    Restore,
    StartTaskTimer,
    StoreSnapshot,
    TaskEvent,
)
from onceproof.engine.task.task import RUNNING, Task, TaskSettings, no_wake_up
from onceproof.engine.task.task_watch import TaskWatch


class Killed(Ending):
    """A probe kills the task that passes a protocol point.

    It is no Exception, so that no ``except Exception`` of a user's function survives it.
    """


class Execution(JobDriver):
    """One process's run of a job with its tasks; drivers derive from it."""

    measures_checkpoints: ClassVar[bool] = True
    """Whether tasks measure the parts of a checkpoint, for the message of one that expires."""

    def __init__(
        self,
        graph: JobGraph,
        storage: RecoverableStorage,
        recovered: Recovered,
        probe: Probe,
        buffer_records: int,
        watches_elements: bool = True,
        scope: str = "",
    ) -> None:
        super().__init__(graph, storage, recovered, probe)
        self.tasks: dict[TaskId, Task] = {}
        self.current_task: Task | None = None
        """The task that is handling an event, also while the driver executes its effects."""
        self._buffer_records = buffer_records
        self._watches_elements = watches_elements
        self._scope = scope

    # Each driver implements these.

    @abstractmethod
    def store_snapshot(self, effect: StoreSnapshot) -> None:
        """Encode and store a snapshot; later report the result through ``task_event``."""

    @abstractmethod
    def start_task_timer(self, effect: StartTaskTimer) -> None:
        """Send TimerDue to the current task at ``effect.due_ms`` of ``now``, if it is alive then."""

    @abstractmethod
    def start_restoring(self, task: Task, event: Restore) -> None:
        """Send ``event`` to a new task, now or as a step of its own."""

    @abstractmethod
    def task_died(self, task: Task, error: BaseException) -> None:
        """Report to the job master, with ``failure_message``, that a task raised ``error``."""

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Say what an expired checkpoint waited for, as the tasks of this process show it."""
        self.job_log.checkpoint_waited(self.graph, effect, self.now(), self._delay_of)

    def _delay_of(self, task_id: TaskId, checkpoint_id: int) -> Delay:
        task = self.tasks.get(task_id)
        if task is None:
            return UNSEEN
        delay = task_delay(task, checkpoint_id)
        if delay.stage is not Stage.TRIGGER_WAITS:
            return delay
        # The tasks share a thread: the source waits for the turns of others.
        busiest = max(self.tasks.values(), key=lambda each: each.counters.turn_ns)
        return Delay(delay.stage, busiest=busiest.name)

    # What observers override.

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Called when a task has taken a snapshot, before the snapshot can be stored.

        A snapshot that is held back is reported twice, with the same path: when the task holds it, and when
        the task requests its storage.
        """

    def source_waker(self) -> Callable[[TaskId], None]:
        """Return what is called, from any thread, when the source of a task has something to read again.

        It is no bound method here: the tasks would hold the driver that holds them.
        """
        return no_wake_up

    def value_watch(self) -> ValueWatch | None:
        """Return what finds values that the functions of the next attempt modify after handing them over."""
        return None

    def databases(self) -> Databases | None:
        """Return what opens the databases of tasks; None: RocksDB does."""
        return None

    def task_watch(self, graph: JobGraph) -> TaskWatch | None:
        """Return what makes the machines of the next attempt's tasks, and compares what they answer."""
        return None

    def make_requests(self) -> MakeRequests:
        """Return what runs the coroutines of tasks. It must not hold the driver, either."""
        return EventLoopRequests

    def task_killed(self, task: Task, cause: str) -> None:
        """Called when a task has been killed, before the failure is reported to the job master."""

    # The same for all drivers.

    def task_event(self, task: Task, event: TaskEvent) -> None:
        """Pass an event to a task and execute its effects; a task that raises is dropped."""
        outer = self.current_task
        self.current_task = task
        try:
            effects = task.handle(event, self.now())
            if self._checks:
                task.validate()
        except Killed:
            self.kill(task)
        except Ending:
            raise
        except BaseException as error:
            self.tasks.pop(task.id, None)
            self.task_died(task, error)
        else:
            if effects:
                self.carry_out(effects)
        finally:
            self.current_task = outer

    def set_wall_clock(self, ahead_ms: int) -> None:
        """Note how far the wall clock is ahead of ``now``; if it was set forward, wake the tasks."""
        before = self.wall_clock.ahead_ms
        self.wall_clock.ahead_ms = ahead_ms
        if ahead_ms > before:
            for task in list(self.tasks.values()):
                if self.is_current(task) and task.state is RUNNING:
                    self.task_event(task, WALL_CLOCK_ADVANCED)

    def kill(self, task: Task) -> None:
        """Drop a living task as if its process had been killed: it closes nothing."""
        if self.is_current(task):
            del self.tasks[task.id]
            self.task_killed(task, "killed")
            self.send(Send(self.failure_message(task, Killed("killed"))))

    def failure_message(self, task: Task, error: BaseException) -> TaskFailed:
        """Return the message to the job master about a dead task."""
        return failure_of(task.attempt, task.id, task.name, error, task.buffers_taken)

    def is_current(self, task: Task) -> bool:
        """Whether ``task`` is a living task of the current attempt."""
        return self.tasks.get(task.id) is task

    def read_checkpoint(
        self, graph: JobGraph, layout: Layout, restored: CheckpointMetadata | None
    ) -> dict[TaskId, Restore]:
        """Return the Restore event of each task."""
        return restore_events(graph, layout, restored, self.storage.read)

    def make_tasks(self, attempt: AttemptId, graph: JobGraph, layout: Layout) -> None:
        """Make the tasks in this process, connected by their queues; their metrics begin anew."""
        self.metrics = MetricRegistry()
        self.tasks = build_tasks(
            graph,
            layout,
            TaskSettings(
                attempt,
                self._buffer_records,
                self.probe,
                graph.settings.enabled,
                graph.settings.allow_pickled_state,
                self._watches_elements,
                state_backend=graph.settings.state_backend,
                databases=self.databases(),
                options=graph.settings.checkpoint_options(is_savepoint=False),
                wall_clock=self.wall_clock,
                job_id=graph.job_id,
                wake_up=self.source_waker(),
                requests=self.make_requests(),
                scope=self._scope,
                job_parameters=graph.settings.job_parameters,
                source_on_change=graph.settings.source_on_change,
                metrics=self.metrics,
                value_watch=self.value_watch(),
                watch=self.task_watch(graph),
                measures=self.measures_checkpoints or graph.settings.monitor.is_on,
                only_commits=self.master.only_commits,
            ),
        )

    def start_tasks(self, begin_with: dict[TaskId, Restore]) -> None:
        """Let each task restore its state."""
        for task_id, task in list(self.tasks.items()):
            self.start_restoring(task, begin_with[task_id])

    def cancel_tasks(self, effect: CancelTasks) -> None:
        tasks = list(self.tasks.values())
        self.tasks = {}
        for task in tasks:
            self.cancel(task)
            if self._checks:
                task.validate()

    def cancel(self, task: Task) -> None:
        """Cancel a task; if it cannot close, the next attempt cleans up what it left."""
        outer = self.current_task
        self.current_task = task
        try:
            task.handle(CANCEL, self.now())
        except Killed:
            self.task_killed(task, "killed while it closed")
        except Ending:
            raise
        except BaseException:
            return
        finally:
            self.current_task = outer

    def _store_snapshot(self, effect: StoreSnapshot) -> None:
        assert self.current_task is not None
        self.snapshot_taken(self.current_task, effect)
        self.store_snapshot(effect)

    def _hold_snapshot(self, effect: HoldSnapshot) -> None:
        assert self.current_task is not None
        self.snapshot_taken(self.current_task, effect.store)


Execution.handlers = {
    **JobDriver.handlers,
    StoreSnapshot: Execution._store_snapshot,
    HoldSnapshot: Execution._hold_snapshot,
    StartTaskTimer: lambda driver, effect: driver.start_task_timer(effect),
}


def task_delay(task: Task, checkpoint_id: int) -> Delay:
    """Return where a task is with a checkpoint that it has not acknowledged."""
    if task.barriers.pending and task.barriers.latest_checkpoint_id == checkpoint_id:
        return Delay(Stage.ALIGNS)
    if task.is_taken(checkpoint_id):
        return Delay(Stage.STORES, measures=task.measured(checkpoint_id))
    if task.is_source:
        return Delay(Stage.TRIGGER_WAITS)
    return Delay(Stage.BARRIER_WAITS, sum(map(len, task.queues)))


def failure_of(
    attempt: AttemptId, task: TaskId, name: str, error: BaseException, taken: int = 0
) -> TaskFailed:
    """Return the message to the job master about a task that raised ``error`` after ``taken`` buffers."""
    text = text_of(error)
    if isinstance(error, UnrecoverableError):
        return TaskFailed(attempt, task, text, unrecoverable=True)
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    cause = f"{name}: {said}{user_line(error)}"
    return TaskFailed(attempt, task, cause, False, said if repeatable(error) else "", taken)
