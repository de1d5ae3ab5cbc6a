"""Mutants of unaligned checkpoints and counted barriers: records in flight are lost or repeated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

import onceproof.engine.checkpoint.in_flight_redistribution as redistribution
import onceproof.engine.task.unaligned_task as recording
from onceproof.engine.checkpoint.in_flight_redistribution import KeyFilter
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, StateHandle
from onceproof.engine.elements import Buffer, Record
from onceproof.engine.state.in_flight import ChannelId, detached
from onceproof.engine.task.barriers.events import BarrierEffect
from onceproof.engine.task.barriers.tracker import BarrierCount
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.task.events import Restore
from onceproof.engine.task.outputs import Queue
from onceproof.engine.task.task import Task
from onceproof.engine.task.unaligned_task import InFlightRecorder
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import SMALL_JOBS, Reached, mutant


@mutant(
    id="FLINK-31963",
    breaks="exactly_once",
    summary="records in flight of tasks without state are left out when state is redistributed",
    families=SMALL_JOBS,
)
def stateless_tasks_are_skipped(reached: Reached) -> Iterator[None]:
    """The redistribution iterates over operators with state, and in-flight records belong to no operator."""
    stored_channels = redistribution._stored_channels

    def of_stateful(metadata: CheckpointMetadata) -> dict[ChannelId, StateHandle]:
        found = stored_channels(metadata)
        stateful = {
            channel: handle
            for channel, handle in found.items()
            if any(index.has_state for index in handle.index.values())
        }
        if len(stateful) < len(found):
            reached()
        return stateful

    with replaced(redistribution, "_stored_channels", of_stateful):
        yield


@mutant(
    id="unaligned-snapshot-too-late",
    breaks="exactly_once",
    summary="records behind an overtaking barrier are processed before the snapshot is taken",
)
def snapshot_waits_for_the_last_barrier(reached: Reached) -> Iterator[None]:
    """The barrier is forwarded at once and blocks no channel; the snapshot waits for all barriers."""
    go_on = UnalignedBarrierHandler._go_on_unaligned

    def late(self: UnalignedBarrierHandler, effects: list[BarrierEffect]) -> None:
        if self._has_started or len(self._delivered) >= self._target:
            go_on(self, effects)
        else:
            reached()
            self._promote(effects)

    with replaced(UnalignedBarrierHandler, "_go_on_unaligned", late):
        yield


@mutant(
    id="output-records-lost",
    breaks="exactly_once",
    summary="records that a barrier overtakes in the output queues of a task are not stored",
)
def overtaken_output_is_lost(reached: Reached) -> Iterator[None]:
    """The sender treats them as sent, and the receiver has not received them yet."""

    def sent(self: InFlightRecorder, channel: ChannelId, buffers: list[Buffer]) -> None:
        if buffers:
            reached()

    with replaced(InFlightRecorder, "sent", sent):
        yield


@mutant(
    id="timed-out-records-lost",
    breaks="exactly_once",
    summary="records that an announced barrier overtakes after its alignment timeout are not stored",
)
def promoted_barrier_takes_nothing(reached: Reached) -> Iterator[None]:
    """A checkpoint that starts aligned is treated as one without records in flight."""
    overtake = InFlightRecorder.overtake

    def without_records(self: InFlightRecorder, channel: int, queue: Queue) -> None:
        before = {name: list(buffers) for name, buffers in self._records.items()}
        overtake(self, channel, queue)
        if self._records != before:
            reached()
            self._records = before

    with replaced(InFlightRecorder, "overtake", without_records):
        yield


@mutant(
    id="in-flight-behind-new-records",
    breaks="exactly_once",
    summary="restored records in flight come after records that upstream tasks have sent since the restart",
)
def restored_records_come_late(reached: Reached) -> Iterator[None]:
    """They are appended to the channels like newly arriving records."""
    restore = Task.restore

    def queued(self: Task, event: Restore) -> Any:
        for channel, records in event.in_flight:
            if self.queues[channel]:
                reached()
            self.queues[channel].append(records)
        return restore(self, replace(event, in_flight=()))

    with replaced(Task, "restore", queued):
        yield


@mutant(
    id="in-flight-not-filtered",
    breaks="exactly_once",
    summary="subtasks that take over the same records in flight all keep all of them",
)
def receivers_keep_all_in_flight_records(reached: Reached) -> Iterator[None]:
    """After a rescale of a keyed edge several receivers restore the same channel."""
    keep = KeyFilter.keep

    def all_of_them(self: KeyFilter, records: Iterable[Record]) -> list[Record]:
        records = list(records)
        if len(keep(self, records)) < len(records):
            reached()
        return records

    with replaced(KeyFilter, "keep", all_of_them):
        yield


@mutant(
    id="barrier-counted-twice",
    breaks="mode",
    summary="at-least-once counts a barrier for two channels",
)
def barrier_counts_twice(reached: Reached) -> Iterator[None]:
    """The snapshot lacks records ahead of a barrier that has not arrived, and they are not read again."""
    count = BarrierCount.count

    def twice(self: BarrierCount, channel: int) -> bool:
        self.channels.add((channel + 1) % self.target)
        is_complete = count(self, channel)
        if is_complete:
            reached()
        return is_complete

    with replaced(BarrierCount, "count", twice):
        yield


@mutant(
    id="records-in-flight-are-shared",
    breaks="exactly_once",
    summary="a snapshot shares its records in flight with the operator that reads them and may change them",
    families=("word_bundles",),
)
def records_in_flight_are_shared(reached: Reached) -> Iterator[None]:
    """They are stored later, with the changes that the operator has made."""

    def shared(buffer: Buffer) -> Buffer:
        if any(copy is not record for copy, record in zip(detached(buffer), buffer, strict=True)):
            reached()
        return buffer

    with replaced(recording, "detached", shared):
        yield
