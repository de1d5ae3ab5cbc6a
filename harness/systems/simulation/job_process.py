"""One simulated process of the job: the engine's execution over a simulated network, storage and clock.

Rules:

- Everything that takes time in a real process is an action on the agenda, which the schedule performs when it
  likes: messages, writes, restores, timers.
- The process dies as a whole, and the world starts another one. What must survive it is in the storage and
  in the external system. Its tasks can die one by one.
- The requests of coroutines (`simulated_requests.py`) are imported with the first task that has some, because
  asyncio takes a tenth of the start of a process.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.checkpoint.completed_store import JobOutcome
from onceproof.engine.checkpoint.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointTriggered,
    MetadataFailed,
    RequestResolved,
    StartTimer,
    StoreMetadata,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.checkpoint.snapshot_files import store_encoded
from onceproof.engine.connectors.file_content import UnreadableFile
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.events import (
    Deploy,
    JobCanceled,
    JobFailed,
    JobFinished,
    MasterEvent,
    StartRestartTimer,
)
from onceproof.engine.job.restart_strategies import Chance
from onceproof.engine.messages import (
    DeclineCheckpoint,
    Send,
    TaskId,
)
from onceproof.engine.operators.async_requests import MakeRequests
from onceproof.engine.owned import ValueWatch
from onceproof.engine.protocol_points import (
    COORDINATOR,
    METADATA_WRITTEN,
    SNAPSHOTTED,
)
from onceproof.engine.runtime.deletion import Superseded, delete_if_possible
from onceproof.engine.runtime.execution import Execution
from onceproof.engine.runtime.job_log import JobLog
from onceproof.engine.runtime.recovery import Recovered, metadata_path
from onceproof.engine.runtime.restore_point import published_form
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.engine.state.rocksdb.databases import Databases
from onceproof.engine.state.snapshot import EncodedSnapshot, encode_task_snapshot
from onceproof.engine.task.events import (
    WOKEN_UP,
    Restore,
    SnapshotFailed,
    SnapshotStored,
    StartTaskTimer,
    StoreSnapshot,
    TimerDue,
)
from onceproof.engine.task.task import Task
from onceproof.engine.task.task_watch import TaskWatch
from onceproof.harness.model.injected_error import is_injected
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.simulation.actions import (
    CLASS_INDEX,
    NAMES,
    TRAVEL,
    WAITS,
    Action,
    Slot,
    slots_of,
)
from onceproof.harness.systems.simulation.aftermath import report_orphan_files
from onceproof.harness.systems.simulation.checkpoint_storages import (
    LATE_PUT,
    given_up_after,
    put_is_given_up,
    put_late,
    store_in_vain,
)
from onceproof.harness.systems.simulation.io_faults import (
    MESSAGE_METHODS,
    NOW,
    WRITE_METHODS,
    Message,
    Write,
    is_stored,
)
from onceproof.harness.systems.simulation.process_ports import ProcessPorts
from onceproof.harness.systems.simulation.run_recorder import RunRecorder

if TYPE_CHECKING:
    from onceproof.harness.systems.simulation.simulated_requests import SimulatedRequests


class RecordedJobLog(JobLog):
    """The log of a simulated process, once it has a recorder."""

    recorder: RunRecorder

    def write(self, level: int, message: str) -> None:
        """Enter a record into the history."""
        self.recorder.logged(message)


_CONTROL = CLASS_INDEX["message_control"]
_STORE = CLASS_INDEX["store"]
_METADATA = CLASS_INDEX["metadata"]
_RESTORE = CLASS_INDEX["restore"]
_TIMER = CLASS_INDEX["timer"]

WRITE_REFUSED = "the storage refused the write"


class SimulatedProcess(Execution):
    """The job master and the tasks of one simulated process."""

    checks_machines = True
    measures_checkpoints = False
    job_log: RecordedJobLog

    def __init__(self, ports: ProcessPorts, graph: JobGraph, recovered: Recovered) -> None:
        faults = ports.faults
        super().__init__(
            graph,
            ports.storage,
            recovered,
            faults.probe,
            buffer_records=ports.scenario.most_buffer_records,
            watches_elements=faults.watches_elements,
        )
        # Only what most steps use has an attribute of its own. With more than 30 attributes Python stops
        # sharing the keys of instances, and the simulation is 5 % slower.
        self.wall_clock.ahead_ms = ports.clock.ahead_ms
        self.job_log.recorder = ports.recorder
        self._ports = ports
        self._clock = ports.clock
        self._agenda = ports.agenda
        self._pending = ports.agenda.pending
        self._recorder = ports.recorder
        self._faults = faults
        self._deliver = ports.deliver
        self._watch = ports.watch
        ports.watch.process_started(graph, recovered.checkpoints)
        self.keyed_parallelism = ports.job.keyed_parallelism
        self._names: dict[TaskId, str] = {}
        self._slots: dict[TaskId, list[Slot]] = {}
        self._numbers: dict[int, int] = {}
        """By checkpoint id, the number of the request that it was triggered for."""
        self._savepoints: dict[int, CheckpointMetadata] = {}
        self.is_headless = False
        """Whether its job master has died."""
        self._restored = 0
        """How many tasks of the attempt were restored; those that died since have left ``tasks``."""

    def chance(self) -> Chance:
        """Return the same numbers in each run."""
        return Random(0).random

    def now(self) -> int:
        """Return the time of the simulated clock in milliseconds."""
        return self._clock.now

    def make_log(self) -> RecordedJobLog:
        """Return a log whose records go into the history."""
        return RecordedJobLog(self.graph.name, self.graph.settings.timeout_ms)

    # Tasks.

    def value_watch(self) -> ValueWatch:
        """Return the watch of the run."""
        watch = self._recorder.value_watch
        watch.forget()
        return watch

    def databases(self) -> Databases | None:
        """Return what opens the databases of the scenario."""
        return self._ports.job.databases

    def source_waker(self) -> Callable[[TaskId], None]:
        """Let a living task hear at once that a request has an answer; sources are woken by their input."""
        held = weakref.ref(self)

        def wake(task_id: TaskId) -> None:
            process = held()
            task = None if process is None else process.tasks.get(task_id)
            if process is not None and task is not None:
                process.task_event(task, WOKEN_UP)

        return wake

    def make_requests(self) -> MakeRequests:
        """Return what runs the coroutines step by step, in the time of the simulation."""
        clock, agenda = self._clock, self._agenda

        def make(name: str, wake_up: Callable[[], None]) -> SimulatedRequests:
            from onceproof.harness.systems.simulation.simulated_requests import SimulatedRequests

            return SimulatedRequests(name, clock, agenda, wake_up)

        return make

    def job_graph(self) -> JobGraph:
        """Return the graph at the parallelism that the last rescale asked for."""
        graph = self.graph
        if self.keyed_parallelism != self._ports.job.keyed_parallelism:
            graph = self._ports.job.build_graph()
            self.keyed_parallelism = self._ports.job.keyed_parallelism
        return graph

    def attempt_started(self, effect: Deploy) -> None:
        """Record the attempt."""
        self._slots.clear()
        self._restored = 0
        self._agenda.renew_slots()
        self._recorder.attempt_started(effect, self._ports.job.keyed_parallelism)
        self._watch.attempt_started(effect.restored)

    def start_tasks(self, begin_with: dict[TaskId, Restore]) -> None:
        """Have what they restore judged, and let each task restore it."""
        self._watch.tasks_start(begin_with)
        super().start_tasks(begin_with)

    def start_restoring(self, task: Task, event: Restore) -> None:
        """Make restoring an action of its own, so that a crash can come between two tasks' restores."""
        name, task_id = task.name, task.id
        self._watch.attach(task)
        self._names[task_id] = name
        scenario = self._ports.scenario
        self._slots[task_id] = slots_of(task, scenario.channel_capacity, is_endless=scenario.is_endless)
        self._agenda.add(_RESTORE, f"restore {name}", self._restore, (task, event))

    def slots(self) -> list[Slot]:
        """Return the inputs of the tasks that live, in topological order."""
        return [slot for task_id in self.tasks for slot in self._slots[task_id]]

    def _restore(self, argument: tuple[Task, Restore]) -> None:
        task, event = argument
        tasks = self.tasks
        if tasks.get(task.id) is task:
            self.task_event(task, event)
            self._recorder.task_restored(task)
            self._restored += 1
            if self._restored == len(self._slots) == len(tasks) and self._recorder.is_down:
                self._recorder.job_runs()

    def master_event(self, event: MasterEvent) -> None:
        """Hand an event to the job master, unless the job master has died."""
        if not self.is_headless:
            super().master_event(event)

    def master_answered(self, event: MasterEvent, effects: Sequence[Any]) -> None:
        """Have the answer judged."""
        self._watch.master_answered(event, effects)

    def task_watch(self, graph: JobGraph) -> TaskWatch | None:
        """Have the answers of the tasks judged."""
        return self._watch.of_attempt(graph)

    def cancel(self, task: Task) -> None:
        """End a task, and take its inputs out of the schedule."""
        self._agenda.renew_slots()
        super().cancel(task)

    def task_killed(self, task: Task, cause: str) -> None:
        """Record the death, and take the task's inputs out of the schedule."""
        self._agenda.renew_slots()
        self._recorder.task_failed(task, cause, injected=True)

    def task_died(self, task: Task, error: BaseException) -> None:
        """Report a task that raised; an error that no fault injected is the engine's own and ends the run."""
        self._agenda.renew_slots()
        injected = is_injected(error) or (
            isinstance(error, UnreadableFile) and self._recorder.has_changed_input
        )
        self._recorder.task_failed(task, f"{type(error).__name__}: {error}", injected)
        if not injected:
            self._ports.run.machine_failed(task.name, error)
        self.send(Send(self.failure_message(task, error)))

    # Messages.

    def send(self, effect: Send) -> None:
        """Put a message on the network, unless a fault loses it."""
        message: Any = effect.message
        kind = type(message)
        name = self._names[message.task]
        travel = TRAVEL.get(kind)
        if travel is None:
            action = Action(_CONTROL, f"{NAMES[kind]} {name}", self._deliver, message, self._clock.step)
            self._pending.append(action)
            return
        class_index, verb, point = travel
        checkpoint_id = message.checkpoint_id
        if kind is DeclineCheckpoint:
            self._recorder.checkpoint_declined(name, checkpoint_id)
            assert self.current_task is not None
            self._watch.declined(self.current_task, checkpoint_id)
        # The checkpoint, too: a label that names two actions cannot be replayed.
        label = f"{verb} {name} {checkpoint_id}"
        if point not in self._faults.points_with_io_faults:
            self._pending.append(Action(class_index, label, self._deliver, message, self._clock.step))
            return
        action = Action(class_index, label, self._deliver, message, self._clock.step)
        fault = self._faults.io_fault_at(point, name, checkpoint_id)
        if fault is None:
            self._pending.append(action)
        else:
            sent = Message(partial(self._deliver_after, action), partial(self._recorder.message_lost, action))
            MESSAGE_METHODS[fault.kind](sent, fault)

    def _deliver_after(self, action: Action, delay: int) -> None:
        if delay == NOW:
            self._pending.append(action)
        else:
            due = self._clock.now + delay
            self._agenda.add_later(due, action.class_index, action.label, action.perform, action.argument)

    # Storage.

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Note what the snapshot covers."""
        self._watch.snapshot_taken(task, effect.checkpoint_id)
        self._recorder.snapshot_taken(task, effect)

    def store_snapshot(self, effect: StoreSnapshot) -> None:
        """Make the upload an action of its own."""
        task = self.current_task
        assert task is not None
        name, checkpoint_id = task.name, effect.checkpoint_id
        fault = None
        if SNAPSHOTTED in self._faults.points_with_io_faults:
            fault = self._faults.io_fault_at(SNAPSHOTTED, name, checkpoint_id)
        self._agenda.add(_STORE, f"store {name} {checkpoint_id}", self._store, (task, effect, fault))

    def _store(self, argument: tuple[Task, StoreSnapshot, Fault | None]) -> None:
        task, effect, fault = argument
        encoded = encode_task_snapshot(effect.snapshot, effect.canonical)
        if fault is None:
            self._put_snapshot(task, effect, encoded, 0)
            return
        path = effect.path
        failed = (task, (path,), SnapshotFailed(effect.checkpoint_id, WRITE_REFUSED))
        write = Write(
            store=partial(self._put_snapshot, task, effect, encoded),
            tear=partial(self._ports.storage.tear, path, encoded.data),
            refuse=partial(self._stored, failed),
            put_late=partial(self._snapshot_put_late, effect, failed),
            store_in_vain=partial(self._stored_in_vain, effect, encoded, failed),
        )
        WRITE_METHODS[fault.kind](write, fault)

    def _snapshot_put_late(
        self, effect: StoreSnapshot, failed: tuple[Task, Sequence[str], SnapshotFailed], delay: int
    ) -> None:
        put_late(self._ports.storage, delay, partial(self._store_unheard, effect))
        due = self._clock.now + given_up_after(delay)
        label = f"no answer {failed[0].name} {effect.checkpoint_id}"
        self._agenda.add_later(due, _STORE, label, self._stored, failed)

    def _stored_in_vain(
        self,
        effect: StoreSnapshot,
        encoded: EncodedSnapshot,
        failed: tuple[Task, Sequence[str], SnapshotFailed],
    ) -> None:
        store_in_vain(self._ports.storage, effect, encoded)
        self._stored(failed)

    def _put_snapshot(
        self, task: Task, effect: StoreSnapshot, encoded: EncodedSnapshot, report_after: int
    ) -> None:
        handle = store_encoded(self._ports.storage, effect.path, encoded)
        paths = handle.paths if handle.files else (effect.path,)
        report = (task, paths, SnapshotStored(effect.checkpoint_id, handle))
        if report_after:
            label = f"store {task.name} {effect.checkpoint_id}"
            self._agenda.add_later(self._clock.now + report_after, _STORE, label, self._stored, report)
        else:
            self._stored(report)

    def _stored(self, report: tuple[Task, Sequence[str], SnapshotStored | SnapshotFailed]) -> None:
        task, paths, event = report
        tasks, task_id = self.tasks, task.id
        if tasks.get(task_id) is task:
            if type(event) is SnapshotFailed:
                self._recorder.write_refused(task.name, event.checkpoint_id)
            self.task_event(task, event)
        # The task died before the event or of it: no checkpoint will ever list what was stored.
        if tasks.get(task_id) is not task:
            delete_if_possible(self._ports.storage, paths)

    def lands_late(self, action: Action) -> bool:
        """Return whether a write of metadata is held up so long that another master may have begun."""
        return action.perform == self._publish and bool(zlib.crc32(action.label.encode()) & 2)

    def land(self, action: Action) -> None:
        """Perform a write that was under way when the process died, and reached the storage nevertheless."""
        if action.perform == self._store:
            _, effect, fault = action.argument
            perform = partial(self._store_unheard, effect)
        elif action.perform == self._publish:
            metadata, fault = action.argument
            perform = partial(self.publish, metadata)
        else:
            return
        if fault is not None and fault.kind == LATE_PUT:
            put_late(self._ports.storage, fault.delay, perform)
        elif is_stored(fault):
            perform()

    def _store_unheard(self, effect: StoreSnapshot) -> None:
        encoded = encode_task_snapshot(effect.snapshot, effect.canonical)
        store_encoded(self._ports.storage, effect.path, encoded)

    def next_starting_point(self, metadata: CheckpointMetadata) -> StartingPoint | None:
        """Return the savepoint that the scenario's user has stopped the job with, if it is this one."""
        number = self._numbers.get(metadata.checkpoint_id, 0)
        return self._ports.requests.starting_point_after(metadata.checkpoint_id, number)

    def store_metadata(self, effect: StoreMetadata) -> None:
        """Make publishing an action of its own."""
        checkpoint_id = effect.metadata.checkpoint_id
        fault = self._faults.io_fault_at(METADATA_WRITTEN, COORDINATOR, checkpoint_id)
        self._agenda.add(_METADATA, f"metadata {checkpoint_id}", self._publish, (effect.metadata, fault))

    def _publish(self, argument: tuple[Any, Fault | None]) -> None:
        metadata, fault = argument
        if fault is None:
            self._put_metadata(metadata, 0)
            return
        path = f"{metadata_path(metadata.checkpoint_id, metadata.kind)}.tmp"
        failed = MetadataFailed(metadata.checkpoint_id, WRITE_REFUSED)
        write = Write(
            store=partial(self._put_metadata, metadata),
            tear=lambda: self._ports.storage.tear(path, published_form(metadata)),
            refuse=partial(self._metadata_refused, failed),
            put_late=partial(self._metadata_put_late, metadata),
            store_in_vain=partial(self._metadata_refused, failed),
        )
        WRITE_METHODS[fault.kind](write, fault)

    def _metadata_put_late(self, metadata: CheckpointMetadata, delay: int) -> None:
        if put_late(self._ports.storage, delay, partial(self._put_metadata, metadata, 0)):
            due = self._clock.now + given_up_after(delay)
            label = f"no answer {metadata.checkpoint_id}"
            self._agenda.add_later(due, _METADATA, label, self._metadata_given_up, metadata)

    def _metadata_given_up(self, metadata: CheckpointMetadata) -> None:
        if not self.is_headless:
            with put_is_given_up(self._ports.storage):
                self._put_metadata(metadata, 0)

    def _metadata_refused(self, failed: MetadataFailed) -> None:
        if not self.is_headless:
            self._recorder.write_refused(COORDINATOR, failed.checkpoint_id)
            self.master_event(failed)

    def _put_metadata(self, metadata: CheckpointMetadata, report_after: int) -> None:
        checkpoint_id = metadata.checkpoint_id
        try:
            self.publish(metadata)
        except Superseded:
            # Only a dead master's write comes so late.
            if not self.is_headless:
                raise
            return
        except OSError as error:
            # The metadata of a dead process's savepoint have landed under the same id.
            self._metadata_refused(MetadataFailed(checkpoint_id, str(error)))
            return
        if report_after:
            due = self._clock.now + report_after
            label = f"metadata {checkpoint_id}"
            self._agenda.add_later(due, _METADATA, label, self.metadata_published, checkpoint_id)
        else:
            self.metadata_published(checkpoint_id)

    def metadata_published(self, checkpoint_id: int) -> None:
        """Tell the job master, unless it has died; a savepoint is remembered for the scenario's user."""
        if self.is_headless:
            return
        pending = self.master.coordinator.pending[checkpoint_id]
        if pending.number and pending.published is not None:
            self._savepoints[checkpoint_id] = pending.published
        super().metadata_published(checkpoint_id)

    # Timers and the end.

    def start_timer(self, effect: StartTimer | StartRestartTimer) -> None:
        """Make the timer an action once it is due."""
        kind = type(effect.event)
        what = WAITS.get(kind)
        if what is not None:
            self._recorder.wait_begun(what, effect.due_ms - self._clock.now)
        label = f"timer {kind.__name__}"
        self._agenda.add_later(effect.due_ms, _TIMER, label, self.master_event, effect.event)

    def start_task_timer(self, effect: StartTaskTimer) -> None:
        """Make the task's timer an action once it is due."""
        task = self.current_task
        assert task is not None
        due_ms = effect.due_ms
        self._watch.timer_started(task, due_ms)
        argument = (task, TimerDue(due_ms))
        self._agenda.add_later(due_ms, _TIMER, f"timer {task.name}", self._task_timer_due, argument)

    def _task_timer_due(self, argument: tuple[Task, TimerDue]) -> None:
        task, event = argument
        if self.tasks.get(task.id) is task:
            self._watch.timer_due(task, event.due_ms)
            self.task_event(task, event)

    def checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        """Record the checkpoint, and the request that it was triggered for."""
        self._recorder.checkpoint_triggered(effect.checkpoint_id)
        if effect.number:
            self._numbers[effect.checkpoint_id] = effect.number

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Record the checkpoint."""
        latest = self.master.coordinator.store.latest
        assert latest is not None
        self._recorder.checkpoint_completed(latest)

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Record the reason."""
        self._recorder.checkpoint_aborted(effect.checkpoint_id, effect.reason)

    def request_resolved(self, effect: RequestResolved) -> None:
        """Hand the outcome of a request to the scenario's user."""
        published = None if effect.checkpoint_id is None else self._savepoints.get(effect.checkpoint_id)
        self._ports.requests.resolved(effect, published)

    def job_finished(self, effect: JobFinished) -> None:
        """Delete the checkpoints, once the writes under way have landed, and end the run or start again."""
        if not effect.stopped:
            store, retained = self.master.coordinator.store, self._ports.scenario.retained
            report_orphan_files(self._recorder, self._ports.storage, self._agenda, store.retained, retained)
        self._end_writes()
        self.forget_checkpoints(JobOutcome.FINISHED)
        if effect.stopped:
            self._ports.run.job_stopped()
        else:
            self._ports.run.job_finished()

    def job_canceled(self, effect: JobCanceled) -> None:
        """Let the writes under way land, before the checkpoints are deleted."""
        self._end_writes()

    def _end_writes(self) -> None:
        for action in self._agenda.writes_under_way():
            self.land(action)
        self._recorder.look_for_deleted_files()

    def forget_checkpoints(self, outcome: JobOutcome) -> None:
        """Delete the checkpoints; a job that was cancelled is then started again from its savepoint."""
        try:
            super().forget_checkpoints(outcome)
        finally:
            if outcome is JobOutcome.CANCELED:
                self._ports.run.job_stopped(is_cancelled=True)

    def job_failed(self, effect: JobFailed) -> None:
        """End the run."""
        self._ports.run.job_failed(effect.cause)
