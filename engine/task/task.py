"""One subtask as a machine: a chain of operators between input channels and outputs (Flink: StreamTask).

Rules:

- A snapshot is taken in Flink's order: records that operators emit before the barrier, the barrier on all
  outputs, the synchronous snapshots from the tail to the head, then the upload as an effect. The task
  acknowledges only after the driver reports the upload durable (SnapshotStored).
- Notifications may be lost or late: ids at or below the last one notified are ignored. An abort notice for a
  checkpoint not yet begun makes the task answer its barrier with a cancellation marker.
- After the end of its data a task still answers barriers. It finishes when a checkpoint that it took after
  that end is complete, because only then are its last records committed.
- A job without checkpoints commits in each task at the end of all its inputs, or with the savepoint that ends
  the job.
- A synchronous savepoint ends the job: a task that has taken it reads nothing more, fires no timer, and
  closes when the savepoint is complete. A job that drains has ended its data before.
- A snapshot that becomes durable after its checkpoint was aborted is discarded: no metadata will list it.
- A finished task drops what still arrives (barriers of checkpoints that it missed), also if it was aligning
  one: left in its queues, it would stop the upstream tasks that live on.
- The end of the data is the end of event time: each operator gets the last watermark, then `finish`.
- Messages of another attempt are dropped.
- A snapshot is stored under a name of the subtask and the attempt, so a late write of a dead attempt
  replaces nothing. Savepoints are written in the canonical form, which every backend reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final

from msgspec import Struct, field

from onceproof.engine.configuration.alignment import ALIGNED as ALIGNED_OPTIONS
from onceproof.engine.configuration.alignment import CheckpointOptions
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.configuration.options import FAIL
from onceproof.engine.elements import (
    END_OF_DATA,
    END_OF_PARTITION,
    MAX_WATERMARK,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    Record,
)
from onceproof.engine.graph import JobVertex
from onceproof.engine.key_groups import key_group_range
from onceproof.engine.messages import (
    CHECKPOINT,
    DECLINED_SUBSUMED,
    SYNC_SAVEPOINT,
    AcknowledgeCheckpoint,
    AttemptId,
    CheckpointMeasures,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    Send,
    TaskFinished,
    TaskId,
    TaskRunning,
    TriggerCheckpoint,
    checkpoint_folder,
)
from onceproof.engine.metrics import MetricRegistry
from onceproof.engine.operators.async_requests import MakeRequests, no_requests
from onceproof.engine.operators.base import (
    NO_SIDE_OUTPUTS,
    Emit,
    Operator,
    OperatorContext,
    ProcessBatch,
    close_all,
)
from onceproof.engine.operators.declared_output import DeclaredOutput, declared_output
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.owned import ValueWatch
from onceproof.engine.protocol_points import (
    ACKNOWLEDGED,
    ALIGNED,
    BARRIER_RECEIVED,
    ELEMENT,
    NOTIFIED,
    RESTORED,
    RESTORING,
    SNAPSHOTTED,
    UPLOADED,
    Probe,
)
from onceproof.engine.protocol_points import END_OF_DATA as END_OF_DATA_POINT
from onceproof.engine.state.rocksdb.databases import Databases
from onceproof.engine.state.snapshot import OperatorSnapshot, TaskSnapshot
from onceproof.engine.task.barriers.choice import barrier_handler
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    BarrierArrived,
    BarrierEffect,
    CancellationArrived,
    ChannelEnded,
    StartCheckpoint,
)
from onceproof.engine.task.chain_tail import ChainTail
from onceproof.engine.task.event_context import EventContext
from onceproof.engine.task.events import (
    Cancel,
    Deliver,
    DiscardSnapshot,
    Poll,
    Restore,
    RestoredOperator,
    SnapshotFailed,
    SnapshotStored,
    StoreSnapshot,
    TaskEffect,
    TaskEvent,
    TimerDue,
    WallClockAdvanced,
    WokenUp,
)
from onceproof.engine.task.input_time import InputTime, TaskTime
from onceproof.engine.task.outputs import (
    DATA,
    Output,
    Queue,
    behind_data,
    counted,
    each_with_its_own,
    sort_outputs,
)
from onceproof.engine.task.task_counters import CheckpointTimer, TaskCounters
from onceproof.engine.task.task_watch import TaskWatch
from onceproof.engine.types.fitting import settled_kind
from onceproof.engine.wall_clock import WallClock
from onceproof.engine.watermarks.valve import WatermarkValve


def no_wake_up(task: TaskId) -> None:
    """Do nothing: the driver polls by itself."""


NOTHING: Final[tuple[TaskEffect, ...]] = ()
REMEMBERED_CHECKPOINTS = 16
"""How many aborted checkpoints a task remembers, and how many that it has taken."""

_NOT_RESTORED: Final = RestoredOperator(None, None)


class TaskState(Enum):
    """Where a task is in its life (Flink: ExecutionState, as far as the task itself knows)."""

    CREATED = "created"
    RUNNING = "running"
    ENDED_DATA = "ended data"
    """All input is processed; the task still answers barriers."""
    STOPPED = "stopped"
    """The task has taken the savepoint that ends the job, and reads nothing more until it is complete."""
    FINISHED = "finished"
    CANCELED = "canceled"


# Names of their own: reading a member off its enumeration costs more than a function call.
CREATED, RUNNING, ENDED_DATA, STOPPED, FINISHED, CANCELED = TaskState
ALIVE: Final = (RUNNING, ENDED_DATA, STOPPED)

TRANSITIONS: Final[dict[TaskState, frozenset[TaskState]]] = {
    CREATED: frozenset((RUNNING, CANCELED)),
    RUNNING: frozenset((ENDED_DATA, STOPPED, CANCELED)),
    ENDED_DATA: frozenset((STOPPED, FINISHED, CANCELED)),
    # Stopped again: another task finished before it took the savepoint, which is then asked for again.
    STOPPED: frozenset((STOPPED, FINISHED, CANCELED)),
    # An attempt that ends cancels all of its tasks.
    FINISHED: frozenset((CANCELED,)),
    CANCELED: frozenset((CANCELED,)),
}


class TaskSettings(Struct, frozen=True):
    """What all tasks of an attempt share; the driver decides it once."""

    attempt: AttemptId
    buffer_records: int
    """How many records a source reads at once, at most."""
    probe: Probe
    checkpointing: bool
    allow_pickle: bool = False
    watches_elements: bool = True
    """Whether the probe gets the point ELEMENT, which every buffer passes."""
    settled: bool = False
    """Whether the driver commits what checkpoints list, because tasks do not live that long (Spark)."""
    only_commits: bool = False
    """Whether the job has stopped with the restored savepoint, of which something was not committed."""
    state_backend: StateBackendSettings = StateBackendSettings()
    databases: Databases | None = None
    """Opens databases; None: RocksDB does."""
    options: CheckpointOptions = ALIGNED_OPTIONS
    """How barriers of checkpoints travel; those of savepoints are always aligned."""
    wall_clock: WallClock = field(default_factory=WallClock)
    job_id: str = ""
    wake_up: Callable[[TaskId], None] = no_wake_up
    """Called from any thread when a source has something to read again, or a request has an answer."""
    requests: MakeRequests = no_requests
    """Runs the coroutines of the tasks."""
    scope: str = ""
    """What tells the job's checkpoint folder apart from all others: see `engine/owner_ids.py`."""
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    source_on_change: str = FAIL
    """What sources do when their input is not what it was."""
    metrics: MetricRegistry = field(default_factory=MetricRegistry)
    value_watch: ValueWatch | None = None
    """Finds values that functions modify after they have emitted them; only in trials."""
    watch: TaskWatch | None = None
    """Makes the machines of the tasks, to compare what they answer; only in trials."""
    measures: bool = False
    """Whether acknowledgements say how long the parts of the checkpoint took."""


