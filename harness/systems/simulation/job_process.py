"""One simulated process of the job: the engine's execution with the world's network, storage and clock.

It dies as a whole and is made anew by the world; what it must not lose is in the world's storage and external
system. Its tasks can die one by one. Everything that takes time in a real process is an action here, which
the schedule performs when it likes: messages, writes, restores, timers.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
from onceproof.engine.checkpoint.retention import JobOutcome
from onceproof.engine.checkpoint.snapshot_files import store_encoded
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.events import Deploy, JobFailed, JobFinished, MasterEvent, StartRestartTimer
from onceproof.engine.messages import (
    AcknowledgeCheckpoint,
    NotifyCheckpointComplete,
    Send,
    TaskFailed,
    TaskFinished,
    TaskId,
    TaskRunning,
    TriggerCheckpoint,
)
from onceproof.engine.protocol_points import (
    ACKNOWLEDGED,
    COORDINATOR,
    METADATA_WRITTEN,
    NOTIFIED,
    SNAPSHOTTED,
    TRIGGERED,
)
from onceproof.engine.runtime.execution import Execution
from onceproof.engine.runtime.recovery import Recovered, Superseded, files_of, metadata_path
from onceproof.engine.runtime.restore_point import published_form
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.engine.state.snapshot import encode_task_snapshot
from onceproof.engine.state.stored import SHARED
from onceproof.engine.task.events import (
    Restore,
    SnapshotFailed,
    SnapshotStored,
    StartTaskTimer,
    StoreSnapshot,
    TimerDue,
)
from onceproof.engine.task.task import Task
from onceproof.harness.model.history import CHECKPOINT_ABORTED
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.simulation.actions import CLASS_INDEX, Action, Slot, slots_of

if TYPE_CHECKING:
    from onceproof.harness.systems.simulation.world import World

_TRIGGER = CLASS_INDEX["message_trigger"]
_ACKNOWLEDGE = CLASS_INDEX["message_acknowledge"]
_NOTIFY = CLASS_INDEX["message_notify"]
_CONTROL = CLASS_INDEX["message_control"]
_STORE = CLASS_INDEX["store"]
_METADATA = CLASS_INDEX["metadata"]
_RESTORE = CLASS_INDEX["restore"]
_TIMER = CLASS_INDEX["timer"]

_TRAVEL: dict[Any, tuple[int, str, str]] = {
    TriggerCheckpoint: (_TRIGGER, "trigger", TRIGGERED),
    AcknowledgeCheckpoint: (_ACKNOWLEDGE, "acknowledge", ACKNOWLEDGED),
    NotifyCheckpointComplete: (_NOTIFY, "notify", NOTIFIED),
}
"""Class, label and point of the messages that faults know."""
_NAMES: dict[Any, str] = {kind: kind.__name__ for kind in (TaskRunning, TaskFinished, TaskFailed)}
"""Of the messages that belong to no checkpoint."""

REFUSALS = ("fail_write", "tear_write")
WRITE_REFUSED = "the storage refused the write"


class SimulatedProcess(Execution):
    """The job master and the tasks of one simulated process."""

    checks_machines = True

    def __init__(self, world: World, graph: JobGraph, recovered: Recovered) -> None:
        super().__init__(
            graph,
            world.storage,
            recovered,
            world.probe,
            buffer_records=1,
            watches_elements=world.watches_elements,
        )
        self.world = world
        self._clock = world.clock
        self._deliver = world.deliver
        self._keyed_parallelism = world.keyed_parallelism
        self._names: dict[TaskId, str] = {}
        self._slots: dict[TaskId, list[Slot]] = {}
        self._numbers: dict[int, int] = {}
        """By checkpoint id, the number of the request that it was triggered for."""
        self._savepoints: dict[int, CheckpointMetadata] = {}
        self.is_headless = False
        """Whether its job master has died."""
        self._restored = 0
        """How many tasks of the attempt were restored; those that died since have left ``tasks``."""

    def now(self) -> int:
        """The world's clock."""
        return self._clock.now

    # Tasks.

    def job_graph(self) -> JobGraph:
        """The graph at the parallelism that the last rescale asked for."""
        graph = self.graph
        if self._keyed_parallelism != self.world.keyed_parallelism:
            graph = self.world.build_graph()
            self._keyed_parallelism = self.world.keyed_parallelism
        return graph

    def attempt_started(self, effect: Deploy) -> None:
        """Enter it into the history."""
        self._slots.clear()
        self._restored = 0
        self.world.renew_slots()
        self.world.account.attempt_started(effect, self.world.keyed_parallelism)

    def start_restoring(self, task: Task, event: Restore) -> None:
        """Restoring is an action of its own, so that a crash can come between two tasks' restores."""
        world, name, task_id = self.world, task.name, task.id
        self._names[task_id] = name
        self._slots[task_id] = slots_of(task, world.scenario.channel_capacity)
        action = Action(_RESTORE, f"restore {name}", self._restore, (task, event), self._clock.step)
        world.pending.append(action)

    def slots(self) -> list[Slot]:
        """The inputs of the tasks that live, in topological order."""
        return [slot for task_id in self.tasks for slot in self._slots[task_id]]

    def _restore(self, argument: tuple[Task, Restore]) -> None:
        task, event = argument
        tasks = self.tasks
        if tasks.get(task.id) is task:
            self.task_event(task, event)
            self._restored += 1
            if self._restored == len(self._slots) == len(tasks) and self.world.account.is_down:
                self.world.account.job_runs()

    def master_event(self, event: MasterEvent) -> None:
        """Hand an event to the job master, unless the job master has died."""
        if not self.is_headless:
            super().master_event(event)

    def cancel(self, task: Task) -> None:
        """End a task, and take its inputs out of the schedule."""
        self.world.renew_slots()
        super().cancel(task)

    def task_killed(self, task: Task, cause: str) -> None:
        """Enter the death into the history, and take the task's inputs out of the schedule."""
        self.world.renew_slots()
        self.world.account.task_failed(task, cause, injected=True)

    def kill_all(self) -> None:
        """All tasks are gone; the job master lives."""
        for task in list(self.tasks.values()):
            self.kill(task)

    def task_died(self, task: Task, error: BaseException) -> None:
        """A task raised: because a fault made a call of it fail, or because it has an error."""
        self.world.renew_slots()
        self.world.task_raised(task, error)
        self.send(Send(self.failure_message(task, error)))

    # Messages.

    def send(self, effect: Send) -> None:
        """Put a message on the network, unless a fault has other plans."""
        message: Any = effect.message
        kind = type(message)
        name = self._names[message.task]
        world = self.world
        travel = _TRAVEL.get(kind)
        if travel is None:
            told = _NAMES.get(kind)
            if told is None:
                # The checkpoint, too: a label that names two actions cannot be replayed.
                told = f"{kind.__name__} {message.checkpoint_id}"
            action = Action(_CONTROL, f"{told} {name}", self._deliver, message, self._clock.step)
            world.pending.append(action)
            return
        class_index, verb, point = travel
        checkpoint_id = message.checkpoint_id
        label = f"{verb} {name} {checkpoint_id}"
        if point not in world.other_faults:
            world.pending.append(Action(class_index, label, self._deliver, message, self._clock.step))
            return
        fault = world.fault_at(point, name, checkpoint_id)
        if fault is None or fault.kind == "duplicate_message":
            world.add(class_index, label, self._deliver, message)
        if fault is None:
            return
        if fault.kind in ("duplicate_message", "delay_message"):
            world.add_later(world.clock.now + fault.delay, class_index, label, self._deliver, message)
        else:
            world.lost(class_index, label, message)

    # Storage.

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Note what the snapshot covers."""
        self.world.account.snapshot_taken(task, effect)

    def store_snapshot(self, effect: StoreSnapshot) -> None:
        """The upload is an action of its own."""
        task = self.current_task
        assert task is not None
        world, name, checkpoint_id = self.world, task.name, effect.checkpoint_id
        label = f"store {name} {checkpoint_id}"
        fault = None
        if SNAPSHOTTED in world.other_faults:
            fault = world.fault_at(SNAPSHOTTED, name, checkpoint_id)
        action = Action(_STORE, label, self._store, (task, effect, fault), self._clock.step)
        world.pending.append(action)

    def _store(self, argument: tuple[Task, StoreSnapshot, Fault | None]) -> None:
        task, effect, fault = argument
        encoded = encode_task_snapshot(effect.snapshot, effect.canonical)
        path = effect.path
        if fault is not None and fault.kind in REFUSALS:
            if fault.kind == "tear_write":
                self.world.storage.tear(path, encoded.data)
            self._stored((task, (path,), SnapshotFailed(effect.checkpoint_id, WRITE_REFUSED)))
            return
        handle = store_encoded(self.world.storage, path, encoded)
        paths = handle.paths if handle.files else (path,)
        report = (task, paths, SnapshotStored(effect.checkpoint_id, handle))
        if fault is None:
            self._stored(report)
        else:
            label = f"store {task.name} {effect.checkpoint_id}"
            self.world.add_later(self.world.clock.now + fault.delay, _STORE, label, self._stored, report)

    def _stored(self, report: tuple[Task, Sequence[str], SnapshotStored | SnapshotFailed]) -> None:
        task, paths, event = report
        tasks, task_id = self.tasks, task.id
        if tasks.get(task_id) is task:
            self.task_event(task, event)
        # Gone before it was told or by being told: nobody will ever refer to what was stored.
        if tasks.get(task_id) is not task:
            for path in paths:
                self.world.storage.delete(path)

    def lands_late(self, action: Action) -> bool:
        """Whether a write of metadata is held up for so long that another master may have begun."""
        return action.perform == self._publish and bool(zlib.crc32(action.label.encode()) & 2)

    def land(self, action: Action) -> None:
        """The process has died with a write under way, which reached the storage nevertheless."""
        if action.perform == self._store:
            _, effect, fault = action.argument
            if fault is None or fault.kind == "late_write":
                encoded = encode_task_snapshot(effect.snapshot, effect.canonical)
                store_encoded(self.world.storage, effect.path, encoded)
        elif action.perform == self._publish:
            metadata, fault = action.argument
            if fault is None or fault.kind == "late_write":
                self.publish(metadata)

    def next_starting_point(self, metadata: CheckpointMetadata) -> StartingPoint | None:
        """Return the savepoint that the scenario's user has stopped the job with, if it is this one."""
        number = self._numbers.get(metadata.checkpoint_id, 0)
        return self.world.operations.goes_on_from(metadata.checkpoint_id, number)

    def store_metadata(self, effect: StoreMetadata) -> None:
        """Publishing is an action of its own."""
        world = self.world
        checkpoint_id = effect.metadata.checkpoint_id
        fault = world.fault_at(METADATA_WRITTEN, COORDINATOR, checkpoint_id)
        world.add(_METADATA, f"metadata {checkpoint_id}", self._publish, (effect.metadata, fault))

    def _publish(self, argument: tuple[Any, Fault | None]) -> None:
        metadata, fault = argument
        world = self.world
        kind = None if fault is None else fault.kind
        if kind == "fail_write" or kind == "tear_write":
            if kind == "tear_write":
                path = metadata_path(metadata.checkpoint_id, metadata.kind)
                world.storage.tear(path + ".tmp", published_form(metadata))
            self.master_event(MetadataFailed(metadata.checkpoint_id, WRITE_REFUSED))
            return
        try:
            self.publish(metadata)
        except Superseded:
            # Only a dead master's write comes so late.
            if not self.is_headless:
                raise
            return
        if fault is None:
            self.metadata_published(metadata.checkpoint_id)
        else:
            label = f"metadata {metadata.checkpoint_id}"
            due = world.clock.now + fault.delay
            world.add_later(due, _METADATA, label, self.metadata_published, metadata.checkpoint_id)

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
        """A timer is an action once it is due."""
        label = f"timer {type(effect.event).__name__}"
        self.world.add_later(effect.due_ms, _TIMER, label, self.master_event, effect.event)

    def start_task_timer(self, effect: StartTaskTimer) -> None:
        """A task's timer is an action once it is due, too."""
        task = self.current_task
        assert task is not None
        due_ms = effect.due_ms
        argument = (task, TimerDue(due_ms))
        self.world.add_later(due_ms, _TIMER, f"timer {task.name}", self._task_timer_due, argument)

    def _task_timer_due(self, argument: tuple[Task, TimerDue]) -> None:
        task, event = argument
        if self.tasks.get(task.id) is task:
            self.task_event(task, event)

    def checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        """Enter it into the history."""
        self.world.history.checkpoint_triggered(self._clock.step, effect.checkpoint_id)
        if effect.number:
            self._numbers[effect.checkpoint_id] = effect.number

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Enter it into the history."""
        latest = self.master.coordinator.store.latest
        assert latest is not None
        self.world.account.checkpoint_completed(latest)

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Enter it into the history."""
        self.world.history.checkpoint_aborted(self._clock.step, effect.checkpoint_id, effect.reason)

    def request_resolved(self, effect: RequestResolved) -> None:
        """Whoever asked for a savepoint is told."""
        published = None if effect.checkpoint_id is None else self._savepoints.get(effect.checkpoint_id)
        self.world.operations.resolved(effect, published)

    def job_finished(self, effect: JobFinished) -> None:
        """All output is committed: once no write is under way any more, the checkpoints are deleted."""
        if not effect.stopped:
            self._look_for_orphans()
        for action in self.world.writes_under_way():
            self.land(action)
        self.forget_checkpoints(JobOutcome.FINISHED)
        if effect.stopped:
            self.world.job_stopped()
        else:
            self.world.job_finished()

    def _look_for_orphans(self) -> None:
        """What the job needs no longer, it has deleted while it ran; the sweep at its end would hide it.

        It cannot know of a file that a lost acknowledgement told of, nor of half a file that a failed write
        left, nor of what is still under way.
        """
        world = self.world
        if world.is_under_way((_STORE, _METADATA, _ACKNOWLEDGE)):
            return
        unknown = {
            ("lose_message", ACKNOWLEDGED),
            ("tear_write", SNAPSHOTTED),
            ("tear_write", METADATA_WRITTEN),
        }
        if not unknown.isdisjoint(world.history.statistics.coverage):
            return
        needed: set[str] = set()
        # As many as the scenario says, whatever the store has kept.
        for metadata in self.master.coordinator.store.retained[-world.scenario.retained :]:
            needed.add(metadata_path(metadata.checkpoint_id))
            needed |= files_of(metadata)
        paths = self.storage.list("chk-")
        shared = self.storage.list(SHARED)
        if shared:
            oldest = self.master.coordinator.store.retained[0].checkpoint_id
            aborted = [number for _, kind, number, _ in world.history.events if kind == CHECKPOINT_ABORTED]
            if max(aborted, default=0) < oldest:
                # What later ones that were aborted have shared goes with the next one that is complete.
                paths += shared
        for path in paths:
            if path not in needed:
                world.history.leak(self._clock.step, "orphan file", path)

    def job_failed(self, effect: JobFailed) -> None:
        """The job is over."""
        self.world.job_failed(effect.cause)
