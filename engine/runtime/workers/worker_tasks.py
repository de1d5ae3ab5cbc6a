"""A worker: a process that owns subtasks of one attempt, and ends with it.

- One thread runs the machines of the tasks, a second one writes their snapshots, as in the local runtime
  (local.py). The same schedule gives the turns, and the same clocks are read.
- In each round the worker takes what has arrived, handles events, gives every task a turn, and passes on what
  the tasks have sent. It waits only where nothing of that had an effect.
- The coordinator hears what the job master would: messages of tasks, and that a task has failed. A worker
  that dies says nothing; the coordinator notices the end of the connection.
- If snapshots are due by records, the sources read no further than one interval until the coordinator lets
  them.
- The barrier of a savepoint may come from another worker before the coordinator has said where the savepoint
  lies. Its snapshot waits for that message, which is under way.
"""

from __future__ import annotations

import heapq
import os
import select
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, ClassVar, Final

from onceproof.engine.checkpoint.metadata import StateHandle
from onceproof.engine.errors import Ending
from onceproof.engine.forked_children import close_in_children, runs_user_code
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout, layout_of
from onceproof.engine.job.deployment import fit_max_parallelism
from onceproof.engine.messages import (
    CHECKPOINT,
    SAVEPOINT,
    TO_TASK,
    NotifyCheckpointAborted,
    Send,
    TaskFailed,
    TaskId,
    checkpoint_folder,
)
from onceproof.engine.metrics import MetricRegistry
from onceproof.engine.protocol_points import Probe, no_probe
from onceproof.engine.runtime.checkpoint_writer import CheckpointWriter, Work, snapshot_work
from onceproof.engine.runtime.clocks import SYSTEM_CLOCKS, WALL_CLOCK_TOLERANCE_MS, Clocks
from onceproof.engine.runtime.deletion import delete_if_possible
from onceproof.engine.runtime.execution import failure_of, task_delay
from onceproof.engine.runtime.garbage_collection import few_garbage_collections
from onceproof.engine.runtime.monitor.job_view import TaskReport
from onceproof.engine.runtime.monitor.task_readings import read_tasks
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.request_loop import EventLoopRequests
from onceproof.engine.runtime.task_turns import Schedule
from onceproof.engine.runtime.workers.channels import WorkerChannels
from onceproof.engine.runtime.workers.launcher import Ends
from onceproof.engine.runtime.workers.link import MESSAGE, Link, end_daemonic_children, keep_alive
from onceproof.engine.runtime.workers.protocol import (
    CheckpointDelayed,
    DeployTasks,
    EndWorker,
    MountFolder,
    Progress,
    ReadOn,
    WorkerEnded,
    worker_of,
)
from onceproof.engine.runtime.workers.subtasks import build_subtasks, read_restores
from onceproof.engine.task.events import (
    CANCEL,
    WALL_CLOCK_ADVANCED,
    DiscardSnapshot,
    HoldSnapshot,
    SnapshotFailed,
    SnapshotStored,
    StartTaskTimer,
    StoreSnapshot,
    TaskEffect,
    TaskEvent,
    TimerDue,
)
from onceproof.engine.task.task import RUNNING, Task, TaskSettings, TaskState
from onceproof.engine.types import exchange
from onceproof.engine.wall_clock import WallClock

LONGEST_WAIT_MS: Final = 200
PROGRESS_MS: Final = 100
"""How often the coordinator hears how much the sources have read, if nothing depends on it."""
REPORTS_PER_INTERVAL: Final = 8
"""How often it hears so within an interval of checkpoints by records."""
_ENDED: Final = (TaskState.ENDED_DATA, TaskState.FINISHED)


def live(make: Callable[[Ends], Worker], heartbeat_interval_ms: int, ends: Ends) -> None:
    """Make a worker, run it from its deployment to its end, and end the process."""
    code = 1
    keep_alive(ends.lifeline, heartbeat_interval_ms)
    try:
        with few_garbage_collections():
            # Its sockets are open until the process ends: collected before, they cause a ResourceWarning.
            worker = make(ends)
            worker.run()
        code = 0
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        end_daemonic_children()
        os._exit(code)