class Task:
    """A subtask of a vertex.

    ``queues[channel]`` is the queue of an input channel, owned by the task. ``queue_input[channel]`` is the
    input of the chain that the channel leads to: 0, or 1 for the second input.
    """

    __slots__ = (
        "_aborted_ids",
        "_chain",
        "_context",
        "_declared",
        "_emits",
        "_ended_channels",
        "_first_final_checkpoint_id",
        "_in_flight",
        "_input_time",
        "_is_drained",
        "_is_open",
        "_last_notified",
        "_open_inputs",
        "_probe",
        "_processes",
        "_side_emits",
        "_source",
        "_tail_first",
        "_taken_ids",
        "_timer",
        "_watches_elements",
        "attempt",
        "barriers",
        "buffers_taken",
        "counters",
        "id",
        "name",
        "operators",
        "output_queues",
        "outputs",
        "queue_input",
        "queues",
        "read_limit",
        "settings",
        "state",
        "unread",
        "vertex",
    )

    def __init__(
        self,
        task_id: TaskId,
        vertex: JobVertex,
        settings: TaskSettings,
        queue_input: Sequence[int],
        operators: Sequence[Operator],
    ) -> None:
        self.id = task_id
        self.vertex = vertex
        self.name = f"{vertex.name}-{task_id.subtask}"
        self.settings = settings
        self.attempt = settings.attempt
        self.read_limit = settings.buffer_records
        """How many records the source reads at once, at most; the driver may set it."""
        self.operators = operators
        self.queue_input = queue_input
        self.queues: list[Queue] = [deque() for _ in queue_input]
        self.outputs: list[Output] = []
        self.output_queues: list[Queue] = []
        self._open_inputs = len(queue_input)
        watch = settings.watch
        make_barriers = barrier_handler if watch is None else partial(watch.barriers, task_id, vertex)
        self.barriers = make_barriers(settings.options, self._open_inputs)
        self.state = CREATED
        self._is_open = False
        self.buffers_taken = 0
        """How many buffers the task has begun to process in this attempt."""
        self._context = EventContext(self.name, settings.probe, settings.wall_clock)
        self.counters: TaskCounters = self._context.counters
        self._timer = CheckpointTimer() if settings.measures else None
        self._probe = settings.probe
        """Called by a local name: through the task, Python looks among the methods first."""
        self._watches_elements = settings.watches_elements
        self._source: SourceOperator | None = None
        self._chain = operators
        self.unread: list[None] = []
        """Not empty while the source may be polled: the driver keeps this list among the queues to serve."""
        self._tail_first: list[tuple[Operator, str]] = []
        self._processes: list[ProcessBatch] = []
        """Bound once: to look the method up for every buffer costs more than the call."""
        declared: DeclaredOutput | None = None
        for operator, node in zip(operators, vertex.operators, strict=True):
            self._tail_first.append((operator, node.operator_id))
            process = operator.process_batch
            self._processes.append(process if declared is None else declared.before(process))
            declared = declared_output("operator", node.name, node.output_type)
            if declared is not None and operator.applies(declared):
                declared = None
        self._declared = declared
        """The declared type of what the last operator emits."""
        self._tail_first.reverse()
        if isinstance(operators[0], SourceOperator):
            self._source = operators[0]
            self._chain = operators[1:]
            del self._processes[0]
            self.unread.append(None)
        self._emits: list[Emit] = []
        self._side_emits: Mapping[str, Sequence[Emit]] = NO_SIDE_OUTPUTS
        self._ended_channels: list[int] = []
        """The channels that have delivered EndOfData."""
        self._input_time: InputTime | None = None
        self._last_notified = 0
        self._first_final_checkpoint_id: int | None = None
        self._is_drained = False
        self._in_flight: dict[int, bool] = {}
        self._aborted_ids: list[int] = []
        self._taken_ids: list[int] = []
        """The latest checkpoints that the task has taken, in rising order."""

    def connect(self, outputs: Sequence[Output]) -> None:
        """Attach the outputs; the driver calls it once all tasks of the attempt exist."""
        self.outputs = list(outputs)
        for output in outputs:
            self._emits.append(output.emit)
            self.output_queues += output.queues
        for edge in self.vertex.outputs:
            if edge.side_output is not None:
                self._emits, side_emits = sort_outputs(self.vertex.outputs, outputs)
                self._side_emits = {tag: counted(emits, self.counters) for tag, emits in side_emits.items()}
                break
        self._emits = each_with_its_own(self._emits)
        if self._declared is not None and self._emits:
            self._emits = [self._declared.before_outputs(self._emits)]

    @property
    def is_source(self) -> bool:
        """Return whether the task reads from a source instead of channels."""
        return self._source is not None

    @property
    def is_polled(self) -> bool:
        """Return whether the task is polled now, instead of being given input."""
        return self._source is not None

    @property
    def may_hold_input(self) -> bool:
        """Return whether ``takes`` must be asked before the task is given input; only of a TimedTask."""
        return False

    def takes(self, channel: int) -> bool:
        """Return whether the task takes the next element of a channel now."""
        return True

    @property
    def input_time(self) -> InputTime | None:
        """Return event time as it has arrived at the task; None before the first watermark."""
        return self._input_time

    def event_time(self) -> TaskTime | None:
        """Return what the task knows of event time, which can be pickled; None: nothing."""
        operators: dict[str, Any] = {}
        for operator, operator_id in self._tail_first:
            known = operator.event_time()
            if known is not None:
                operators[operator_id] = known
        if self._input_time is None and not operators:
            return None
        return TaskTime(None if self._input_time is None else self._input_time.state(), operators)

    def resume_event_time(self, known: TaskTime) -> None:
        """Go on with the event time of the task that this restored one replaces within the attempt."""
        if known.channels is not None:
            self._input_time = self._new_input_time(())
            self._input_time.resume(known.channels)
        for operator, operator_id in self._tail_first:
            if operator_id in known.operators:
                operator.resume_event_time(known.operators[operator_id])

    @property
    def records_read(self) -> int:
        """Return how many records the source has read in this attempt; 0 for a task without a source."""
        return 0 if self._source is None else self._source.records_read

    @property
    def retry_ms(self) -> int | None:
        """Return after how many milliseconds to poll again; None: at once, or there is no source to poll."""
        source = self._source
        return source.retry_ms if source is not None and source.waits and self.state is RUNNING else None

    def handle(self, event: TaskEvent, now: int) -> Sequence[TaskEffect]:
        """Process one event at ``now`` (milliseconds of the driver's clock) and return its effects.

        Errors of the user's code pass through; the driver then fails the attempt.
        """
        self._context.now = now
        kind = type(event)
        if kind is not Deliver:
            if kind is Poll:
                return self._poll()
            other: Any = event
            # The most frequent first, by identity: an instance check that misses is slow for a Struct.
            if kind is SnapshotStored:
                return self.snapshot_stored(other)
            if kind is NotifyCheckpointComplete:
                return self.checkpoint_completed(other)
            if kind is Restore:
                return self.restore(other)
            if kind is TriggerCheckpoint:
                return self.trigger(other)
            if kind is NotifyCheckpointAborted:
                return self.checkpoint_aborted(other)
            if kind is TimerDue:
                return self._timer_due(other)
            if kind is Cancel:
                return self._cancel(other)
            if kind is SnapshotFailed:
                return self.snapshot_failed(other)
            if kind is WallClockAdvanced or kind is WokenUp:
                return self._time_passed()
            raise TypeError(f"a task handles no {type(event).__name__}")
        channel = event.channel  # type: ignore[union-attr]
        element = self.queues[channel].popleft()
        if self.state is FINISHED:
            return NOTHING
        if type(element) is not list:
            return self._control(channel, element)
        self.buffers_taken += 1
        counters = self.counters
        counters.records_in += len(element)
        if self._watches_elements:
            probe = self._probe
            probe(ELEMENT, self.name, 0)
        input_index = self.queue_input[channel]
        records = element
        for process in self._processes:
            records = process(records, input_index)
            if not records:
                return NOTHING
        counters.records_out += len(records)
        for emit in self._emits:
            emit(records)
        return NOTHING

    def _timer_due(self, event: TimerDue) -> Sequence[TaskEffect]:
        raise AssertionError(f"{self.name} has no timers and asked for none")

    def _time_passed(self) -> Sequence[TaskEffect]:
        """Do what is due in processing time; only a TimedTask has something."""
        return NOTHING

    def _poll(self) -> Sequence[TaskEffect]:
        source = self._source
        assert source is not None
        records = source.poll(self.read_limit)
        if not records:
            return self.end_data() if source.exhausted else NOTHING
        self.buffers_taken += 1
        if self._watches_elements:
            probe = self._probe
            probe(ELEMENT, self.name, 0)
        counters = self.counters
        counters.emitted_timestamp = records[-1][1]
        counters.read_at_ms = self._context.now + self.settings.wall_clock.ahead_ms
        for process in self._processes:
            records = process(records, 0)
            if not records:
                return NOTHING
        counters.records_out += len(records)
        for emit in self._emits:
            emit(records)
        return NOTHING

    def _emit(self, records: list[Record], first_operator: int, input_index: int = 0) -> None:
        """Send records that operator ``first_operator - 1`` emitted through the rest of the chain."""
        for process in self._processes[first_operator:]:
            if not records:
                return
            records = process(records, input_index)
        if records:
            self.counters.records_out += len(records)
            for emit in self._emits:
                emit(records)

    # Control elements.

    def _control(self, channel: int, element: object) -> Sequence[TaskEffect]:
        if type(element) is CheckpointBarrier:
            probe = self._probe
            probe(BARRIER_RECEIVED, self.name, element.checkpoint_id)
            if self._timer is not None:
                self._timer.barrier_came(element.checkpoint_id, self._context.now)
            return self._barrier_effects(
                self.barriers.handle(BarrierArrived(channel, element), self._context.now)
            )
        if type(element) is EndOfData:
            self._ended_channels.append(channel)
            if len(self._ended_channels) == len(self.queues):
                return self.end_data()
            if self._input_time is not None:
                self._input_time.ended(channel)
            return NOTHING
        if type(element) is CancelCheckpointMarker:
            event = CancellationArrived(channel, element.checkpoint_id)
            return self._barrier_effects(self.barriers.handle(event, self._context.now))
        if type(element) is not EndOfPartition:
            if self._input_time is None:
                self._input_time = self._new_input_time(self._ended_channels)
            self._input_time.take(channel, element)  # type: ignore[arg-type]
            return NOTHING
        self._open_inputs -= 1
        effects = self._barrier_effects(self.barriers.handle(ChannelEnded(channel), self._context.now))
        return [*effects, *self._finish_without_checkpoint()]

    def _new_input_time(self, ended_channels: Sequence[int]) -> InputTime:
        watch = self.settings.watch
        make_valve = WatermarkValve if watch is None else partial(watch.valve, self.name)
        return InputTime(self.queue_input, ended_channels, self._behind(0), make_valve)

    def _behind(self, place: int) -> ChainTail:
        """Return the chain from the operator at ``place`` on."""
        chain, processes = self._chain[place:], self._processes[place:]
        return ChainTail(chain, processes, self._emits, self.outputs, self._context)

    def _barrier_effects(self, decisions: Sequence[BarrierEffect]) -> Sequence[TaskEffect]:
        effects: list[TaskEffect] = []
        for decision in decisions:
            if type(decision) is StartCheckpoint:
                barrier = decision.barrier
                probe = self._probe
                probe(ALIGNED, self.name, barrier.checkpoint_id)
                self.take_checkpoint(barrier, effects)
            elif type(decision) is AbortCheckpoint:
                self._decline(decision.checkpoint_id, decision.reason, effects)
        return effects

    def _decline(self, checkpoint_id: int, reason: str, effects: list[TaskEffect]) -> None:
        marker = CancelCheckpointMarker(checkpoint_id)
        for output in self.outputs:
            output.broadcast(marker)
        effects.append(Send(DeclineCheckpoint(self.attempt, self.id, checkpoint_id, reason)))

    # Checkpoints.

    def trigger(self, message: TriggerCheckpoint) -> Sequence[TaskEffect]:
        """Start a checkpoint. The coordinator triggers sources, and tasks whose upstreams all finished."""
        if message.attempt != self.attempt or self.state not in ALIVE:
            return NOTHING
        options = self.settings.options if message.kind == CHECKPOINT else ALIGNED_OPTIONS
        barrier = CheckpointBarrier(
            message.checkpoint_id, message.timestamp_ms, message.kind, options, message.ahead_ms
        )
        if self._timer is not None:
            self._timer.barrier_came(message.checkpoint_id, self._context.now)
        drains = message.drains and not self.queues
        self._is_drained = self._is_drained or drains
        drained = self.end_data() if drains and self.state is RUNNING else NOTHING
        effects = self._barrier_effects(self._take_trigger(barrier))
        if not effects and self._comes_too_late(message.checkpoint_id):
            effects = []
            self._decline(message.checkpoint_id, DECLINED_SUBSUMED, effects)
        return [*drained, *effects] if drained else effects

    def _comes_too_late(self, checkpoint_id: int) -> bool:
        """Return whether a trigger comes behind that of a younger checkpoint, which the task has taken.

        The coordinator must know: nothing else would end the older one before its time is up, if the younger
        one does not complete. A trigger that comes twice is no such trigger.
        """
        taken = self._taken_ids
        return bool(taken) and checkpoint_id < taken[-1] and checkpoint_id not in taken

    def _take_trigger(self, barrier: CheckpointBarrier) -> Sequence[BarrierEffect]:
        """Trigger the handler; the barrier first waits behind queued records and the end of the data.

        Where a job takes no checkpoints, tasks finish before others have read their last records.
        """
        waiting = self._channels_with_data()
        if not waiting:
            return self.barriers.trigger(barrier, self._context.now)
        decisions: list[BarrierEffect] = []
        for channel, ended in enumerate(self.barriers.ended):
            if channel in waiting:
                behind_data(self.queues[channel], barrier)
            elif not ended:
                decisions += self.barriers.handle(BarrierArrived(channel, barrier), self._context.now)
        return decisions

    def _channels_with_data(self) -> set[int]:
        """Return the open channels that have records or the end of the data."""
        queues = self.queues
        return {
            channel
            for channel, ended in enumerate(self.barriers.ended)
            if not ended and not DATA.isdisjoint(map(type, queues[channel]))
        }

    def take_checkpoint(self, barrier: CheckpointBarrier, effects: list[TaskEffect]) -> None:
        """Forward the barrier, snapshot the operators and have the snapshot stored."""
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id in self._aborted_ids:
            self._decline(checkpoint_id, "CHECKPOINT_DECLINED", effects)
            return
        timer = self._timer
        if timer is not None:
            timer.snapshot_begins(barrier, self._context.live_steady_ms())
        for position, operator in enumerate(self._chain):
            records = operator.prepare_snapshot(checkpoint_id)
            if records:
                self._emit(records, position + 1)
        self._send_barrier(barrier)
        ended = self.state is ENDED_DATA
        # Nothing is committed with a savepoint that the job goes on behind.
        commits = self.settings.checkpointing or barrier.kind == SYNC_SAVEPOINT
        if ended and commits and self._first_final_checkpoint_id is None:
            self._first_final_checkpoint_id = checkpoint_id
        elif barrier.kind == SYNC_SAVEPOINT and not ended:
            self._stop(checkpoint_id)
        self._in_flight[checkpoint_id] = ended
        self._taken_ids.append(checkpoint_id)
        del self._taken_ids[:-REMEMBERED_CHECKPOINTS]
        snapshots: dict[str, OperatorSnapshot] = {}
        for operator, operator_id in self._tail_first:
            snapshot = operator.snapshot(checkpoint_id, barrier.timestamp_ms)
            if snapshot is not None:
                snapshots[operator_id] = snapshot
        probe = self._probe
        probe(SNAPSHOTTED, self.name, checkpoint_id)
        if timer is not None:
            timer.snapshot_ends(checkpoint_id, self._context.live_steady_ms())
        self._upload(barrier, snapshots, effects)

    def _send_barrier(self, barrier: CheckpointBarrier) -> None:
        for output in self.outputs:
            output.broadcast(barrier)

    def _upload(
        self, barrier: CheckpointBarrier, snapshots: dict[str, OperatorSnapshot], effects: list[TaskEffect]
    ) -> None:
        if snapshots:
            effects.append(self._store_effect(barrier, snapshots))
        else:
            effects.append(self.acknowledge(barrier.checkpoint_id, None))

    def _store_effect(
        self, barrier: CheckpointBarrier, snapshots: dict[str, OperatorSnapshot]
    ) -> StoreSnapshot:
        checkpoint_id, kind = barrier.checkpoint_id, barrier.kind
        head = self._tail_first[-1][1]
        path = f"{checkpoint_folder(checkpoint_id, kind)}/{head[:12]}-{self.id.subtask}-{self.attempt}"
        return StoreSnapshot(checkpoint_id, path, TaskSnapshot(snapshots), kind != CHECKPOINT)

    def _stop(self, checkpoint_id: int) -> None:
        """Read nothing behind the savepoint that ends the job."""
        self._enter(STOPPED)
        self.unread.clear()
        self._first_final_checkpoint_id = checkpoint_id
        for operator in self._chain:
            operator.stop_with(checkpoint_id)

    def acknowledge(self, checkpoint_id: int, handle: object | None) -> Send:
        """Tell the coordinator that the snapshot is durable."""
        ended = self._in_flight.pop(checkpoint_id)
        probe = self._probe
        probe(ACKNOWLEDGED, self.name, checkpoint_id)
        timer = self._timer
        measures = None if timer is None else timer.measures(checkpoint_id, self._context.live_steady_ms())
        return Send(AcknowledgeCheckpoint(self.attempt, self.id, checkpoint_id, handle, ended, measures))

    def is_taken(self, checkpoint_id: int) -> bool:
        """Return whether the task has taken its snapshot of a checkpoint and not acknowledged it."""
        return checkpoint_id in self._in_flight

    def measured(self, checkpoint_id: int) -> CheckpointMeasures | None:
        """Return how long the parts of a checkpoint have taken so far; None: it is not measured."""
        timer = self._timer
        return None if timer is None else timer.so_far(checkpoint_id, self._context.live_steady_ms())

    def snapshot_stored(self, event: SnapshotStored) -> Sequence[TaskEffect]:
        """Acknowledge the checkpoint, or discard its snapshot if the checkpoint was aborted meanwhile."""
        checkpoint_id = event.checkpoint_id
        if checkpoint_id not in self._in_flight:
            return (DiscardSnapshot(event.handle),)
        probe = self._probe
        probe(UPLOADED, self.name, checkpoint_id)
        return (self.acknowledge(checkpoint_id, event.handle),)

    def snapshot_failed(self, event: SnapshotFailed) -> Sequence[TaskEffect]:
        """Decline the checkpoint whose snapshot could not be stored."""
        if self._in_flight.pop(event.checkpoint_id, None) is None:
            return NOTHING
        return (Send(DeclineCheckpoint(self.attempt, self.id, event.checkpoint_id, event.reason)),)

    def checkpoint_completed(self, message: NotifyCheckpointComplete) -> Sequence[TaskEffect]:
        """Let the operators commit; the completion of the final checkpoint ends the task."""
        checkpoint_id = message.checkpoint_id
        is_ours = message.attempt == self.attempt and self.state in ALIVE
        if not is_ours or checkpoint_id <= self._last_notified:
            return NOTHING
        self._last_notified = checkpoint_id
        probe = self._probe
        probe(NOTIFIED, self.name, checkpoint_id)
        for operator in self.operators:
            operator.notify_checkpoint_complete(checkpoint_id)
        final = self._first_final_checkpoint_id
        if final is not None and checkpoint_id >= final:
            return self.finish()
        return NOTHING

    def checkpoint_aborted(self, message: NotifyCheckpointAborted) -> Sequence[TaskEffect]:
        """Tell the operators; a checkpoint that has not begun here will be refused."""
        checkpoint_id = message.checkpoint_id
        if message.attempt != self.attempt or self.state not in ALIVE:
            return NOTHING
        if self._in_flight.pop(checkpoint_id, None) is None:
            self._aborted_ids.append(checkpoint_id)
            del self._aborted_ids[:-REMEMBERED_CHECKPOINTS]
        for operator in self.operators:
            operator.notify_checkpoint_aborted(checkpoint_id)
        return NOTHING

    # Beginning and end.

    def restore(self, event: Restore) -> Sequence[TaskEffect]:
        """Open the operators with their state, and run."""
        assert self.state is CREATED, f"{self.name} is restored twice"
        probe, checkpoint_id = self._probe, event.checkpoint_id or 0
        probe(RESTORING, self.name, checkpoint_id)
        self._last_notified = checkpoint_id
        self._open_operators(event)
        for channel, records in event.in_flight:
            if self._watches_elements:
                probe(ELEMENT, self.name, 0)
            self._emit(records, 0, self.queue_input[channel])
        if self.settings.only_commits:
            # No checkpoint follows, whose completion would have write-ahead sinks send what they restored.
            for operator in self.operators:
                operator.stop_with(checkpoint_id)
                operator.notify_checkpoint_complete(checkpoint_id)
        self._enter(RUNNING)
        self._is_open = True
        probe(RESTORED, self.name, checkpoint_id)
        return [Send(TaskRunning(self.attempt, self.id))]

    def _open_operators(self, restore: Restore) -> None:
        """Open the operators, last first, each with its own restored state."""
        vertex, settings, context = self.vertex, self.settings, self._context
        parallelism, max_parallelism = vertex.parallelism, vertex.max_parallelism
        subtask = self.id.subtask
        key_groups = key_group_range(max_parallelism, parallelism, subtask)
        wake_up = partial(settings.wake_up, self.id)
        place = len(self._chain)
        key_by_key = self.takes_key_by_key(restore)
        nodes = {node.operator_id: node for node in vertex.operators}
        for operator, operator_id in self._tail_first:
            restored = restore.operators.get(operator_id, _NOT_RESTORED)
            node = nodes.get(operator_id)
            opened = OperatorContext(
                task_name=vertex.name,
                subtask=subtask,
                parallelism=parallelism,
                max_parallelism=max_parallelism,
                key_groups=key_groups,
                attempt=settings.attempt,
                clock=context.clock,
                steady_clock=context.steady_clock,
                probe=context.pass_point,
                job_id=settings.job_id,
                operator_id=operator_id,
                scope=settings.scope,
                operator_name="" if node is None else node.name,
                job_parameters=settings.job_parameters,
                source_on_change=settings.source_on_change,
                metrics=settings.metrics,
                restored_checkpoint_id=restore.checkpoint_id,
                keyed=restored.keyed,
                operator=restored.operator,
                native=restored.native,
                has_finished=restored.has_finished,
                state_backend=settings.state_backend,
                databases=settings.databases,
                allow_pickle=settings.allow_pickle,
                settled=settings.settled,
                side_outputs=self._side_emits,
                wake_up=wake_up,
                requests=settings.requests,
                key_by_key=key_by_key and place == 1,
                settled_kind=None if node is None else settled_kind(node.output_type),
            )
            if settings.value_watch is not None:
                opened.value_watch = settings.value_watch
                opened.own = settings.value_watch.own_for(opened.operator_name)
            if operator.uses_time:
                opened.downstream = self._behind(place)
                opened.auto_watermark_interval_ms = vertex.auto_watermark_interval_ms
            place -= 1
            operator.open(opened)

    def takes_key_by_key(self, restore: Restore) -> bool:
        """Return whether the first operator gets its records key by key; only of a SortedTask."""
        return False

    def end_data(self) -> Sequence[TaskEffect]:
        """Pass the end of event time and of the data on; the task still answers barriers."""
        assert self.state is RUNNING, f"{self.name} ends its data in state {self.state.value}"
        self._context.pass_point(END_OF_DATA_POINT, 0)
        for position, operator in enumerate(self._chain, start=1):
            if operator.passes_watermarks:
                self._emit(operator.process_watermark(MAX_WATERMARK), position)
            self._emit(operator.finish(), position)
        self._enter(ENDED_DATA)
        self.unread.clear()
        for output in self.outputs:
            output.broadcast(END_OF_DATA)
        return self._finish_without_checkpoint()

    def _finish_without_checkpoint(self) -> Sequence[TaskEffect]:
        """Commit behind the end of all inputs, and finish, in a job that takes no checkpoints.

        A task that ends with a savepoint, or is drained before one, waits for it: that is what it commits.
        """
        is_over = self.state is ENDED_DATA and self._open_inputs == 0 and not self._is_drained
        if self.settings.checkpointing or not is_over or self._first_final_checkpoint_id is not None:
            return NOTHING
        for operator in self.operators:
            operator.commit_without_checkpoints(self._context.clock())
        return self.finish()

    def finish(self) -> Sequence[TaskEffect]:
        """Close the operators, and tell the coordinator and the tasks downstream."""
        self._close_operators()
        for output in self.outputs:
            output.broadcast(END_OF_PARTITION)
        self.barriers.close()
        self._enter(FINISHED)
        return (Send(TaskFinished(self.attempt, self.id)),)

    def _cancel(self, event: Cancel) -> Sequence[TaskEffect]:
        self._enter(CANCELED)
        if self._is_open:
            self._close_operators()
        return NOTHING

    def _close_operators(self) -> None:
        self._is_open = False
        close_all(self.operators)

    def _enter(self, state: TaskState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"{self.name} is {self.state.value} and becomes {state.value}")
        self.state = state

    def validate(self) -> None:
        """Check what must hold between any two events; raises AssertionError naming what does not."""
        if self.barriers.holds_channels:
            self.barriers.validate()
        time = self._input_time
        if time is not None and time.has_changed:
            time.validate(self._ended_channels)
        assert self.state in ALIVE or not self._is_open, f"{self.name} has ended, and its operators are open"
        if self.state is RUNNING:
            if self._first_final_checkpoint_id is not None:
                raise AssertionError(f"{self.name} has a final checkpoint before its end")
        elif self.state is FINISHED:
            assert self._last_notified >= (self._first_final_checkpoint_id or 0), (
                f"{self.name} finished before its final checkpoint completed"
            )
