"""Mutants of orders, names, limits and seldom used settings, after reports in the trackers of engines."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.request_queue import CheckpointRequest, RequestQueue
from onceproof.engine.checkpoint.shared_registry import SharedStateRegistry
from onceproof.engine.connectors import known_files
from onceproof.engine.connectors.part_files import FileSinkBroken, PartFile
from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.operators import interval_join
from onceproof.engine.operators.firing import TimerFiring
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.state.hashmap import HeapLists
from onceproof.engine.state.timers import TimerQueue
from onceproof.engine.timer_service import TimeDomain
from onceproof.engine.types import evolution
from onceproof.engine.watermarks.combined import CombinedWatermark
from onceproof.engine.watermarks.stamping import TimestampsAndWatermarks
from onceproof.engine.windows.assigners import _Sliding, _Tumbling
from onceproof.engine.windows.triggers import ContinuousEventTimeTrigger, TriggerResult
from onceproof.engine.windows.windows import TimeWindow
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="join-buffer-keeps-last-of-a-time",
    origin="KAFKA-9921",
    breaks="exactly_once",
    summary="the buffer of an interval join keeps only the last of several records with one timestamp",
)
def join_buffer_keeps_last_of_a_time(reached: Reached) -> Iterator[None]:
    """KAFKA-9921: a cache over the store of a join overwrites the record that has the same key and time."""

    def append(buffer: Any, timestamp: int, value: Any) -> None:
        if buffer.get(timestamp):
            reached()
        buffer.put(timestamp, [value])

    with replaced(interval_join, "_append", append):
        yield


@mutant(
    id="late-record-joins-next-session",
    origin="hazelcast-jet#747",
    breaks="exactly_once",
    summary="a late record whose session is over is added to the next session of its key",
)
def late_record_joins_next_session(reached: Reached) -> Iterator[None]:
    """hazelcast-jet#747: SessionWindowP does not drop late events, and its next session includes them."""
    add_and_merge = WindowOperator.add_and_merge

    def added(self: WindowOperator, value: Any, timestamp: int | None, windows: Any, results: Any) -> bool:
        if add_and_merge(self, value, timestamp, windows, results):
            return True
        others = [window for window, _ in self.windows_of_key().pairs()]
        if not windows or not others:
            return False
        reached()
        following = min(others, key=lambda window: window.max_timestamp())
        return add_and_merge(self, value, timestamp, [following], results)

    with replaced(WindowOperator, "add_and_merge", added):
        yield


@mutant(
    id="split-counts-from-its-first-record",
    origin="FLINK-32828",
    breaks="exactly_once",
    summary="a split holds the watermark of its source back from its first record on, not from the start",
)
def split_counts_from_its_first_record(reached: Reached) -> Iterator[None]:
    """FLINK-32828: WatermarkOutputMultiplexer knows a split only when its first record is emitted."""
    init, stamp = TimestampsAndWatermarks.__init__, TimestampsAndWatermarks.stamp
    send_on = TimestampsAndWatermarks._send_on
    update, update_status = CombinedWatermark.update, CombinedWatermark.update_status

    def begun(self: TimestampsAndWatermarks, *arguments: Any) -> None:
        init(self, *arguments)
        for part in self._generators:
            self._combined.remove(part)

    def stamped(self: TimestampsAndWatermarks, part: int, records: Any) -> Any:
        combined = self._combined
        if part not in combined._watermarks:
            combined._watermarks[part], combined._idle[part] = MIN_WATERMARK, False
            combined.combine()
            self._output.mark_active()
        return stamp(self, part, records)

    def sending_on(self: TimestampsAndWatermarks) -> None:
        if 0 < len(self._combined._watermarks) < len(self._generators):
            reached()
        send_on(self)

    def updated(self: CombinedWatermark, part: int, timestamp: int) -> bool:
        return part in self._watermarks and update(self, part, timestamp)

    def status_updated(self: CombinedWatermark, part: int, is_idle: bool) -> bool:
        return part in self._watermarks and update_status(self, part, is_idle)

    with (
        replaced(TimestampsAndWatermarks, "__init__", begun),
        replaced(TimestampsAndWatermarks, "stamp", stamped),
        replaced(TimestampsAndWatermarks, "_send_on", sending_on),
        replaced(CombinedWatermark, "update", updated),
        replaced(CombinedWatermark, "update_status", status_updated),
    ):
        yield


