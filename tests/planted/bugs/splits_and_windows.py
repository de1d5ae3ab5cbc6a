"""Mutants of splits and their positions, of idleness, and of what windows, joins and requests give."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from onceproof.engine.connectors.kafka.kafka_errors import KafkaUnavailable
from onceproof.engine.connectors.kafka.partition_reader import ClusterOffsets, PartitionReader
from onceproof.engine.elements import Record, Watermark
from onceproof.engine.functions import FunctionSnapshotContext
from onceproof.engine.operators.async_wait import AsyncWaitOperator
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.interval_join import LEFT, RIGHT, IntervalJoinOperator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.state.snapshot import OperatorSnapshot
from onceproof.engine.watermarks.combined import CombinedInputs, CombinedWatermark
from onceproof.engine.watermarks.stamping import TimestampsAndWatermarks
from onceproof.engine.windows import assigners
from onceproof.engine.windows.assigners import AssignerContext
from onceproof.engine.windows.triggers import CONTINUE, TriggerResult
from onceproof.engine.windows.windows import TimeWindow
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

# Splits and their positions.


@contextmanager
def _with_first_positions(change: Callable[[Any, list[list[Any]]], list[list[Any]]]) -> Iterator[None]:
    """Change the splits that a source stores; ``known_positions`` are those that it was opened with."""
    open_splits, snapshot_state = SourceOperator.open, SourceOperator.snapshot_state

    def opened(self: Any, context: OperatorContext) -> None:
        open_splits(self, context)
        self.is_fresh = context.operator is None
        self.known_positions = {split: deepcopy(reader.position) for split, reader in self._readers}

    def changed(self: Any, context: FunctionSnapshotContext) -> None:
        snapshot_state(self, context)
        self._state.update(change(self, [[split, reader.position] for split, reader in self._readers]))

    with replaced(SourceOperator, "open", opened), replaced(SourceOperator, "snapshot_state", changed):
        yield


@mutant(
    id="split-that-was-not-read-yet-is-in-no-checkpoint",
    origin="risingwave#19443",
    breaks="exactly_once",
    summary="a checkpoint has the splits of which something was read, and a restore knows no other",
)
def split_that_was_not_read_yet_is_in_no_checkpoint(reached: Reached) -> Iterator[None]:
    """A split is written to the state with its first message."""

    def only_read_ones(source: Any, stored: list[list[Any]]) -> list[list[Any]]:
        if not source.is_fresh:
            return stored
        kept = []
        for split, position in stored:
            if split in source.known_positions and position == source.known_positions[split]:
                reached()
            else:
                kept.append([split, position])
        return kept

    with _with_first_positions(only_read_ones):
        yield


@mutant(
    id="only-the-split-that-was-read-last-is-stored",
    origin="SAMZA-1146",
    breaks="exactly_once",
    summary="of the splits that were read since the last checkpoint only the last one has its new position",
)
def only_the_split_that_was_read_last_is_stored(reached: Reached) -> Iterator[None]:
    """One position is committed for all that is done: that of the newest record."""

    def only_the_last(source: Any, stored: list[list[Any]]) -> list[list[Any]]:
        known = source.known_positions
        last = source._readers[source._polled][0] if stored else ""
        for entry in stored:
            split, position = entry
            if split != last and known.get(split, position) != position:
                reached()
                entry[1] = known[split]
        source.known_positions = {split: deepcopy(position) for split, position in stored}
        return stored

    with _with_first_positions(only_the_last):
        yield


@mutant(
    id="marks-at-the-end-are-waited-for",
    origin="KAFKA-12951",
    breaks="liveness",
    summary="a bounded reader of Kafka never ends where marks of transactions come behind the last row",
    unseen="the reader of the real client has it, which no simulated job runs",
)
def marks_at_the_end_are_waited_for(reached: Reached) -> Iterator[None]:
    """It counts offsets of rows only, and the one before its stop is that of no row."""
    take_event = PartitionReader._take_event

    def of_rows_only(self: PartitionReader, error: Any, message: Any) -> None:
        behind_the_last_row = self._next
        take_event(self, error, message)
        if self._next > behind_the_last_row:
            reached()
            self._next = behind_the_last_row

    with replaced(PartitionReader, "_take_event", of_rows_only):
        yield


@mutant(
    id="group-that-cannot-be-asked-has-no-offset",
    origin="KAFKA-20416",
    breaks="exactly_once",
    summary="a consumer group whose offset cannot be asked for at the moment counts as one that has none",
    unseen="the reader of the real client has it, which no simulated job runs",
)
def group_that_cannot_be_asked_has_no_offset(reached: Reached) -> Iterator[None]:
    """So a reader begins where a new group would, and not where the group was."""
    committed = ClusterOffsets.committed

    def none_for_now(self: ClusterOffsets) -> int | None:
        try:
            return committed(self)
        except KafkaUnavailable:
            reached()
            return None

    with replaced(ClusterOffsets, "committed", none_for_now):
        yield


# Idleness.


@mutant(
    id="source-that-reads-on-stays-idle",
    origin="FLINK-40504",
    breaks="exactly_once",
    summary="an idle source that reads on does not say so before its watermark is higher than the last one",
)
def source_that_reads_on_stays_idle(reached: Reached) -> Iterator[None]:
    """Others drive event time meanwhile, past the records that it sends."""

    def only_with_a_higher_watermark(self: TimestampsAndWatermarks) -> None:
        combined, output = self._combined, self._output
        if output.is_idle and not combined.is_idle and combined.watermark <= output.reached:
            reached()
        output.emit_watermark(Watermark(combined.watermark))
        if combined.is_idle:
            output.mark_idle()

    with replaced(TimestampsAndWatermarks, "_send_on", only_with_a_higher_watermark):
        yield


@mutant(
    id="idle-input-holds-the-other-one-back",
    origin="FLINK-18934",
    breaks="liveness",
    summary="the event time of connected streams is that of the slower one, whether or not it is idle",
)
def idle_input_holds_the_other_one_back(reached: Reached) -> Iterator[None]:
    """Windows and timers behind them wait for the end of the idle stream."""

    class WithoutIdleness(CombinedWatermark):
        __slots__ = ()

        def combine(self) -> bool:
            active = [mark for part, mark in self._watermarks.items() if not self._idle[part]]
            self.is_idle = not active
            lowest = min(self._watermarks.values())
            if (min(active) if active else max(self._watermarks.values())) > max(lowest, self.watermark):
                reached()
            if lowest <= self.watermark:
                return False
            self.watermark = lowest
            return True

    def of_all_inputs(self: CombinedInputs, inputs: int) -> None:
        self._combined = WithoutIdleness(range(inputs))

    with replaced(CombinedInputs, "__init__", of_all_inputs):
        yield


# What windows, joins and requests give.


@mutant(
    id="timer-of-an-empty-window-is-ignored",
    origin="FLINK-5363",
    breaks="exactly_once",
    summary="the trigger of a window does not hear of a timer that is due while the window is empty",
)
def timer_of_an_empty_window_is_ignored(reached: Reached) -> Iterator[None]:
    """One that goes on from timer to timer stops there, and what comes later waits for the window's end."""
    fire = WindowOperator.fire

    def unless_empty(
        self: WindowOperator,
        timer: tuple[int, Any],
        ask: Callable[[int, Any, Any], TriggerResult],
        cleans_up: bool,
        results: list[Record],
    ) -> None:
        def ask_unless_empty(time: int, window: Any, context: Any) -> TriggerResult:
            held = self._contents.get()
            if held is None or (self._keeps_all and not held):
                reached()
                return CONTINUE
            return ask(time, window, context)

        fire(self, timer, ask_unless_empty, cleans_up, results)

    with replaced(WindowOperator, "fire", unless_empty):
        yield


