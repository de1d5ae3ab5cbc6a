"""Mutants of joins, idle streams, stops and rarely used calls, after reports in the trackers of engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine.api.datastream import DataStream
from onceproof.engine.checkpoint import redistribution
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import StartScheduler
from onceproof.engine.checkpoint.failure_counter import EXPIRED, FailureCounter
from onceproof.engine.connectors.committing import WriterSinkFunction
from onceproof.engine.connectors.known_files import KnownFiles
from onceproof.engine.connectors.two_phase import TwoPhaseCommitSinkFunction
from onceproof.engine.job import deployment
from onceproof.engine.job.master import JobMaster
from onceproof.engine.messages import CHECKPOINT
from onceproof.engine.operators.async_wait import AsyncWaitOperator
from onceproof.engine.operators.interval_join import IntervalJoinOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import folded, timestamped
from onceproof.engine.state.hashmap import HeapMaps
from onceproof.engine.state.rocksdb.database_tables import FEW_KEYS, DatabaseTable
from onceproof.engine.task.task import Task
from onceproof.engine.watermarks.generators import WatermarksWithIdleness
from onceproof.engine.windows.triggers import ContinuousProcessingTimeTrigger

# Easy to trip over.
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="join-keeps-each-side-as-long-as-the-other",
    origin="KAFKA-4153",
    breaks="exactly_once",
    summary="an interval join keeps the records of each side as long as those of the other must wait",
)
def join_keeps_each_side_as_long_as_the_other(reached: Reached) -> Iterator[None]:
    """KAFKA-4153 (kafka#1846): a join with an asymmetric window took ``before`` for ``after``."""
    init = IntervalJoinOperator.__init__

    def mistaken(self: Any, function: Any, keys: Any, settings: Any) -> Any:
        init(self, function, keys, settings)
        left, right = self._waits
        if left != right:
            reached()
        self._waits = right, left

    with replaced(IntervalJoinOperator, "__init__", mistaken):
        yield


@mutant(
    id="files-as-old-as-the-newest-are-ignored",
    origin="FLINK-8046",
    breaks="exactly_once",
    summary="a monitored folder ignores new files that are not younger than the newest file it knows",
    unseen="no simulated job watches a folder for new files",
)
def files_as_old_as_the_newest_are_ignored(reached: Reached) -> Iterator[None]:
    """FLINK-8046 (flink#4997): ``modification time <= the highest seen`` took a new file for a known one."""
    look, identify = KnownFiles.look, KnownFiles._identify
    newest = {}

    def looking(self: Any, now_ns: Any) -> Any:
        stamps = [known.stamp for known in self.files if known.stamp is not None]
        newest[id(self)] = max([stamp.changed_ns for stamp in stamps], default=None)
        try:
            return look(self, now_ns)
        finally:
            del newest[id(self)]

    def identified(self: Any, path: Any, seen: Any, alike: Any, now_ns: Any) -> Any:
        count = len(self.files)
        found = identify(self, path, seen, alike, now_ns)
        highest = newest.get(id(self))
        if len(self.files) > count and highest is not None and seen.stamp.changed_ns <= highest:
            reached()
            self.files.pop()
            alike.pop()
            return None
        return found

    with replaced(KnownFiles, "look", looking), replaced(KnownFiles, "_identify", identified):
        yield


@mutant(
    id="map-without-keys-stays",
    origin="FLINK-21413",
    breaks="state_equivalence",
    summary="the map of a key stays in state, and is not empty, when its last entry is removed or expires",
)
def map_without_keys_stays(reached: Reached) -> Iterator[None]:
    """FLINK-21413 (flink#15016): an emptied TtlMapState stayed in the state table of the heap for ever."""

    def remove(self: Any, entry: Any, key: Any) -> Any:
        found = self.entries.get(entry)
        if found is not None and key in found:
            if len(found) == 1:
                reached()
            del self._changeable(entry)[key]

    with replaced(HeapMaps, "remove", remove):
        yield


@mutant(
    id="union-takes-a-stream-once",
    origin="FLINK-25199",
    breaks="exactly_once",
    summary="the union of a stream with itself, directly or in another union, has each of its records once",
)
def union_takes_a_stream_once(reached: Reached) -> Iterator[None]:
    """FLINK-25199 (flink#18420), FLINK-3080: two edges between the same nodes counted as one."""
    union = DataStream.union

    def distinct(self: Any, *streams: Any) -> Any:
        united = union(self, *streams)
        kept = []
        for upstream in united._upstreams:
            if upstream not in kept:
                kept.append(upstream)
        if len(kept) < len(united._upstreams):
            reached()
        return DataStream(united._environment, tuple(kept), united._type)

    with replaced(DataStream, "union", distinct):
        yield


@mutant(
    id="only-a-record-after-idleness-restarts-the-time-out",
    origin="FLINK-34252",
    breaks="exactly_once",
    summary="a stream is idle when its time-out is over since it became active, whatever records it has",
)
def only_a_record_after_idleness_restarts_the_time_out(reached: Reached) -> Iterator[None]:
    """FLINK-34252 (flink#24211): the time of the last record was updated as the status became ACTIVE only."""
    on_event = WatermarksWithIdleness.on_event

    def event(self: Any, event: Any, event_timestamp: Any, output: Any) -> Any:
        if self._is_idle:
            self._quiet_since = self._clock()
        on_event(self, event, event_timestamp, output)

    def timed_out(self: Any) -> Any:
        was_active, self._was_active = self._was_active, False
        if self._quiet_since is None:
            self._quiet_since = self._clock()
            return False
        is_over = self._clock() - self._quiet_since > self._idle_timeout_ms
        if is_over and was_active:
            reached()
        return is_over

    with (
        replaced(WatermarksWithIdleness, "on_event", event),
        replaced(WatermarksWithIdleness, "_has_timed_out", timed_out),
    ):
        yield


@mutant(
    id="channel-that-ended-early-holds-event-time-back",
    origin="FLINK-23698",
    breaks="exactly_once",
    summary="a channel that ends before the first watermark of its task holds event time back",
)
def channel_that_ended_early_holds_event_time_back(reached: Reached) -> Iterator[None]:
    """FLINK-23698 (flink#16774): tasks that had finished before the restore gave no last watermark."""
    new_input_time = Task._new_input_time

    def without_the_ended(self: Any, ended_channels: Any) -> Any:
        if ended_channels:
            reached()
        return new_input_time(self, ())

    with replaced(Task, "_new_input_time", without_the_ended):
        yield


@mutant(
    id="failed-request-is-seen-with-the-next-answer",
    origin="FLINK-6435",
    breaks="liveness",
    summary="an asynchronous request that fails for good fails its task only when another answer comes",
    unseen="no request of the families fails for good",
)
def failed_request_is_seen_with_the_next_answer(reached: Reached) -> Iterator[None]:
    """FLINK-6435 (flink#3814): entries that were completed exceptionally did not wake the emitter."""
    answered = AsyncWaitOperator._answered

    def late(self: Any, answer: Any) -> Any:
        failed = vars(self).get("_failed")
        if failed is not None:
            raise failed
        request = self._running.get(answer.number)
        if answer.error is None or request is None or self._is_tried_again(request, answer):
            answered(self, answer)
            return
        reached()
        del self._running[answer.number]
        request.number = 0
        self._failed = answer.error

    with replaced(AsyncWaitOperator, "_answered", late):
        yield


@mutant(
    id="expired-checkpoints-are-no-failures",
    origin="FLINK-17351",
    breaks="conformance",
    summary="checkpoints that expire are not counted against the number of failures that is tolerated",
)
def expired_checkpoints_are_no_failures(reached: Reached) -> Iterator[None]:
    """FLINK-17351 (flink#12269): CHECKPOINT_EXPIRED was among the reasons that the manager ignored."""
    failed = FailureCounter.failed

    def unless_expired(self: Any, checkpoint_id: Any, reason: Any, kind: Any, *, by_task: Any) -> Any:
        if reason == EXPIRED and kind == CHECKPOINT:
            reached()
            return False
        return failed(self, checkpoint_id, reason, kind, by_task=by_task)

    with replaced(FailureCounter, "failed", unless_expired):
        yield


@mutant(
    id="late-notification-commits-the-end",
    origin="FLINK-25920",
    breaks="exactly_once",
    summary="the notification of an earlier checkpoint, late behind the end of the input, commits what only"
    " the final checkpoint lists",
)
def late_notification_commits_the_end(reached: Reached) -> Iterator[None]:
    """FLINK-25920 (flink#25292, review): at EOI all is committed, on any delayed notification."""
    notify = WriterSinkFunction.notify_checkpoint_complete

    def with_all(self: Any, checkpoint_id: Any) -> Any:
        if self._finished:
            latest = max(self._collector._batches, default=checkpoint_id)
            if latest > checkpoint_id:
                reached()
                checkpoint_id = latest
        notify(self, checkpoint_id)

    with replaced(WriterSinkFunction, "notify_checkpoint_complete", with_all):
        yield


@mutant(
    id="failed-stop-leaves-the-job-standing",
    origin="FLINK-12858",
    breaks="liveness",
    summary="a job whose savepoint to stop with fails goes on with tasks that have stopped reading for it",
)
def failed_stop_leaves_the_job_standing(reached: Reached) -> Iterator[None]:
    """FLINK-12858 (flink#9131): a declined synchronous savepoint left tasks waiting for its completion."""
    not_ended = JobMaster._not_ended

    def going_on(self: Any, ending: Any, outcome: Any, effects: Any, now: Any) -> Any:
        if not ending.stops:
            return not_ended(self, ending, outcome, effects, now)
        reached()
        return self.coordinator.handle(StartScheduler(), now)

    with replaced(JobMaster, "_not_ended", going_on):
        yield


@mutant(
    id="place-in-one-file-is-used-for-the-next",
    origin="FLINK-34063",
    breaks="exactly_once",
    summary="a rescaled subtask whose share of a list begins within a file reads the next from there, too",
)
def place_in_one_file_is_used_for_the_next(reached: Reached) -> Iterator[None]:
    """FLINK-34063: a rescale lost splits that were not at the first offset of a file of operator state."""
    read = redistribution.read_assignment

    def misread(assignment: Any, read_file: Any, decoded: Any = None) -> Any:
        operator = {}
        for name, (mode, sources) in assignment.operator.items():
            begin, kept = 0, []
            for handle, elements in sources:
                if kept and begin and elements:
                    reached()
                    elements = elements[begin:] if begin < len(elements) else range(0)
                else:
                    begin = elements.start
                kept.append((handle, elements))
            operator[name] = (mode, tuple(kept))
        changed = redistribution.RestoreAssignment(
            assignment.operator_id, assignment.keyed, operator, assignment.finished, assignment.restored
        )
        return read(changed, read_file, decoded)

    with (
        replaced(redistribution, "read_assignment", misread),
        replaced(deployment, "read_assignment", misread),
    ):
        yield


@mutant(
    id="transaction-that-cannot-be-prepared-has-no-owner",
    origin="risingwave#26176",
    breaks="no_leaks",
    summary="a sink forgets its open transaction before it prepares it, and aborts nothing if that fails",
    unseen="equivalent here: the next attempt aborts what one has left open",
)
def transaction_that_cannot_be_prepared_has_no_owner(reached: Reached) -> Iterator[None]:
    """RisingWave #26176: the label is taken before ``prepare`` is awaited, so a cancel rolls nothing back."""
    snapshot_state = TwoPhaseCommitSinkFunction.snapshot_state

    def forgetting(self: Any, context: Any) -> Any:
        current = self._open
        try:
            snapshot_state(self, context)
        except BaseException:
            if current is not None and self._open is current:
                reached()
                self._open = None
            raise

    with replaced(TwoPhaseCommitSinkFunction, "snapshot_state", forgetting):
        yield


@mutant(
    id="continuous-trigger-misses-the-end",
    origin="FLINK-20443",
    breaks="exactly_once",
    summary="a continuous trigger in processing time fires at its interval only, not at a window's end",
)
def continuous_trigger_misses_the_end(reached: Reached) -> Iterator[None]:
    """FLINK-20443 (flink#17106): the last records of a window were dropped with it."""

    def register_next(self: Any, time: Any, window: Any, next_fire: Any, register: Any) -> Any:
        due = time + self._interval
        if due > window.max_timestamp():
            reached()
        next_fire.add(due)
        register(due)

    with replaced(ContinuousProcessingTimeTrigger, "_register_next", register_next):
        yield


@mutant(
    id="evicted-records-stay-in-the-window",
    origin="FLINK-4369",
    breaks="exactly_once",
    summary="what an evictor removes is still in the window, and there again when it fires the next time",
)
def evicted_records_stay_in_the_window(reached: Reached) -> Iterator[None]:
    """FLINK-4369 (flink#2736): the elements were evicted from an iterator, and not from the state."""

    def call_with_evictor(self: Any, key: Any, window: Any, held: Any) -> Any:
        evictor = self._settings.evictor
        elements = timestamped(held)
        evictor.evict_before(elements, len(elements), window, self._context)
        values = [element.value for element in elements]
        given = values if self._fold is None else [folded(self._fold, values)]
        emitted = list(self._apply_function(key, window, given) or ())
        evictor.evict_after(elements, len(elements), window, self._context)
        if len(elements) < len(held):
            reached()
        return emitted

    with replaced(WindowOperator, "_call_function_with_evictor", call_with_evictor):
        yield


@mutant(
    id="pause-is-counted-from-the-completion-before",
    origin="FLINK-18856",
    breaks="timeliness",
    summary="a periodic checkpoint that was waiting for another one begins with its completion, whatever the"
    " minimum pause",
)
def pause_is_counted_from_the_completion_before(reached: Reached) -> Iterator[None]:
    """FLINK-18856 (flink#13091): no checkpoint pending any more, and a stale time of the last completion."""
    stored, start_waiting = CheckpointCoordinator.metadata_stored, CheckpointCoordinator._start_waiting
    stale = {}

    def completing(self: Any, event: Any) -> Any:
        stale[id(self)] = self._last_completion_ms
        try:
            return stored(self, event)
        finally:
            del stale[id(self)]

    def waiting(self: Any, effects: Any) -> Any:
        if id(self) not in stale:
            start_waiting(self, effects)
            return
        queued, fresh = self._requests.queued, self._last_completion_ms
        if queued and queued[0].is_periodic and self._settings.min_pause_ms:
            reached()
        self._last_completion_ms = stale[id(self)]
        try:
            start_waiting(self, effects)
        finally:
            self._last_completion_ms = fresh

    with (
        replaced(CheckpointCoordinator, "metadata_stored", completing),
        replaced(CheckpointCoordinator, "_start_waiting", waiting),
    ):
        yield


@mutant(
    id="last-key-of-a-deleted-range-stays",
    origin="rocksdb#4935",
    breaks="exactly_once",
    summary="of a list or map with over 100 entries in a database the last one is there after it is cleared",
)
def last_key_of_a_deleted_range_stays(reached: Reached) -> Iterator[None]:
    """rocksdb#4935 (so pantheon#1894, milvus#9572, sui#26661): the end of DeleteRange is exclusive."""

    def clear(self: Any, entry: Any) -> Any:
        found = [key for key, _ in self._database.scan(self.begin(entry))]
        if len(found) > FEW_KEYS:
            reached()
            self._database.delete_range(found[0], found[-1])
            return
        self._database.write((), found)

    with replaced(DatabaseTable, "_clear", clear):
        yield