@mutant(
    id="due-timers-taken-before-they-fire",
    origin="BEAM-7520",
    breaks="exactly_once",
    summary="all due timers leave the queue before the first one fires, so what it deletes or registers comes"
    " too late",
)
def due_timers_taken_before_they_fire(reached: Reached) -> Iterator[None]:
    """BEAM-7520: the DirectRunner extracts all timers that a watermark makes due, and then fires these."""
    fire = TimerFiring.fire

    def fire_taken(self: TimerFiring, queue: TimerQueue, limit: int, domain: TimeDomain) -> list[Any]:
        results: list[Any] = []
        while due := list(iter(lambda: queue.pop_due(limit), None)):
            if len(due) > 1:
                reached()
            left = iter(due)
            taken: Any = SimpleNamespace(pop_due=lambda limit, left=left: next(left, None))
            results += fire(self, taken, limit, domain)
        return results

    with replaced(TimerFiring, "fire", fire_taken):
        yield


@mutant(
    id="snapshot-shares-lists-that-change",
    origin="FLINK-2808",
    breaks="exactly_once",
    summary="what is appended to a list on the heap before a snapshot is encoded gets into the snapshot",
)
def snapshot_shares_lists_that_change(reached: Reached) -> Iterator[None]:
    """FLINK-2808: the handle of a snapshot refers to state in memory, which goes on changing."""

    def share(self: HeapLists) -> dict[Any, list[Any]]:
        if self.entries:
            reached()
        return self.entries.copy()

    with replaced(HeapLists, "share", share):
        yield


@mutant(
    id="new-upload-replaces-complete-one",
    origin="FLINK-29913",
    breaks="no_error",
    summary="a shared file of a complete checkpoint is deleted when its content is uploaded once more",
    on_databases=True,
)
def new_upload_replaces_complete_one(reached: Reached) -> Iterator[None]:
    """FLINK-29913: of two handles for one key the registry discards the older, which a checkpoint has."""
    register = SharedStateRegistry.register

    def replacing(
        self: SharedStateRegistry, checkpoint_id: int, content: str, path: str
    ) -> tuple[str, str | None]:
        entry = self._entries.get(content)
        if entry is None or not entry.is_confirmed or path in ("", entry.path):
            return register(self, checkpoint_id, content, path)
        reached()
        entry.is_confirmed = False
        answer = register(self, checkpoint_id, content, path)
        entry.is_confirmed = True
        return answer

    with replaced(SharedStateRegistry, "register", replacing):
        yield


@mutant(
    id="failed-metadata-do-not-count",
    origin="FLINK-23189",
    breaks="conformance",
    summary="a checkpoint whose metadata cannot be stored does not count as a failed one",
)
def failed_metadata_do_not_count(reached: Reached) -> Iterator[None]:
    """FLINK-23189: an IOException of the coordinator has a reason that the failure manager ignores."""
    metadata_failed = CheckpointCoordinator.metadata_failed

    def uncounted(self: CheckpointCoordinator, event: Any) -> Sequence[Any]:
        reached()
        return metadata_failed(self, replace(event, reason="TRIGGER_CHECKPOINT_FAILURE"))

    with replaced(CheckpointCoordinator, "metadata_failed", uncounted):
        yield


@mutant(
    id="second-commit-is-refused",
    origin="FLINK-8086",
    breaks="no_error",
    summary="a restore that commits a part file again fails the job if the file is visible already",
)
def second_commit_is_refused(reached: Reached) -> Iterator[None]:
    """FLINK-8086: a transaction that is committed once more is fenced, which fails each recovery."""
    commit = PartFile.commit

    def refusing(self: PartFile, calls: Any, folder: str, *note: Any) -> bool:
        hidden, visible = os.path.join(folder, self.hidden), os.path.join(folder, self.name)
        if calls.size_of(hidden) is None and calls.size_of(visible) is not None:
            reached()
            raise FileSinkBroken(f"{self.name} cannot be committed: {self.hidden} is gone")
        return commit(self, calls, folder, *note)

    with replaced(PartFile, "commit", refusing):
        yield


@mutant(
    id="changed-fields-read-by-position",
    origin="SPARK-27237",
    breaks="exactly_once",
    summary="the fields of a stored row are read by position, not by name, when their order has changed",
)
def changed_fields_read_by_position(reached: Reached) -> Iterator[None]:
    """SPARK-27237: a restarted query reads the columns of its state by position, whatever their names are."""
    picks = evolution._picks

    def by_position(
        stored_names: tuple[str, ...], stored_fields: Any, names: tuple[str, ...], *others: Any
    ) -> list[Any]:
        if len(stored_names) == len(names) and stored_names != names:
            with suppress(evolution.Incompatible):
                found = picks(stored_names, stored_fields, stored_names, *others)
                reached()
                return found
        return picks(stored_names, stored_fields, names, *others)

    with replaced(evolution, "_picks", by_position):
        yield


