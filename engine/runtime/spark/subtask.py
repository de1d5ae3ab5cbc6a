"""Runs one subtask for one epoch in a worker, from its restore to its snapshot.

The rules this module lives by:

- The task is the same machine as in every runtime. It restores its state, goes on with the event time of the
  epoch before, processes its buffers, takes its snapshot at the barrier, stores it, and ends.
- Whatever their order of arrival, buffers are processed in the order (sequence, channel): one of each channel
  in turn, as in the local runtime. Else a channel would run ahead of the event time of the others.
- Processing time stands still at the previous checkpoint while records are processed. Then it advances to
  that of the epoch's checkpoint, and timers and periodic watermarks that are due fire. Later timers stay in
  the state. With a real clock, a second attempt could do something else than the first.
- File names carry Spark's task attempt id, and only the reports of the driver's own Spark job count. So an
  attempt that dies, or runs on after another has replaced it, leaves files that no checkpoint refers to.
- A task that raises has failed: its report says so to the driver, and downstream subtasks do nothing. Spark
  would retry it four times in vain, and say nothing of the cause; Spark retries only after the death of a
  process. A function that calls sys.exit, or raises another BaseException, has raised, too.
- A worker that lacks a module would lack it in the next attempt: the job fails at once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from operator import itemgetter
from typing import ClassVar, Final

from msgspec.structs import replace

from onceproof.engine.checkpoint.snapshot_files import delete_unstored, store_encoded
from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.errors import Ending, TransientError, UnrecoverableError
from onceproof.engine.forked_children import runs_user_code
from onceproof.engine.job.channel_layout import Filler
from onceproof.engine.job.deployment import connect_task, create_task, read_restore
from onceproof.engine.messages import (
    AcknowledgeCheckpoint,
    AttemptId,
    DeclineCheckpoint,
    Send,
    TaskFailed,
    TaskId,
    TriggerCheckpoint,
)
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.execution import failure_of
from onceproof.engine.runtime.job_startup import with_full_path
from onceproof.engine.runtime.recovery import metadata_path
from onceproof.engine.runtime.spark.epoch import ChannelEnd, Deployment, Epoch, Report
from onceproof.engine.runtime.spark.epoch_size import WHOLE, EpochMeter, ReadSize, rest_ms
from onceproof.engine.runtime.spark.epoch_time import pack_time, unpack_time
from onceproof.engine.runtime.spark.stages import DRIVER, Parcel, Place
from onceproof.engine.runtime.storage import MissingFile
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.engine.state.snapshot import encode_task_snapshot
from onceproof.engine.task.events import (
    CANCEL,
    POLL,
    Deliver,
    Restore,
    SnapshotFailed,
    SnapshotStored,
    StartTaskTimer,
    StoreSnapshot,
    TaskEvent,
    TimerDue,
)
from onceproof.engine.task.outputs import HashOutput, Queue
from onceproof.engine.task.task import Task, TaskState

GIVE_MODULES: Final = "give workers the modules that the job is made of, at a place in their PYTHONPATH"
_IN_ORDER: Final = itemgetter(3, 2)


class EpochIsOver(Exception):
    """The epoch's checkpoint is complete without this attempt, which another one has replaced."""


class UpstreamFailed(Exception):
    """An upstream subtask has failed and has reported it, so this one does nothing."""


class BrokenChannel(TransientError):
    """A shuffle did not deliver all parcels. The message is one line."""


class Unreadable(UnrecoverableError):
    """A checkpoint cannot be read, and a retry would fail again. The message is one line."""


class NotOnSpark(UnrecoverableError):
    """A job uses a feature that epochs do not support. The message is one line."""


