"""Replays the barrier handlers of a simulated run through their specification, live.

Rules:

- A watched handler answers as the engine's does, to each event and each trigger.
- What it decides is also looked for where the task must carry it out: the barrier of a snapshot stands in
  every output, ahead of all records where it overtakes; a time-out has a timer; a checkpoint that is given up
  is declined, with a marker in every output (seen at the next event of the task).
"""

from __future__ import annotations

from typing import Any, Final

from onceproof.engine.elements import CancelCheckpointMarker, CheckpointBarrier
from onceproof.engine.graph import JobVertex
from onceproof.engine.messages import TaskId
from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    AlignmentTimeOut,
    BarrierAnnounced,
    BarrierArrived,
    BarrierEffect,
    BarrierEvent,
    StartAlignmentTimer,
    StartCheckpoint,
)
from onceproof.engine.task.barriers.tracker import BarrierTracker
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.task.task import RUNNING, Task
from onceproof.harness.specifications.barriers import BarrierRules, goes_ahead_behind
from onceproof.harness.systems.simulation.deviations import Deviations


class BarrierWatch:
    """Compares the barrier handler of one task with its specification."""

    __slots__ = (
        "_is_timer",
        "_may_overtake",
        "_name",
        "_rules",
        "_specification",
        "_to_decline",
        "_vertex",
        "_waits_since",
        "_waits_until",
        "_watch",
        "taken",
        "task",
        "timers",
    )

    def __init__(
        self,
        watch: Deviations,
        task: TaskId,
        vertex: JobVertex,
        channels: int,
        rules: BarrierRules,
        may_overtake: dict[int, bool],
    ) -> None:
        self._watch = watch
        self._name = f"barriers of {vertex.name}-{task.subtask}"
        self._vertex = vertex
        self._specification = rules.specification(channels)
        self._rules = rules
        self._may_overtake = may_overtake
        self.taken: CheckpointBarrier | None = None
        """The barrier of a checkpoint whose snapshot is to be taken now."""
        self.task: Task | None = None
        self.timers: list[int] = []
        """When the task is to be woken."""
        self._waits_until: int | None = None
        """When the time-out of the alignment is due."""
        self._waits_since = 0
        self._is_timer = False
        """Whether a timer has taken the snapshot: then other timers may emit records behind its barrier."""
        self._to_decline: dict[int, int] = {}
        """By checkpoint that the handler has given up and the task not yet declined, the step of that."""

    def handled(self, event: BarrierEvent, now: int, got: list[BarrierEffect], blocked: list[bool]) -> None:
        """Judge what the handler has answered to an event."""
        if self._watch.has_deviated:
            return
        if type(event) is BarrierArrived or type(event) is BarrierAnnounced:
            self._judge_options(event.barrier, self._may_overtake[self._vertex.index])
        self._compare(event, self._specification.handle(event, now), got, blocked)

    def triggered(
        self, barrier: CheckpointBarrier, now: int, got: list[BarrierEffect], blocked: list[bool]
    ) -> None:
        """Judge what the handler has answered to a trigger."""
        if self._watch.has_deviated:
            return
        self._judge_options(barrier, True)
        self._compare(barrier, self._specification.trigger(barrier, now), got, blocked)

    def closed(self) -> None:
        """Note the end of the task."""
        self._specification.close()

    def _judge_options(self, barrier: CheckpointBarrier, may_overtake: bool) -> None:
        expected = self._rules.mismatch(barrier.kind, barrier.options, may_overtake)
        if expected is not None:
            self._watch.deviate(self._name, barrier, expected, barrier.options)

    def _compare(
        self, event: Any, expected: list[BarrierEffect], got: list[BarrierEffect], blocked: list[bool]
    ) -> None:
        if self._waits_until is not None and self._watch.step > self._waits_since:
            self._await_timer(event, self._waits_until)
        for checkpoint_id, step in self._to_decline.items():
            if step < self._watch.step:
                self._watch.deviate(self._name, event, f"checkpoint {checkpoint_id} declined", "it is not")
        if got != expected:
            self._watch.deviate(self._name, event, expected, got)
        specification = self._specification
        if not specification.blocked and True not in blocked:
            self._note(event, got)
            return
        waits = {channel for channel, is_blocked in enumerate(blocked) if is_blocked} - specification.ended
        if waits != specification.blocked:
            self._watch.deviate(
                self._name, event, f"channels wait: {set(specification.blocked)}", f"channels wait: {waits}"
            )
        self._note(event, got)

    def _await_timer(self, event: Any, due_ms: int) -> None:
        """Judge whether the task is to be woken for a time-out; it asks at the end of its step."""
        if type(event) is AlignmentTimeOut or not self._runs:
            self._waits_until = None
        elif min(self.timers, default=due_ms + 1) > due_ms:
            self._watch.deviate(self._name, event, f"a timer by {due_ms} ms", f"timers at {self.timers}")

    def _note(self, event: Any, got: list[BarrierEffect]) -> None:
        for effect in got:
            if type(effect) is StartCheckpoint:
                self.taken = effect.barrier
                self._is_timer = type(event) is AlignmentTimeOut
            elif type(effect) is AbortCheckpoint:
                self._to_decline[effect.checkpoint_id] = self._watch.step
            elif type(effect) is StartAlignmentTimer and self._runs:
                self._waits_until = effect.due_ms
                self._waits_since = self._watch.step

    @property
    def _runs(self) -> bool:
        return self.task is not None and self.task.state is RUNNING

    def declined(self, task: Task, checkpoint_id: int) -> None:
        """Judge whether the tasks behind one that gives a checkpoint up hear of it.

        They do not hear of a snapshot that could not be stored: its barrier has passed.
        """
        if self._to_decline.pop(checkpoint_id, None) is None:
            return
        marker = CancelCheckpointMarker(checkpoint_id)
        for edge, output in zip(self._vertex.outputs, task.outputs, strict=True):
            if not all(marker in queue for queue in output.queues):
                what = f"checkpoint {checkpoint_id} declined, the edge to vertex {edge.target}"
                self._watch.deviate(self._name, what, "a marker in every output", "no marker in one")

    def snapshot_taken(self, task: Task, checkpoint_id: int) -> None:
        """Judge where the task has put the barrier of a snapshot in its outputs."""
        taken, self.taken = self.taken, None
        if taken is None or taken.checkpoint_id != checkpoint_id:
            return
        overtakes = goes_ahead_behind(taken)
        for edge, output in zip(self._vertex.outputs, task.outputs, strict=True):
            goes_ahead = overtakes and self._may_overtake[edge.target]
            for queue in output.queues:
                kinds = [
                    "barrier"
                    if type(each) is CheckpointBarrier and each.checkpoint_id == checkpoint_id
                    else "records"
                    if type(each) is list
                    else "other"
                    for each in queue
                ]
                place = kinds.index("barrier") if "barrier" in kinds else None
                if place is None:
                    self._deviate(checkpoint_id, "in every output", "not in one", edge)
                elif goes_ahead and "records" in kinds[:place]:
                    self._deviate(checkpoint_id, "ahead of all records", "behind some", edge)
                elif not goes_ahead and not self._is_timer and "records" in kinds[place:]:
                    self._deviate(checkpoint_id, "behind all records", "ahead of some", edge)

    def _deviate(self, checkpoint_id: int, expected: str, got: str, edge: Any) -> None:
        what = f"snapshot {checkpoint_id}, the edge to vertex {edge.target}"
        self._watch.deviate(self._name, what, f"its barrier {expected}", f"its barrier {got}")