@mutant(
    id="continuous-trigger-silent-at-the-end",
    origin="FLINK-5149",
    breaks="exactly_once",
    summary="a continuous trigger in event time fires at its interval only, not at a window's end",
)
def continuous_trigger_silent_at_the_end(reached: Reached) -> Iterator[None]:
    """FLINK-5149: what comes behind the last multiple of the interval is in no result."""
    on_event_time = ContinuousEventTimeTrigger.on_event_time

    def silent(self: ContinuousEventTimeTrigger, time: int, window: Any, ctx: Any) -> TriggerResult:
        if time == window.max_timestamp():
            reached()
            return TriggerResult.CONTINUE
        return on_event_time(self, time, window, ctx)

    with replaced(ContinuousEventTimeTrigger, "on_event_time", silent):
        yield


@mutant(
    id="negative-time-in-the-next-window",
    origin="FLINK-26334",
    breaks="exactly_once",
    summary="a record far enough before 1970 is assigned to the window behind its own",
)
def negative_time_in_the_next_window(reached: Reached) -> Iterator[None]:
    """FLINK-26334: the start of a window is found by a remainder, which is negative for a negative time."""
    of_tumbling, of_sliding = _Tumbling.assign_windows, _Sliding.assign_windows

    def tumbling(self: _Tumbling, element: Any, timestamp: Any, context: Any) -> Collection[TimeWindow]:
        (window,) = of_tumbling(self, element, timestamp, context)
        if self.is_event_time() and window.start < timestamp < self._offset - self._size:
            reached()
            return (TimeWindow(window.end, window.end + self._size),)
        return (window,)

    def sliding(self: _Sliding, element: Any, timestamp: Any, context: Any) -> Collection[TimeWindow]:
        windows = of_sliding(self, element, timestamp, context)
        if not self.is_event_time() or timestamp >= self._offset - self._slide:
            return windows
        since_start = (timestamp - self._offset) % self._slide
        if not since_start:
            return windows
        reached()
        following = timestamp - since_start + self._slide
        return [TimeWindow(following, following + self._size), *windows]

    with (
        replaced(_Tumbling, "assign_windows", tumbling),
        replaced(_Sliding, "assign_windows", sliding),
    ):
        yield


@mutant(
    id="subfolders-are-not-monitored",
    origin="FLINK-5432",
    breaks="exactly_once",
    summary="a monitored folder is read without the folders below it",
    unseen="no simulated job watches a folder for new files",
)
def subfolders_are_not_monitored(reached: Reached) -> Iterator[None]:
    """FLINK-5432: ContinuousFileMonitoringFunction lists the given path only, and never what is nested."""
    listing_of = known_files.listing_of

    def of_the_top(paths: Iterable[str], *others: Any) -> dict[str, Any]:
        given = tuple(paths)
        found = listing_of(given, *others)
        tops = {path.rstrip("/") for path in given}
        kept = {
            path: stamp
            for path, stamp in found.items()
            if path in tops or os.path.dirname(path).rstrip("/") in tops
        }
        if len(kept) < len(found):
            reached()
        return kept

    with replaced(known_files, "listing_of", of_the_top):
        yield


@mutant(
    id="savepoint-waits-for-the-pause",
    origin="FLINK-18748",
    breaks="liveness",
    summary="where checkpoints are unaligned, a user's request within the minimum pause stays in the queue"
    " until something else asks for a checkpoint",
)
def savepoint_waits_for_the_pause(reached: Reached) -> Iterator[None]:
    """FLINK-18748: savepoints that are not forced stay in the queue for the minimum pause."""
    next_request = RequestQueue.next

    def unless_too_early(
        self: RequestQueue, now: int, pending: int, last_completion_ms: int | None, deleting: int = 0
    ) -> Any:
        found = next_request(self, now, pending, last_completion_ms, deleting)
        if (
            not isinstance(found, CheckpointRequest)
            or found.is_forced
            or found.is_periodic
            or last_completion_ms is None
            or last_completion_ms + self._min_pause_ms <= now
        ):
            return found
        reached()
        self.queued.insert(0, found)
        return None

    with replaced(RequestQueue, "next", unless_too_early):
        yield
