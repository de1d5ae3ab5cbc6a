"""Mutants of what a restore brings back: tables, lists, records in flight, requests and batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from onceproof.engine.connectors.committables import CommittableCollector
from onceproof.engine.connectors.write_ahead import GenericWriteAheadSink, PendingBatch
from onceproof.engine.elements import Buffer, CheckpointBarrier, Element
from onceproof.engine.operators.async_wait import AsyncWaitOperator
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.in_flight import ChannelId
from onceproof.engine.state.keyed import TABLE_OF_VALUES, Registered
from onceproof.engine.state.snapshot import KeyedSnapshot, TableSnapshot
from onceproof.engine.state.stored import EncodedTable
from onceproof.engine.state.timers import EVENT_TIMERS, PROCESSING_TIMERS
from onceproof.engine.state.ttl_states import TtlSingleValueState
from onceproof.engine.task.unaligned_task import InFlightRecorder, UnalignedTask
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="unregistered-state-is-not-carried",
    origin="BEAM-7144",
    breaks="exactly_once",
    summary="restored state that a job has not registered again by the next snapshot is not in it",
    families=("questions",),
)
def unregistered_state_is_not_carried(reached: Reached) -> Iterator[None]:
    """Some state is registered with the first record that needs it."""
    snapshot = HashMapStateBackend.snapshot

    def registered_only(self: HashMapStateBackend, checkpoint_id: int | None = None) -> KeyedSnapshot:
        taken = snapshot(self, checkpoint_id)
        if any(table.groups for table in taken.carried.values()):
            reached()
            taken.carried = {}
        return taken

    with replaced(HashMapStateBackend, "snapshot", registered_only):
        yield


@mutant(
    id="deleted-keys-come-back",
    origin="KAFKA-8446",
    breaks="exactly_once",
    summary="a snapshot adds to the one before, and what was removed since is not removed from it",
)
def deleted_keys_come_back(reached: Reached) -> Iterator[None]:
    """After a restore keys have state that was cleared."""
    snapshot = HashMapStateBackend.table_snapshot
    before: dict[tuple[int, str], tuple[HashMapStateBackend, dict[Any, Any]]] = {}

    def adding(self: HashMapStateBackend, registered: Registered) -> TableSnapshot:
        taken = snapshot(self, registered)
        if taken.name.startswith((EVENT_TIMERS, PROCESSING_TIMERS)):
            return taken
        place = (id(self), taken.name)
        earlier = before[place][1] if place in before else {}
        if not earlier.keys() <= taken.entries.keys():
            reached()
        taken.entries = {**earlier, **taken.entries}
        before[place] = self, taken.entries
        return taken

    with replaced(HashMapStateBackend, "table_snapshot", adding):
        yield


@mutant(
    id="cleanup-trusts-the-times-of-the-restore",
    origin="FLINK-10132",
    breaks="exactly_once",
    summary="what had expired at a restore is removed by the next cleanup, though it was written since",
)
def cleanup_trusts_the_times_of_the_restore(reached: Reached) -> Iterator[None]:
    """The restore lists expired values for the cleanup, which does not look at their times again."""
    open_table, drop = HashMapStateBackend._open_table, TtlSingleValueState.drop_expired
    listed: dict[int, tuple[Any, set[Any]]] = {}

    def listing(self: HashMapStateBackend, registered: Registered) -> Any:
        table = open_table(self, registered)
        if registered.ttl is not None and registered.kind in TABLE_OF_VALUES:
            assert self._clock is not None
            last_expired = self._clock() - registered.ttl.ttl_ms
            listed[id(table)] = table, {each for each in table if table[each][1] <= last_expired}
        return table

    def dropping(self: TtlSingleValueState, entry: Any) -> None:
        _, expired = listed.get(id(self._table), (None, set()))
        if entry not in expired:
            drop(self, entry)
            return
        expired.discard(entry)
        held = self._table.pop(entry, None)
        if held is not None and not self._life.has_expired(held):
            reached()

    with (
        replaced(HashMapStateBackend, "_open_table", listing),
        replaced(TtlSingleValueState, "drop_expired", dropping),
    ):
        yield


@mutant(
    id="skipped-key-group-ends-the-read",
    origin="FLINK-19748",
    breaks="exactly_once",
    summary="a restore reads the key groups of a table up to the first that is empty, and no further",
)
def skipped_key_group_ends_the_read(reached: Reached) -> Iterator[None]:
    """The keys behind it start from empty state."""
    within = EncodedTable.within

    def up_to_a_gap(self: EncodedTable, low: int, high: int) -> EncodedTable:
        part = within(self, low, high)
        first = min(part.groups, default=0)
        kept = [group for place, group in enumerate(sorted(part.groups)) if group == first + place]
        if len(kept) == len(part.groups):
            return part
        reached()
        counts = {group: part.counts[group] for group in kept}
        return replace(part, counts=counts, groups={group: part.groups[group] for group in kept})

    with replaced(EncodedTable, "within", up_to_a_gap):
        yield


@mutant(
    id="committables-of-one-subtask-replace-those-of-another",
    origin="FLINK-29627",
    breaks="exactly_once",
    summary="of the committables that several old subtasks list for a checkpoint the last ones are restored",
)
def committables_replace_each_other(reached: Reached) -> Iterator[None]:
    """They are kept by checkpoint. With as many subtasks as before, each restores one list."""
    restore = CommittableCollector.restore

    def replacing(self: CommittableCollector, stored: Iterable[Sequence[Any]]) -> None:
        for checkpoint_id, subtask, *rest in stored:
            known = self._batches.get(checkpoint_id)
            if known and subtask not in known:
                reached()
                self._batches[checkpoint_id] = {}
            restore(self, [(checkpoint_id, subtask, *rest)])

    with replaced(CommittableCollector, "restore", replacing):
        yield


@mutant(
    id="batches-are-numbered-anew-after-a-rescale",
    origin="SPARK-25331",
    breaks="exactly_once",
    summary="a restored write-ahead sink names the batches of other subtasks by its own number",
    families=("word_batches",),
)
def batches_are_numbered_anew(reached: Reached) -> Iterator[None]:
    """The target takes one for a batch that it has, or does not recognise one that it has."""
    restored = GenericWriteAheadSink._restored

    def by_own_number(self: GenericWriteAheadSink, stored: Sequence[Any]) -> PendingBatch:
        batch = restored(self, stored)
        subtask = self.get_runtime_context().get_index_of_this_subtask()
        if batch.subtask != subtask:
            reached()
        return replace(batch, subtask=subtask)

    with replaced(GenericWriteAheadSink, "_restored", by_own_number):
        yield


@mutant(
    id="second-input-in-flight-is-not-stored",
    origin="FLINK-18139",
    breaks="exactly_once",
    summary="records in flight to the second input of a task are not stored by the task that reads them",
)
def second_input_in_flight_is_not_stored(reached: Reached) -> Iterator[None]:
    """The channels are counted anew for each input, so the same first ones are asked."""
    name, add = UnalignedTask.name_channels, InFlightRecorder._add
    second: set[ChannelId] = set()

    def naming(self: UnalignedTask, inputs: tuple[ChannelId, ...], *outputs: Any) -> None:
        second.update([each for each, number in zip(inputs, self.queue_input, strict=True) if number])
        name(self, inputs, *outputs)

    def of_the_first(self: InFlightRecorder, channel: ChannelId, buffers: list[Buffer]) -> None:
        if channel not in second:
            add(self, channel, buffers)
        elif buffers:
            reached()

    with (
        replaced(UnalignedTask, "name_channels", naming),
        replaced(InFlightRecorder, "_add", of_the_first),
    ):
        yield


@mutant(
    id="any-barrier-ends-the-recording",
    origin="FLINK-20645",
    breaks="exactly_once",
    summary="the barrier of an aborted checkpoint ends the recording of a channel for the next one",
)
def any_barrier_ends_the_recording(reached: Reached) -> Iterator[None]:
    """Records behind it are ahead of the right barrier, and are not stored."""
    reading = InFlightRecorder.reading

    def at_any(self: InFlightRecorder, channel: int, element: Element) -> None:
        reading(self, channel, element)
        if type(element) is CheckpointBarrier and channel in self._expected:
            reached()
            self._expected.discard(channel)

    with replaced(InFlightRecorder, "reading", at_any):
        yield


@mutant(
    id="restored-requests-without-room-are-dropped",
    origin="FLINK-7949",
    breaks="exactly_once",
    summary="of the restored values those that find no room among the requests are dropped",
    families=("async_lookups",),
)
def restored_requests_without_room_are_dropped(reached: Reached) -> Iterator[None]:
    """A snapshot has one more than the capacity where a value waited for room."""
    open_operator = AsyncWaitOperator.open

    def dropping(self: AsyncWaitOperator, context: OperatorContext) -> None:
        open_operator(self, context)
        if self._backlog:
            reached()
            self._backlog.clear()

    with replaced(AsyncWaitOperator, "open", dropping):
        yield