class SubtaskRun:
    """One subtask in one epoch. Observers override ``opened`` and ``snapshot_taken``."""

    checks_machines: ClassVar[bool] = False
    """Whether the task validates itself after every event; subtasks under trial set it."""

    def __init__(self, deployment: Deployment, epoch: Epoch, task_id: TaskId, spark_attempt: int) -> None:
        self.deployment = deployment
        self.epoch = epoch
        self.storage = deployment.storage
        self.task_id = task_id
        self._spark_attempt = spark_attempt
        self.settings = deployment.settings(spark_attempt)
        self.attempt = self.settings.attempt
        vertex = deployment.graph.vertices[task_id.vertex]
        if vertex.auto_watermark_interval_ms:
            # Watermark generators are called periodically only once, when all records are processed.
            vertex = replace(vertex, auto_watermark_interval_ms=epoch.timestamp_ms - epoch.begin_ms)
        self.vertex = vertex
        self.settings.wall_clock.ahead_ms = epoch.ahead_ms
        self.name = f"{self.vertex.name}-{task_id.subtask}"
        self._upstreams: dict[TaskId, AttemptId] = {}
        self._messages: list[AcknowledgeCheckpoint | DeclineCheckpoint | TaskFailed] = []
        self._records_read = 0
        self._buffers_taken = 0
        self._retry_ms: int | None = None
        self._meter = EpochMeter(epoch.timestamp_ms) if deployment.measures else None
        self._routes: list[Route] = []
        self._time = b""
        self._now = epoch.begin_ms - epoch.ahead_ms
        self._due: list[int] = []
        """The times at which the task requested a wake-up, by the steady clock."""

    # Hooks for observers.

    def opened(self, task: Task) -> None:
        """Called when the task is restored, before it reads."""

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Called when the task has taken its snapshot, before it is stored."""

    def ends_the_process(self, error: BaseException) -> bool:
        """Return whether the worker ends with an error, so that no report follows."""
        return isinstance(error, Ending | GeneratorExit)

    # Called by the stage.

    @runs_user_code
    def run(self, arrived: Iterable[Parcel]) -> Iterator[Parcel]:
        """Run the epoch; yield the parcels for other subtasks, and at last the report for the driver."""
        failed = False
        meter = self._meter
        try:
            steps = self.live(deque(sorted(arrived, key=_IN_ORDER)))
            for _ in steps if meter is None else meter.timed(steps):
                for route in self._routes:
                    # Most are empty: there are as many as receivers, and a look for every buffer.
                    if route.queue:
                        yield from route.parcels()
        except EpochIsOver:
            raise
        except UpstreamFailed:
            failed = True
        except BaseException as error:
            if self.ends_the_process(error):
                raise
            failed = True
            self._messages = [self._failure(error)]
        end = ChannelEnd(self.attempt, failed)
        for route in self._routes or self._make_routes():
            yield from route.parcels()
            yield route.parcel(end)
        report = Report(
            self.task_id,
            self.attempt,
            self._upstreams,
            tuple(self._messages),
            self._records_read,
            self._time,
            self._spark_attempt,
            self._retry_ms,
            self.settings.metrics.closed(),
            None if meter is None else meter.reading(),
            {} if meter is None else self.settings.metrics.scopes(),
        )
        yield (DRIVER, 0, 0, 0, report)

    def live(self, parcels: deque[Parcel]) -> Iterator[None]:
        """Step by step from the restore to the snapshot; after each, what was sent can go on."""
        self._check(parcels)
        task = self._make_task()
        try:
            self._handle(task, self._restore())
            packed = self.epoch.times.get(self.task_id)
            if packed is not None:
                task.resume_event_time(unpack_time(packed))
            self.opened(task)
            if isinstance(task.operators[0], SourceOperator):
                yield from self._read(task, task.operators[0])
            else:
                yield from self._take(task, parcels)
            self._time = pack_time(task.event_time(), self.name)
        finally:
            self._records_read = task.records_read
            self._buffers_taken = task.buffers_taken
            if self._meter is not None:
                self._meter.read(task)
            try:
                task.handle(CANCEL, self._now)
            except Ending:
                raise
            except BaseException:
                # The next attempt cleans up what it has left.
                pass

    def _take(self, task: Task, parcels: deque[Parcel]) -> Iterator[None]:
        """Deliver buffer by buffer; time advances before the last barrier, which triggers the snapshot."""
        barriers = len(task.queues)
        while parcels:
            _, _, channel, _, element = parcels.popleft()
            if type(element) is ChannelEnd:
                continue
            if type(element) is CheckpointBarrier:
                barriers -= 1
                if barriers == 0:
                    self._let_time_pass(task)
                    yield
            task.queues[channel].append(element)
            self._handle(task, Deliver(channel))
            yield
            while task.is_polled:
                self._handle(task, POLL)
                yield

    def _let_time_pass(self, task: Task) -> None:
        """Advance to the time of the checkpoint, calling the task at each requested time until then."""
        end_ms = self.epoch.timestamp_ms - self.epoch.ahead_ms
        while self._due and self._due[0] <= end_ms:
            due_ms = heappop(self._due)
            self._now = max(self._now, due_ms)
            self._handle(task, TimerDue(due_ms))
        self._now = end_ms

    def _restore(self) -> Restore:
        try:
            return read_restore(self.epoch.restores[self.task_id], self.storage.read, {})
        except DamagedFile as error:
            raise with_full_path(error, self.storage) from error
        except MissingFile as error:
            # Most often the worker does not share the file system of the driver.
            raise Unreadable(str(error)) from error
        except OSError:
            raise
        except Exception as error:
            raise Unreadable(str(error)) from error

    def _read(self, task: Task, source: SourceOperator) -> Iterator[None]:
        """Poll all splits in turn until the share is read or none has something, then take the snapshot."""
        quota = self.epoch.quotas[self.task_id]
        splits = source.start_at_split(self.epoch.checkpoint_id)
        # With buffers larger than a split's part of the share, the other splits would get nothing.
        buffer_records = min(self.settings.buffer_records, max(1, quota // max(1, splits)))
        size = ReadSize(quota, self.epoch.quota_bytes, buffer_records)
        while task.state is TaskState.RUNNING:
            limit = size.next_buffer(source.records_read)
            if limit == 0 and not source.is_read_out:
                break
            task.read_limit = max(1, limit)
            self._handle(task, POLL)
            self._retry_ms = task.retry_ms
            if self._retry_ms is not None:
                if quota < WHOLE:
                    break
                time.sleep(rest_ms(self._retry_ms) / 1000)
            size.add([route.queue for route in self._routes], source.records_read)
            yield
        self._let_time_pass(task)
        yield
        epoch = self.epoch
        trigger = TriggerCheckpoint(
            self.attempt, self.task_id, epoch.checkpoint_id, epoch.timestamp_ms, drains=epoch.drains
        )
        self._handle(task, trigger)
        yield

    def _failure(self, error: BaseException) -> TaskFailed:
        failure = failure_of(self.attempt, self.task_id, self.name, error, self._buffers_taken)
        if not isinstance(error, ModuleNotFoundError):
            return failure
        cause = f"{failure.cause}: {GIVE_MODULES}"
        return replace(failure, cause=cause, unrecoverable=True)

    # Events and effects.

    def _handle(self, task: Task, event: TaskEvent) -> None:
        meter = self._meter
        began_ns = 0 if meter is None else time.perf_counter_ns()
        try:
            effects = task.handle(event, self._now)
        except (GeneratorExit, StopIteration) as error:
            # The generators that run the task would take it for a word of Spark's, or for their own end.
            raised = f"user code raised {type(error).__name__}"
            raise RuntimeError(raised).with_traceback(error.__traceback__) from error
        for effect in effects:
            if isinstance(effect, StoreSnapshot):
                if meter is not None:
                    meter.snapshot_taken(began_ns)
                self._store(task, effect)
            elif isinstance(effect, StartTaskTimer):
                heappush(self._due, effect.due_ms)
            elif not isinstance(effect, Send):
                raise NotOnSpark(f"{self.name}: {type(effect).__name__} is not supported on Spark yet")
            elif isinstance(effect.message, AcknowledgeCheckpoint):
                self._messages.append(effect.message if meter is None else meter.measured(effect.message))
            elif isinstance(effect.message, DeclineCheckpoint):
                self._messages.append(effect.message)
        if self.checks_machines:
            task.validate()

    def _store(self, task: Task, effect: StoreSnapshot) -> None:
        self.snapshot_taken(task, effect)
        began_ns = time.perf_counter_ns()
        encoded = encode_task_snapshot(effect.snapshot)
        if self.storage.exists(metadata_path(effect.checkpoint_id)):
            raise EpochIsOver(f"checkpoint {effect.checkpoint_id} is complete without {self.attempt}")
        try:
            handle = store_encoded(self.storage, effect.path, encoded)
        except OSError as error:
            delete_unstored(self.storage, effect.path, effect.snapshot)
            self._handle(task, SnapshotFailed(effect.checkpoint_id, str(error)))
        else:
            if self._meter is not None:
                self._meter.snapshot_stored(began_ns)
            self._handle(task, SnapshotStored(effect.checkpoint_id, handle))

    # Channels.

    def _check(self, parcels: Iterable[Parcel]) -> None:
        """Check that all parcels have arrived, from one attempt of each upstream subtask."""
        fillers = self.deployment.layout.inputs[self.task_id].fillers
        ends: dict[int, ChannelEnd] = {}
        expected: dict[int, int] = dict.fromkeys(range(len(fillers)), 0)
        for _, _, channel, sequence, element in parcels:
            if channel in ends or sequence != expected[channel]:
                raise BrokenChannel(
                    f"channel {channel} brought element {sequence} where {expected[channel]} is due"
                )
            expected[channel] += 1
            if type(element) is ChannelEnd:
                ends[channel] = element
        if len(ends) < len(fillers):
            raise BrokenChannel(f"{len(fillers) - len(ends)} of {len(fillers)} channels have no end")
        for channel, end in ends.items():
            self._upstreams[fillers[channel][0]] = end.attempt
        if any(end.failed for end in ends.values()):
            raise UpstreamFailed

    def _make_task(self) -> Task:
        layout, graph = self.deployment.layout, self.deployment.graph
        task = create_task(self.task_id, self.vertex, self.settings, layout.inputs[self.task_id])
        queues_to: dict[Filler, list[Queue]] = {}
        for route in self._make_routes():
            queues_to.setdefault((self.task_id, route.output_index), []).append(route.queue)
        connect_task(task, graph, queues_to)
        indexes = self.deployment.key_indexes
        for place, output in enumerate(task.outputs):
            if isinstance(output, HashOutput):
                output.share_index(indexes.setdefault((self.task_id.vertex, place), {}))
        return task

    def _make_routes(self) -> list[Route]:
        """Return the output channels of this subtask, by output edge, then by receiving subtask."""
        filled, places = self.deployment.layout.filled, self.deployment.stages.places
        self._routes = [
            Route(edge.output_index, places[target], channel)
            for edge in self.vertex.outputs
            for target, channel in filled[self.task_id, edge.output_index]
        ]
        return self._routes


class Route:
    """An output channel: its waiting parcels, and their destination."""

    __slots__ = ("_channel", "_place", "_sequence", "output_index", "queue")

    def __init__(self, output_index: int, place: Place, channel: int) -> None:
        self.output_index = output_index
        self.queue: Queue = deque()
        self._place = place
        self._channel = channel
        self._sequence = 0

    def parcel(self, element: object) -> Parcel:
        """Return an element as the next parcel of the channel."""
        sequence = self._sequence
        self._sequence = sequence + 1
        stage, partition = self._place
        return stage, partition, self._channel, sequence, element

    def parcels(self) -> Iterator[Parcel]:
        """Return and remove the waiting parcels."""
        queue = self.queue
        while queue:
            yield self.parcel(queue.popleft())