class _Watched:
    """What watched handlers have in common: they answer as the engine's do."""

    __slots__ = ()
    watch: BarrierWatch
    blocked: list[bool]

    def handle(self, event: BarrierEvent, now: int) -> list[BarrierEffect]:
        effects: list[BarrierEffect] = super().handle(event, now)  # type: ignore[misc]
        self.watch.handled(event, now, effects, self.blocked)
        return effects

    def trigger(self, barrier: CheckpointBarrier, now: int = 0) -> list[BarrierEffect]:
        effects: list[BarrierEffect] = super().trigger(barrier, now)  # type: ignore[misc]
        self.watch.triggered(barrier, now, effects, self.blocked)
        return effects

    def close(self) -> None:
        super().close()  # type: ignore[misc]
        self.watch.closed()


class WatchedAligned(_Watched, AlignedBarrierHandler):
    """An aligned handler that is watched."""

    __slots__ = ("watch",)


class WatchedUnaligned(_Watched, UnalignedBarrierHandler):
    """A handler of barriers that overtake, which is watched."""

    __slots__ = ("watch",)


class WatchedTracker(_Watched, BarrierTracker):
    """A handler that only counts barriers, which is watched."""

    __slots__ = ("watch",)


WATCHED: Final[dict[type, type[WatchedAligned | WatchedUnaligned | WatchedTracker]]] = {
    AlignedBarrierHandler: WatchedAligned,
    UnalignedBarrierHandler: WatchedUnaligned,
    BarrierTracker: WatchedTracker,
}
