"""Mutants of input without an end: sources that wait, and the stop that drains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from onceproof.engine.elements import Record
from onceproof.engine.functions import FunctionSnapshotContext
from onceproof.engine.messages import TriggerCheckpoint
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.task.events import TaskEffect
from onceproof.engine.task.task import Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

FAMILIES = ("word_count", "page_views", "window_sum")
DISCOVERING = ("deduplication", "questions", "last_words", "running_sum")


@mutant(
    id="source-that-waits-has-ended",
    breaks="exactly_once",
    summary="a source that has nothing now ends its data",
    families=FAMILIES,
)
def source_that_waits_has_ended(reached: Reached) -> Iterator[None]:
    """What arrives later is never read."""
    sound: Any = vars(SourceOperator)["exhausted"]

    def impatient(self: SourceOperator) -> bool:
        if self.waits:
            reached()
        return self.waits or bool(sound.fget(self))

    with replaced(SourceOperator, "exhausted", property(impatient)):
        yield


@mutant(
    id="drained-source-reads-on",
    breaks="liveness",
    summary="a source goes on reading behind the savepoint with which its job was drained",
    families=FAMILIES,
)
def drained_source_reads_on(reached: Reached) -> Iterator[None]:
    """The job that is started from the savepoint never ends."""
    sound = SourceOperator.open

    def forgetful(self: SourceOperator, context: OperatorContext) -> None:
        if context.has_finished and not self.source.is_bounded:
            reached()
        context.has_finished = False
        sound(self, context)

    with replaced(SourceOperator, "open", forgetful):
        yield


@mutant(
    id="drain-is-a-plain-stop",
    breaks="exactly_once",
    summary="a stop that drains stops the sources without ending their data",
    families=FAMILIES,
)
def drain_is_a_plain_stop(reached: Reached) -> Iterator[None]:
    """Windows and timers that are open stay open."""
    sound = Task.trigger

    def plain(self: Task, message: TriggerCheckpoint) -> Sequence[TaskEffect]:
        if message.drains:
            reached()
            message = replace(message, drains=False)
        return sound(self, message)

    with replaced(Task, "trigger", plain):
        yield


@mutant(
    id="empty-split-hides-the-others",
    breaks="liveness",
    summary="a source waits as soon as one of its splits has nothing, though another has records",
    families=FAMILIES,
)
def empty_split_hides_the_others(reached: Reached) -> Iterator[None]:
    """Nothing wakes it for the records that have arrived before."""
    sound = SourceOperator.poll

    def first_only(self: SourceOperator, limit: int) -> list[Record]:
        place = self._next
        split: Any = self._readers[place : place + 1]
        before = [reader.position for _, reader in split]
        if not split or split[0][1].exhausted:
            return sound(self, limit)
        records: list[Record] = split[0][1].read(limit)
        self._next = (place + 1) % len(self._readers)
        if records:
            self._polled = place
            self.records_read += len(records)
            return records
        assert before == [reader.position for _, reader in split]
        self._unfinished = self._count_unfinished()
        self.waits = self._unfinished > 0
        if self.waits and len(self._readers) > 1:
            reached()
        return []

    with replaced(SourceOperator, "poll", first_only):
        yield


@mutant(
    id="split-of-another-subtask-is-discovered-again",
    breaks="exactly_once",
    summary="a restored source takes splits for new that other subtasks read",
    families=DISCOVERING,
)
def split_of_another_subtask_is_discovered_again(reached: Reached) -> Iterator[None]:
    """A subtask knows only the splits that it reads itself."""
    sound = SourceOperator._discover

    def forgetful(self: SourceOperator, context: OperatorContext, interval_ms: int) -> None:
        assert self._known is not None
        own = [split for split, _ in self._readers]
        if set(own) != set(self._known.get()):
            reached()
            self._known.update(own or [""])
        sound(self, context, interval_ms)

    with replaced(SourceOperator, "_discover", forgetful):
        yield


@mutant(
    id="discovered-split-is-not-in-the-checkpoint",
    breaks="exactly_once",
    summary="a source that has discovered a split does not write its name into checkpoints",
    families=DISCOVERING,
)
def discovered_split_is_not_in_the_checkpoint(reached: Reached) -> Iterator[None]:
    """A restored job discovers it again, in the subtask that owns it, from its beginning."""
    sound = SourceOperator.snapshot_state

    def forgetful(self: SourceOperator, context: FunctionSnapshotContext) -> None:
        sound(self, context)
        found = set() if self._discovery is None else self._discovery._seen
        if self._known is not None and found:
            reached()
            self._known.update([split for split, _ in self._readers if split not in found])

    with replaced(SourceOperator, "snapshot_state", forgetful):
        yield