class Worker:
    """The tasks of one worker in one attempt.

    A subclass can observe it: it overrides the hooks, and sets ``checks_machines`` to have each task
    validated after each event. ``probe`` is called at every protocol point, and may kill the process.
    """

    checks_machines: ClassVar[bool] = False

    def __init__(
        self,
        graph: JobGraph,
        storage: MountedStorage,
        scope: str,
        workers: int,
        ends: Ends,
        probe: Probe = no_probe,
        clocks: Clocks = SYSTEM_CLOCKS,
    ) -> None:
        settings = graph.settings
        self._graph = graph
        self._storage = storage
        self._scope = scope
        self._workers = workers
        self._number = ends.number
        self._probe = probe
        self._control = self.connect(ends.control)
        self._peers = {number: Link(peer) for number, peer in ends.peers.items()}
        self._clocks = clocks
        self.wall_clock = WallClock(steady_ms=self._clocks.steady_ms)
        self._now = 0
        self._metrics = MetricRegistry()
        self._tasks: dict[TaskId, Task] = {}
        self._schedule = Schedule(settings, self._clocks, self.task_event)
        self._channels = WorkerChannels(settings, self._peers, self._schedule)
        self._timers: list[tuple[int, int, Task, TimerDue]] = []
        self._sequence = 0
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        """What other threads have for this one."""
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        close_in_children(self._woken, self._wake)
        self._writer = CheckpointWriter(self._from_other_thread)
        self._unplaced: dict[str, list[Work]] = {}
        """Snapshots of savepoints whose folders are not mounted yet, by the folder."""
        self._interval_records = settings.interval_records
        self._records_of_dead = 0
        self._reported = Progress(0, False)
        self._read_on_from = 0
        self._next_progress_ms = 0
        self._report_interval_ms = settings.monitor.interval_ms if settings.monitor.is_on else None
        self._next_report_ms = 0
        self._is_over = False

    # What observers override.

    def connect(self, connection: socket.socket) -> Link:
        """Return the connection to the coordinator."""
        return Link(connection)

    def tasks_made(self, tasks: Mapping[TaskId, Task]) -> None:
        """Called when the tasks of the attempt are there, before they restore anything."""

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Called as ``Execution.snapshot_taken``: before the snapshot can be stored, perhaps twice."""

    # The loop.

    @runs_user_code
    def run(self) -> None:
        """Run until the coordinator ends the worker."""
        self._read_clocks()
        try:
            while not self._is_over:
                if not self._round():
                    self._report_progress(is_idle=True)
                    self._flush()
                    self._wait()
        except BaseException as error:
            self._report_own_failure(error)
            raise
        self._end()

    def _round(self) -> bool:
        self._read_clocks()
        progress = self._take_messages()
        progress |= self._handle_events()
        sources_wait = self._sources_wait()
        schedule = self._schedule
        for turn in schedule.round(self._tasks):
            if sources_wait and turn.task.is_source:
                continue
            progress |= schedule.take(turn, self._now)
            if schedule.events_are_due:
                self._read_clocks()
                self._take_messages()
                self._handle_events()
                self._channels.transfer()
            if schedule.has_changed:
                break
        self._channels.transfer()
        self._report_progress(is_idle=False)
        self._report_tasks()
        self._flush()
        return progress

    def _read_clocks(self) -> None:
        now = self._now = self._clocks.steady_ms()
        ahead_ms = self._clocks.wall_ms() - now
        before = self.wall_clock.ahead_ms
        if -WALL_CLOCK_TOLERANCE_MS < ahead_ms - before < WALL_CLOCK_TOLERANCE_MS:
            return
        self.wall_clock.ahead_ms = ahead_ms
        if ahead_ms > before:
            for task in list(self._tasks.values()):
                if self._is_current(task) and task.state is RUNNING:
                    self.task_event(task, WALL_CLOCK_ADVANCED)

    def _take_messages(self) -> bool:
        """Take what has arrived from the coordinator and from other workers."""
        progress = False
        for _, _, content in self._control.receive():
            self._message(exchange.decode(content))
            progress = True
        if self._control.is_closed:
            os._exit(1)
        if not self._tasks:
            # The channels do not exist yet; what others have sent waits in the sockets.
            return progress
        return self._channels.receive() or progress

    def _handle_events(self) -> bool:
        self._schedule.events_handled()
        progress = False
        while not self._events.empty():
            self._events.get()()
            progress = True
        while self._timers and self._timers[0][0] <= self._now:
            _, _, task, event = heapq.heappop(self._timers)
            if self._is_current(task):
                self.task_event(task, event)
            progress = True
        return progress

    def _flush(self) -> None:
        self._control.flush()
        for peer in self._peers.values():
            peer.flush()

    def _wait(self) -> None:
        """Wait until something arrives, can be written or is due."""
        due = [self._now + LONGEST_WAIT_MS]
        due += [each for each in self._schedule.next_poll_ms() if each > self._now]
        if self._timers:
            due.append(self._timers[0][0])
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        for link in (self._control, *self._peers.values()):
            if not link.is_closed:
                poll.register(link, select.POLLIN | (select.POLLOUT if link.waits_to_write else 0))
        poll.poll(max(0, min(due) - self._clocks.steady_ms()))
        with suppress(BlockingIOError):
            self._woken.recv(4096)

    def _from_other_thread(self, event: Callable[[], None]) -> None:
        self._events.put(event)
        with suppress(OSError):
            self._wake.send(b"w")

    # Messages of the coordinator.

    def _message(self, message: Any) -> None:
        kind = type(message)
        if kind in TO_TASK:
            task = self._tasks.get(message.task)
            if kind is NotifyCheckpointAborted:
                if task is not None:
                    delay = task_delay(task, message.checkpoint_id)
                    self._send(CheckpointDelayed(task.id, message.checkpoint_id, delay))
                self._withdraw(message.task, message.checkpoint_id)
            if task is not None:
                self.task_event(task, message)
        elif kind is DeployTasks:
            self._deploy(message)
        elif kind is MountFolder:
            self._storage.mount(message.folder, message.place)
            for work in self._unplaced.pop(message.folder, ()):
                self._writer.submit(work)
        elif kind is ReadOn:
            self._read_on_from = self._records_read()
        else:
            assert kind is EndWorker, f"a worker gets no {kind.__name__}"
            self._is_over = True

    def _deploy(self, message: DeployTasks) -> None:
        for folder, place in message.mounts.items():
            if folder not in self._storage.mounts:
                self._storage.mount(folder, place)
        graph = fit_max_parallelism(self._graph, message.restored)
        layout = layout_of(graph)
        self._make_tasks(graph, layout, message)
        self.tasks_made(self._tasks)
        restores = read_restores(graph, layout, list(self._tasks), message, self._storage)
        if isinstance(restores, TaskFailed):
            self._send(restores)
            return
        for task_id, restore in restores.items():
            self.task_event(self._tasks[task_id], restore)

    def _make_tasks(self, graph: JobGraph, layout: Layout, message: DeployTasks) -> None:
        settings = graph.settings
        built = build_subtasks(
            graph,
            layout,
            TaskSettings(
                message.attempt,
                settings.buffer_records,
                self._probe,
                settings.enabled,
                settings.allow_pickled_state,
                watches_elements=self._probe is not no_probe,
                state_backend=settings.state_backend,
                options=settings.checkpoint_options(is_savepoint=False),
                wall_clock=self.wall_clock,
                job_id=graph.job_id,
                wake_up=lambda task: self._from_other_thread(lambda: self._wake_up(task)),
                requests=EventLoopRequests,
                scope=self._scope,
                job_parameters=settings.job_parameters,
                source_on_change=settings.source_on_change,
                metrics=self._metrics,
                measures=True,
                only_commits=message.only_commits,
            ),
            self._number,
            partial(worker_of, workers=self._workers),
        )
        self._tasks = built.tasks
        self._channels.connect(built)

    def _wake_up(self, task: TaskId) -> None:
        self._schedule.wake_up(self._tasks.get(task))

    # Tasks.

    def _is_current(self, task: Task) -> bool:
        return self._tasks.get(task.id) is task

    def task_event(self, task: Task, event: TaskEvent) -> None:
        """Pass an event to a task and carry out its effects; a task that raises has failed."""
        try:
            effects = task.handle(event, self._now)
            if self.checks_machines:
                task.validate()
        except Ending:
            raise
        except BaseException as error:
            self.task_died(task, error)
            return
        if effects:
            self._carry_out(task, effects)

    def _carry_out(self, task: Task, effects: Sequence[TaskEffect]) -> None:
        for effect in effects:
            kind = type(effect)
            if isinstance(effect, Send):
                self._send(effect.message)
            elif isinstance(effect, StoreSnapshot):
                self.snapshot_taken(task, effect)
                self._store_snapshot(task, effect)
            elif isinstance(effect, HoldSnapshot):
                self.snapshot_taken(task, effect.store)
            elif isinstance(effect, StartTaskTimer):
                self._sequence += 1
                event = TimerDue(effect.due_ms)
                heapq.heappush(self._timers, (effect.due_ms, self._sequence, task, event))
            elif isinstance(effect, DiscardSnapshot):
                assert isinstance(effect.handle, StateHandle), kind
                delete_if_possible(self._storage, effect.handle.paths)

    def task_died(self, task: Task, error: BaseException) -> None:
        """Close a task that raised, and tell the coordinator."""
        if self._is_current(task):
            del self._tasks[task.id]
        self._cancel(task)
        self._schedule.change()
        self._send(failure_of(task.attempt, task.id, task.name, error, task.buffers_taken))

    def _cancel(self, task: Task) -> None:
        self._records_of_dead += task.records_read
        try:
            task.handle(CANCEL, self._now)
        except Ending:
            raise
        except BaseException:
            # The next attempt cleans up what it has left.
            return

    # Snapshots.

    def _store_snapshot(self, task: Task, effect: StoreSnapshot) -> None:
        """Encode and write the snapshot in the second thread."""
        write = snapshot_work(
            self._storage, effect, partial(self._stored, task), partial(self._encoding_failed, task)
        )
        work = Work((task.id, effect.checkpoint_id), write)
        folder = effect.path.partition("/")[0]
        if folder in self._storage.mounts or folder == checkpoint_folder(effect.checkpoint_id, CHECKPOINT):
            self._writer.submit(work)
        else:
            self._unplaced.setdefault(folder, []).append(work)

    def _stored(self, task: Task, paths: Sequence[str], event: SnapshotStored | SnapshotFailed) -> None:
        if self._is_current(task):
            self.task_event(task, event)
        else:
            delete_if_possible(self._storage, paths)

    def _encoding_failed(self, task: Task, error: BaseException) -> None:
        if self._is_current(task):
            self.task_died(task, error)

    def _withdraw(self, task: TaskId, checkpoint_id: int) -> None:
        self._writer.withdraw(lambda about: about == (task, checkpoint_id))
        self._unplaced.pop(checkpoint_folder(checkpoint_id, SAVEPOINT), None)

    # What the coordinator hears.

    def _send(self, message: Any) -> None:
        self._control.put(MESSAGE, 0, exchange.encode(message))

    def _records_read(self) -> int:
        return self._records_of_dead + sum([task.records_read for task in self._tasks.values()])

    def _sources_wait(self) -> bool:
        """Return whether the sources have read a whole interval since the coordinator let them."""
        interval = self._interval_records
        return interval is not None and self._records_read() - self._read_on_from >= interval

    def _report_progress(self, *, is_idle: bool) -> None:
        reported = self._reported
        has_ended = reported.has_ended_data
        if is_idle and self._tasks:
            has_ended = all(task.state in _ENDED for task in self._tasks.values())
        read = self._records_read()
        if read == reported.records_read and has_ended is reported.has_ended_data:
            return
        interval = self._interval_records
        if interval is None:
            is_due = self._now >= self._next_progress_ms
        else:
            is_due = read - reported.records_read >= max(1, interval // REPORTS_PER_INTERVAL)
        if is_due or is_idle or has_ended is not reported.has_ended_data:
            self._next_progress_ms = self._now + PROGRESS_MS
            self._reported = Progress(read, has_ended)
            self._send(self._reported)

    def _report_tasks(self, *, is_last: bool = False) -> None:
        """Tell the coordinator what the tasks show, if the job is monitored."""
        interval_ms = self._report_interval_ms
        if interval_ms is None or not self._tasks or (self._now < self._next_report_ms and not is_last):
            return
        self._next_report_ms = self._now + interval_ms
        now_ms = self._clocks.wall_ms()
        self._send(TaskReport(read_tasks(self._tasks.values(), now_ms), tuple(self._metrics.readings())))

    def _report_own_failure(self, error: BaseException) -> None:
        task = next(iter(self._tasks.values()), None)
        if task is not None:
            self._send(failure_of(task.attempt, task.id, task.name, error, task.buffers_taken))
            self._flush()

    def _end(self) -> None:
        """Close the tasks, finish what is being written, and say so."""
        self._report_tasks(is_last=True)
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            self._cancel(task)
        self._writer.withdraw(lambda about: True)
        self._writer.close()
        while not self._events.empty():
            self._events.get()()
        self._send(WorkerEnded(self._records_read(), self._metrics.values()))
        self._control.flush()
