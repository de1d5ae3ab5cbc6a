"""A task whose barriers may overtake records (Flink: the unaligned path of SubtaskCheckpointCoordinator).

Rules:

- The snapshot is taken at the first barrier and held until the last one, because records that arrive between
  them belong to it. Only then it is stored and acknowledged.
- A barrier that overtakes goes ahead of all records in the queues of the outputs; this task stores the
  records that it overtook there. It never goes ahead of what was ahead of all records before it.
- An edge whose records must stay on their side of the barrier carries it behind them; so do all edges into
  the same vertex. The tasks behind that vertex go on unaligned.
- Savepoints are aligned. Where the coordinator triggers a task with records of finished upstreams in its
  queues, an aligned barrier takes its place behind them.
- Each record in flight is stored exactly once (Flink: ChannelStateWriter): by the sender, where the barrier
  overtook it in the queue; by the reader, where it read the record behind its own snapshot and ahead of the
  channel's barrier, or let an announced barrier overtake it, which the sender had queued behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from onceproof.engine.configuration.alignment import AlignmentKind
from onceproof.engine.elements import BarrierAnnouncement, Buffer, CheckpointBarrier, Element
from onceproof.engine.graph import JobVertex
from onceproof.engine.messages import NotifyCheckpointAborted, TaskId
from onceproof.engine.operators.base import Operator
from onceproof.engine.protocol_points import ALIGNED
from onceproof.engine.state.in_flight import ChannelId, detached
from onceproof.engine.state.snapshot import OperatorSnapshot, TaskSnapshot
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    AbortNotified,
    AlignmentTimeOut,
    BarrierAnnounced,
    BarrierArrived,
    BarrierEffect,
    InFlightComplete,
    StartAlignmentTimer,
    StartCheckpoint,
    TakeInFlight,
)
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.task.events import Deliver, HoldSnapshot, StoreSnapshot, TaskEffect, TaskEvent, TimerDue
from onceproof.engine.task.outputs import Queue, ahead_of_all, behind_data
from onceproof.engine.task.task import ALIVE, NOTHING, RUNNING, TaskSettings
from onceproof.engine.task.timed_task import TimedTask


class InFlightRecorder:
    """The records in flight of one task and one checkpoint; ``inputs`` are the names of its channels."""

    __slots__ = ("_expected", "_inputs", "_records", "checkpoint_id")

    def __init__(self, checkpoint_id: int, inputs: tuple[ChannelId, ...]) -> None:
        self.checkpoint_id = checkpoint_id
        self._inputs = inputs
        self._expected: set[int] = set()
        """The channels whose barrier is still to come."""
        self._records: dict[ChannelId, list[Buffer]] = {}

    def expect(self, channels: Iterable[int]) -> None:
        """Treat records read on these channels as in flight until their barrier comes."""
        self._expected.update(channels)

    def reading(self, channel: int, element: Element) -> None:
        """Note that the task is about to read ``element``."""
        if channel not in self._expected:
            return
        if type(element) is list:
            self._add(self._inputs[channel], [element])
        elif type(element) is CheckpointBarrier and element.checkpoint_id == self.checkpoint_id:
            self._expected.discard(channel)

    def overtake(self, channel: int, queue: Queue) -> None:
        """Let the barrier in ``queue`` overtake, if there is one; what is ahead of it is in flight."""
        overtaken: list[Element] = []
        barrier: CheckpointBarrier | None = None
        while queue and barrier is None:
            element = queue.popleft()
            if type(element) is CheckpointBarrier and element.checkpoint_id == self.checkpoint_id:
                barrier = element
            else:
                overtaken.append(element)
        queue.extendleft(reversed(overtaken))
        if barrier is not None:
            ahead_of_all(queue, barrier.overtaking())
        self._add(self._inputs[channel], buffers_of(overtaken))

    def sent(self, channel: ChannelId, buffers: list[Buffer]) -> None:
        """Record the buffers that the barrier overtook on an output."""
        self._add(channel, buffers)

    def records(self) -> dict[ChannelId, list[Buffer]]:
        """Return all records in flight, by channel."""
        return self._records

    def _add(self, channel: ChannelId, buffers: list[Buffer]) -> None:
        if buffers:
            self._records.setdefault(channel, []).extend([detached(buffer) for buffer in buffers])


def buffers_of(elements: Iterable[Element]) -> list[Buffer]:
    """Return the buffers among the elements of a channel."""
    return [element for element in elements if type(element) is list]


class UnalignedTask(TimedTask):
    """A task of a job with unaligned checkpoints."""

    __slots__ = ("_alignment_due", "_handler", "_held", "_holds", "_inputs", "_outputs", "_recorder")

    def __init__(
        self,
        task_id: TaskId,
        vertex: JobVertex,
        settings: TaskSettings,
        queue_input: Sequence[int],
        operators: Sequence[Operator],
    ) -> None:
        super().__init__(task_id, vertex, settings, queue_input, operators)
        assert isinstance(self.barriers, UnalignedBarrierHandler)
        self._handler: UnalignedBarrierHandler = self.barriers
        self._inputs: tuple[ChannelId, ...] = ()
        self._outputs: tuple[tuple[ChannelId, ...] | None, ...] = ()
        self._recorder: InFlightRecorder | None = None
        self._holds = False
        """Whether the snapshot being taken waits for records in flight."""
        self._held: StoreSnapshot | None = None
        self._alignment_due: tuple[int, int] | None = None
        """When the current alignment times out (by the driver's clock, in ms), and its checkpoint."""

    def name_channels(
        self, inputs: tuple[ChannelId, ...], outputs: tuple[tuple[ChannelId, ...] | None, ...]
    ) -> None:
        """Set the names under which records in flight are stored: by input channel, and by output and queue.

        An output without names is one on which no barrier may overtake.
        """
        self._inputs = inputs
        self._outputs = outputs

    def handle(self, event: TaskEvent, now: int) -> Sequence[TaskEffect]:
        """Handle the event; while a checkpoint collects records in flight, record what is read."""
        recorder = self._recorder
        if recorder is not None and type(event) is Deliver:
            recorder.reading(event.channel, self.queues[event.channel][0])
        return TimedTask.handle(self, event, now)

    # Barriers.

    def _control(self, channel: int, element: object) -> Sequence[TaskEffect]:
        if type(element) is BarrierAnnouncement:
            announced = BarrierAnnounced(channel, element.barrier)
            return self._barrier_effects(self._handler.handle(announced, self._context.now))
        return super()._control(channel, element)

    def _take_trigger(self, barrier: CheckpointBarrier) -> Sequence[BarrierEffect]:
        """Trigger the handler; an aligned barrier first waits behind queued records and the end of the data.

        An unaligned barrier may have overtaken them, and their senders have finished since.
        """
        handler, now = self._handler, self._context.now
        open_channels = [channel for channel, ended in enumerate(handler.ended) if not ended]
        waiting = self._channels_with_data()
        if not waiting or barrier.options.alignment is AlignmentKind.UNALIGNED:
            return handler.trigger(barrier, now)
        decisions: list[BarrierEffect] = []
        for channel in waiting:
            behind_data(self.queues[channel], barrier)
        for channel in open_channels:
            event = BarrierAnnounced if channel in waiting else BarrierArrived
            if channel not in waiting or barrier.options.is_timeoutable:
                decisions += handler.handle(event(channel, barrier), now)
        return decisions

    def _barrier_effects(self, decisions: Sequence[BarrierEffect]) -> Sequence[TaskEffect]:
        effects: list[TaskEffect] = []
        for decision in decisions:
            if isinstance(decision, StartCheckpoint):
                self._context.pass_point(ALIGNED, decision.barrier.checkpoint_id)
                self.start_checkpoint(decision.barrier, effects)
            elif isinstance(decision, AbortCheckpoint):
                self._let_go(decision.checkpoint_id)
                self._decline(decision.checkpoint_id, decision.reason, effects)
            elif isinstance(decision, TakeInFlight):
                recorder = self._recorder_of(decision.checkpoint_id)
                for channel in decision.channels:
                    recorder.overtake(channel, self.queues[channel])
            elif isinstance(decision, InFlightComplete):
                self._in_flight_complete(decision.checkpoint_id, effects)
            else:
                assert isinstance(decision, StartAlignmentTimer)
                self._alignment_due = (decision.due_ms, decision.checkpoint_id)
                self._context.wake_at_steady(decision.due_ms)
        return effects

    def _timer_due(self, event: TimerDue) -> Sequence[TaskEffect]:
        effects: Sequence[TaskEffect] = NOTHING
        if self._alignment_due is not None:
            due_ms, checkpoint_id = self._alignment_due
            if due_ms > self._context.now:
                self._context.wake_at_steady(due_ms)
            else:
                self._alignment_due = None
                timeout = AlignmentTimeOut(checkpoint_id)
                effects = self._barrier_effects(self._handler.handle(timeout, self._context.now))
        return [*effects, *super()._timer_due(event)]

    # The snapshot, and what is in flight.

    def _recorder_of(self, checkpoint_id: int) -> InFlightRecorder:
        recorder = self._recorder
        if recorder is None or recorder.checkpoint_id != checkpoint_id:
            recorder = self._recorder = InFlightRecorder(checkpoint_id, self._inputs)
        return recorder

    def start_checkpoint(self, barrier: CheckpointBarrier, effects: list[TaskEffect]) -> None:
        """Take the snapshot, and let the barrier overtake what it may."""
        recorder = self._recorder_of(barrier.checkpoint_id)
        self._held = None
        self._holds = barrier.options.alignment is AlignmentKind.UNALIGNED
        if self._handler.pending:
            recorder.expect(self._handler.undelivered)
        self.take_checkpoint(barrier, effects)
        if self._held is None:
            self._recorder = None

    def _send_barrier(self, barrier: CheckpointBarrier) -> None:
        recorder = self._recorder_of(barrier.checkpoint_id)
        onward = replace(barrier, options=barrier.options.behind_such_an_edge())
        held_back = replace(barrier, options=onward.options.on_edge_without_unaligned_support())
        for output, names in zip(self.outputs, self._outputs, strict=True):
            if names is None:
                output.broadcast(held_back)
            elif onward.options.alignment is AlignmentKind.UNALIGNED:
                for name, overtaken in zip(names, output.overtake(onward), strict=True):
                    recorder.sent(name, overtaken)
            elif onward.options.is_timeoutable:
                output.send_announced(onward)
            else:
                output.broadcast(onward)

    def _upload(
        self,
        barrier: CheckpointBarrier,
        snapshots: dict[str, OperatorSnapshot],
        effects: list[TaskEffect],
    ) -> None:
        """Store the snapshot; one that waits for records in flight is held, and reported by HoldSnapshot."""
        recorder = self._recorder_of(barrier.checkpoint_id)
        store = self._store_effect(barrier, snapshots)
        if self._holds:
            self._held = store
            effects.append(HoldSnapshot(store))
        else:
            self._store(store, recorder, effects)

    def _in_flight_complete(self, checkpoint_id: int, effects: list[TaskEffect]) -> None:
        held, recorder = self._held, self._recorder
        self._held = self._recorder = None
        if held is not None and recorder is not None and checkpoint_id in self._in_flight:
            if self._timer is not None:
                self._timer.in_flight_complete(checkpoint_id, self._context.live_steady_ms())
            self._store(held, recorder, effects)

    def _store(self, store: StoreSnapshot, recorder: InFlightRecorder, effects: list[TaskEffect]) -> None:
        records = recorder.records()
        operators = store.snapshot.operators
        if records:
            snapshot = TaskSnapshot(operators, records, self.settings.allow_pickle)
            effects.append(replace(store, snapshot=snapshot))
        elif operators:
            effects.append(store)
        else:
            effects.append(self.acknowledge(store.checkpoint_id, None))

    def _let_go(self, checkpoint_id: int) -> None:
        """Collect nothing more for an aborted checkpoint."""
        if self._recorder is not None and self._recorder.checkpoint_id <= checkpoint_id:
            self._recorder = self._held = None

    def checkpoint_aborted(self, message: NotifyCheckpointAborted) -> Sequence[TaskEffect]:
        """Stop collecting records for the checkpoint."""
        effects: list[TaskEffect] = []
        if message.attempt == self.attempt and self.state in ALIVE:
            notified = AbortNotified(message.checkpoint_id)
            effects += self._barrier_effects(self._handler.handle(notified, self._context.now))
        return [*effects, *super().checkpoint_aborted(message)]

    def finish(self) -> Sequence[TaskEffect]:
        """Finish; records in flight are collected no longer."""
        self._recorder = self._held = None
        return super().finish()

    def validate(self) -> None:
        """Check the task, and that a held snapshot waits for barriers of its own checkpoint."""
        TimedTask.validate(self)
        if self._held is not None and self.state is RUNNING:
            assert self._handler.pending, f"{self.name} holds a snapshot though no barrier is awaited"
            assert self._held.checkpoint_id == self._handler.latest_checkpoint_id, (
                f"{self.name} holds a snapshot of checkpoint {self._held.checkpoint_id} though barriers of"
                f" {self._handler.latest_checkpoint_id} are awaited"
            )