@mutant(
    id="overlapping-windows-are-miscounted",
    origin="bytewax#485",
    breaks="exactly_once",
    summary="a record is in one sliding window too many or too few, if slides do not divide their size",
)
def overlapping_windows_are_miscounted(reached: Reached) -> Iterator[None]:
    """The time since the last end is taken for the time to the next start, which says how many overlap."""
    assign = assigners._Sliding.assign_windows

    def counted_from_the_last_end(
        self: Any, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        windows = assign(self, element, timestamp, context)
        size, slide = self._size, self._slide
        most, rest = divmod(size, slide)
        if not rest or size < slide:
            return windows
        time = self._time(timestamp, context)
        since_end = (time - self._offset - size) % slide
        first = time - since_end - size + slide
        count = most + 1 if since_end > rest else most
        starts = [first + place * slide for place in reversed(range(count))]
        counted = [TimeWindow(start, start + size) for start in starts]
        if counted != list(windows):
            reached()
        return counted

    with replaced(assigners._Sliding, "assign_windows", counted_from_the_last_end):
        yield


@mutant(
    id="joined-rows-share-one-object",
    origin="SPARK-32148",
    breaks="exactly_once",
    summary="the partners of a record are read into one row, so all its pairs have the last of them",
)
def joined_rows_share_one_object(reached: Reached) -> Iterator[None]:
    """An iterator over a state returns the same row again and again, and the join has to copy it."""

    def without_copies(
        self: IntervalJoinOperator, value: Any, timestamp: int, side: int, results: list[Record]
    ) -> None:
        lower, upper = self._ranges[side]
        partners = self._buffers[RIGHT - side]
        times = [each for each in partners if timestamp + lower <= each <= timestamp + upper]
        found = [(other, partner) for other in sorted(times) for partner in partners.get(other)]
        context = self._context
        for other, partner in found:
            row = found[-1][1]
            if row != partner:
                reached()
            left_at, right_at = (timestamp, other) if side == LEFT else (other, timestamp)
            context.left_element_timestamp, context.right_element_timestamp = left_at, right_at
            pair = (value, row) if side == LEFT else (row, value)
            for result in self.function.process_element(*pair, context) or ():
                results.append((result, max(left_at, right_at)))

    with replaced(IntervalJoinOperator, "join", without_copies):
        yield


@mutant(
    id="results-of-requests-leave-behind-the-snapshots-of-others",
    origin="FLINK-13063",
    breaks="exactly_once",
    summary="while a chain is stored, requests emit results behind the barrier and operators stored first",
)
def results_of_requests_leave_behind_the_snapshots_of_others(reached: Reached) -> Iterator[None]:
    """Their values are done by the time that the requests themselves are stored, so no snapshot has them."""
    snapshot = AsyncWaitOperator.snapshot

    def emitting(self: AsyncWaitOperator, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        if not self._waits_in_place:
            before = len(self._queue)
            self._advance()
            self._wake_later()
            if len(self._queue) < before:
                reached()
        return snapshot(self, checkpoint_id, timestamp_ms)

    with replaced(AsyncWaitOperator, "snapshot", emitting):
        yield
