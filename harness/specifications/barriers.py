"""Barriers of a task with several inputs: when it takes its snapshot, and which channels wait (semantics 8).

Rules of barriers that block or overtake (``BarrierSpecification``):

- One checkpoint is under way at a time. It is over for this task once every channel has given its barrier or
  its end. Whatever belongs to a checkpoint that is over, or to an older one than that under way, is ignored.
- An aligned barrier blocks its channel until the checkpoint is over. Then the snapshot is taken.
- A barrier that overtakes blocks nothing: the snapshot is taken at the first one, and what is queued ahead
  of the others goes with it until the last one has come.
- With a time-out an aligned barrier is announced ahead of what it waits behind. Once the time since the
  trigger is over, which a timer or another barrier notices, the snapshot is taken and announced barriers
  overtake. A barrier that completes the alignment does not look at the clock.
- A younger checkpoint ends the older one, which is declined. So does a cancellation, and the coordinator's
  notice that it has given the checkpoint up; barriers that come behind either are declined or ignored.

Rules of barriers that are only counted (``TrackerSpecification``): nothing blocks, up to TRACKED checkpoints
are under way, one that is complete drops all older ones, and none is taken behind a younger one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.messages import (
    CHECKPOINT,
    DECLINED_INPUT_END_OF_STREAM,
    DECLINED_ON_CANCELLATION_BARRIER,
    DECLINED_SUBSUMED,
)
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    AbortNotified,
    AlignmentTimeOut,
    BarrierAnnounced,
    BarrierArrived,
    BarrierEffect,
    BarrierEvent,
    CancellationArrived,
    ChannelEnded,
    InFlightComplete,
    StartAlignmentTimer,
    StartCheckpoint,
    TakeInFlight,
)

TRACKED: Final = 50
NO_CHECKPOINT: Final = -1
OVERTAKES: Final = "UNALIGNED"
HELD_BACK: Final = "FORCED_ALIGNED"
TURNS: Final = "ALIGNED"
"""The alignment of a barrier that may turn into one that overtakes, if it has a time-out."""


@dataclass(slots=True)
class UnderWay:
    """What has come of one checkpoint."""

    barrier: CheckpointBarrier
    came: set[int] = field(default_factory=set)
    """The channels that gave their barrier, or their end for it."""
    blocked: set[int] = field(default_factory=set)
    announced: set[int] = field(default_factory=set)
    has_barrier: bool = False
    overtakes: bool = False
    is_taken: bool = False


@dataclass(slots=True)
class BarrierSpecification:
    """The barriers of one task over ``channels`` channels; ``counts_ends``: an end stands for a barrier."""

    channels: int
    counts_ends: bool = True
    ended: set[int] = field(default_factory=set)
    latest: int = NO_CHECKPOINT
    """The youngest checkpoint of which something has come."""
    under_way: UnderWay | None = None
    given_up: frozenset[int] = frozenset()

    @property
    def blocked(self) -> set[int]:
        """The channels that must wait."""
        return set() if self.under_way is None else self.under_way.blocked - self.ended

    def handle(self, event: BarrierEvent, now: int) -> list[BarrierEffect]:
        """Return the effects that the event must have."""
        match event:
            case BarrierArrived(channel=channel, barrier=barrier):
                return self._comes(barrier, channel, now)
            case BarrierAnnounced(channel=channel, barrier=barrier):
                return self._announced(barrier, channel, now)
            case AlignmentTimeOut(checkpoint_id=checkpoint_id):
                return self._timed_out(checkpoint_id)
            case CancellationArrived(checkpoint_id=checkpoint_id):
                is_over = self.under_way is None and checkpoint_id == self.latest
                return [] if is_over or checkpoint_id < self.latest else [self._declined(checkpoint_id)]
            case AbortNotified(checkpoint_id=checkpoint_id):
                return self._given_up(checkpoint_id)
            case ChannelEnded(channel=channel):
                return self._ends(channel)

    def trigger(self, barrier: CheckpointBarrier, now: int) -> list[BarrierEffect]:
        """Return the effects of a trigger, which stands for the barrier of every channel that has not ended.

        One of which barriers have come already is a repetition: it is sent where no upstream runs.
        """
        if barrier.checkpoint_id <= self.latest:
            return []
        open_channels = tuple(sorted(set(range(self.channels)) - self.ended))
        effects, known = self._begins(barrier, now)
        known.came.update(open_channels)
        known.has_barrier = True
        if _alignment(barrier) == OVERTAKES:
            effects += self._taken(known)
            effects.append(TakeInFlight(barrier.checkpoint_id, open_channels))
        return effects + self._complete(known)

    def close(self) -> None:
        """The task has finished, and nothing waits."""
        self.under_way = None

    def _comes(self, barrier: CheckpointBarrier, channel: int, now: int) -> list[BarrierEffect]:
        refused = self._refused(barrier.checkpoint_id)
        if refused is not None:
            return refused
        effects, known = self._begins(barrier, now)
        known.came.add(channel)
        known.announced.discard(channel)
        known.has_barrier = True
        overtakes = _alignment(barrier) == OVERTAKES
        if not overtakes:
            known.blocked.add(channel)
        timeout_ms = _timeout_ms(barrier)
        is_late = timeout_ms is not None and now - barrier.triggered_ms > timeout_ms
        is_last = self._is_last(known)
        if overtakes or known.overtakes or (is_late and not is_last):
            effects += self._taken(known)
        return effects + (self._complete(known) if is_last else [])

    def _announced(self, barrier: CheckpointBarrier, channel: int, now: int) -> list[BarrierEffect]:
        refused = self._refused(barrier.checkpoint_id)
        if refused is not None:
            return refused
        effects, known = self._begins(barrier, now)
        known.announced.add(channel)
        if _alignment(barrier) == OVERTAKES:
            known.has_barrier = True
            return effects + self._taken(known)
        return effects + (self._overtaken(known) if known.overtakes else [])

    def _timed_out(self, checkpoint_id: int) -> list[BarrierEffect]:
        known = self.under_way
        if known is None or checkpoint_id != self.latest or known.overtakes:
            return []
        return self._taken(known) if known.has_barrier else self._overtaken(known)

    def _given_up(self, checkpoint_id: int) -> list[BarrierEffect]:
        known, latest = self.under_way, self.latest
        if checkpoint_id > latest:
            self.given_up |= {checkpoint_id}
        return [self._declined(latest)] if known is not None and checkpoint_id >= latest else []

    def _ends(self, channel: int) -> list[BarrierEffect]:
        self.ended.add(channel)
        known = self.under_way
        if known is None:
            return []
        if not self.counts_ends:
            return [self._declined(self.latest, DECLINED_INPUT_END_OF_STREAM)]
        known.came.add(channel)
        return self._complete(known) if self._is_last(known) else []

    # What the rules have in common.

    def _is_last(self, known: UnderWay) -> bool:
        return len(known.came | self.ended) == self.channels

    def _is_over(self, checkpoint_id: int) -> bool:
        return checkpoint_id < self.latest or (checkpoint_id == self.latest and self.under_way is None)

    def _refused(self, checkpoint_id: int) -> list[BarrierEffect] | None:
        if self._is_over(checkpoint_id):
            return []
        if checkpoint_id not in self.given_up:
            return None
        older = [] if self.under_way is None else [self._declined(self.latest, DECLINED_SUBSUMED)]
        return [*older, self._declined(checkpoint_id)]

    def _begins(self, barrier: CheckpointBarrier, now: int) -> tuple[list[BarrierEffect], UnderWay]:
        checkpoint_id = barrier.checkpoint_id
        if self.under_way is not None and checkpoint_id == self.latest:
            return [], self.under_way
        effects: list[BarrierEffect] = []
        if self.under_way is not None:
            effects.append(self._declined(self.latest, DECLINED_SUBSUMED))
        self.latest = checkpoint_id
        known = self.under_way = UnderWay(barrier)
        self.given_up = frozenset(each for each in self.given_up if each > checkpoint_id)
        timeout_ms = _timeout_ms(barrier)
        if timeout_ms is not None:
            due_ms = max(now, barrier.triggered_ms + timeout_ms)
            effects.append(StartAlignmentTimer(due_ms, checkpoint_id))
        return effects, known

    def _taken(self, known: UnderWay) -> list[BarrierEffect]:
        if known.is_taken:
            return self._overtaken(known)
        known.is_taken = True
        return [StartCheckpoint(known.barrier.overtaking()), *self._overtaken(known)]

    def _overtaken(self, known: UnderWay) -> list[BarrierEffect]:
        announced, known.announced = tuple(sorted(known.announced)), set()
        known.overtakes = True
        return [TakeInFlight(self.latest, announced)] if announced else []

    def _complete(self, known: UnderWay) -> list[BarrierEffect]:
        self.under_way = None
        return [InFlightComplete(self.latest) if known.is_taken else StartCheckpoint(known.barrier)]

    def _declined(
        self, checkpoint_id: int, reason: str = DECLINED_ON_CANCELLATION_BARRIER
    ) -> AbortCheckpoint:
        self.latest, self.under_way = max(self.latest, checkpoint_id), None
        return AbortCheckpoint(checkpoint_id, reason)


@dataclass(slots=True)
class Count:
    """The channels that have given a barrier of a checkpoint; ``needed`` of them make it complete."""

    checkpoint_id: int
    needed: int
    came: set[int]
    is_declined: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all channels have given it."""
        return len(self.came) >= self.needed


@dataclass(slots=True)
class TrackerSpecification:
    """Barriers that are only counted, over ``channels`` channels."""

    channels: int
    counts_ends: bool = True
    ended: set[int] = field(default_factory=set)
    counts: list[Count] = field(default_factory=list)
    """Those under way, oldest first."""
    youngest: int = NO_CHECKPOINT
    taken: int = NO_CHECKPOINT
    """The youngest checkpoint that was taken."""
    barriers: dict[int, CheckpointBarrier] = field(default_factory=dict)

    @property
    def blocked(self) -> frozenset[int]:
        """No channel ever waits."""
        return frozenset()

    @property
    def _open(self) -> int:
        return self.channels - len(self.ended)

    def handle(self, event: BarrierEvent, now: int) -> list[BarrierEffect]:
        """Return the effects that the event must have."""
        match event:
            case BarrierArrived(channel=channel, barrier=barrier):
                return self._comes(barrier, channel)
            case CancellationArrived(channel=channel, checkpoint_id=checkpoint_id):
                return self._cancelled(channel, checkpoint_id)
            case ChannelEnded(channel=channel):
                return self._ends(channel)
            case _:
                return []

    def trigger(self, barrier: CheckpointBarrier, now: int) -> list[BarrierEffect]:
        """Return the effects of a trigger: it stands for the barriers of all channels that have not ended."""
        open_channels = [each for each in range(self.channels) if each not in self.ended]
        if len(open_channels) <= 1:
            self.counts.clear()
            return self._take(barrier)
        return [effect for channel in open_channels for effect in self._comes(barrier, channel)]

    def close(self) -> None:
        """The task has finished, and counts no more."""
        self.counts.clear()

    def _comes(self, barrier: CheckpointBarrier, channel: int) -> list[BarrierEffect]:
        checkpoint_id = barrier.checkpoint_id
        if not self.counts and self._open == 1:
            return self._take(barrier)
        known = next((each for each in self.counts if each.checkpoint_id == checkpoint_id), None)
        if known is None:
            if checkpoint_id <= self.youngest:
                return []
            self.youngest = checkpoint_id
            self.barriers[checkpoint_id] = barrier
            known = Count(checkpoint_id, self._open, set())
            self.counts = [*self.counts, known][-TRACKED:]
        known.came.add(channel)
        if not known.is_complete:
            return []
        self._drop_up_to(known)
        return [] if known.is_declined else self._take(barrier)

    def _cancelled(self, channel: int, checkpoint_id: int) -> list[BarrierEffect]:
        if not self.counts and self._open == 1:
            return [AbortCheckpoint(checkpoint_id, DECLINED_ON_CANCELLATION_BARRIER)]
        older = [each for each in self.counts if each.checkpoint_id < checkpoint_id]
        effects = self._decline(older)
        self.counts = self.counts[len(older) :]
        if self.counts and self.counts[0].checkpoint_id == checkpoint_id:
            known = self.counts[0]
            effects += self._decline([known])
        elif checkpoint_id > self.youngest:
            self.youngest = checkpoint_id
            known = Count(checkpoint_id, self._open, set())
            effects += self._decline([known])
            self.counts.insert(0, known)
        else:
            return effects
        known.came.add(channel)
        if known.is_complete:
            self._drop_up_to(known)
        return effects

    def _ends(self, channel: int) -> list[BarrierEffect]:
        self.ended.add(channel)
        if not self.counts_ends:
            declined, self.counts = self.counts, []
            return self._decline(declined, DECLINED_INPUT_END_OF_STREAM)
        for each in self.counts:
            each.came.add(channel)
        complete = [each for each in self.counts if each.is_complete]
        if not complete:
            return []
        self._drop_up_to(complete[-1])
        return [] if complete[-1].is_declined else self._take(self.barriers[complete[-1].checkpoint_id])

    def _drop_up_to(self, known: Count) -> None:
        self.counts = self.counts[self.counts.index(known) + 1 :]

    def _take(self, barrier: CheckpointBarrier) -> list[BarrierEffect]:
        if barrier.checkpoint_id <= self.taken:
            return []
        self.taken = barrier.checkpoint_id
        return [StartCheckpoint(barrier)]

    def _decline(
        self, counts: list[Count], reason: str = DECLINED_ON_CANCELLATION_BARRIER
    ) -> list[BarrierEffect]:
        effects: list[BarrierEffect] = []
        for each in counts:
            if not each.is_declined:
                each.is_declined = True
                effects.append(AbortCheckpoint(each.checkpoint_id, reason))
        return effects


Specification: TypeAlias = BarrierSpecification | TrackerSpecification


def _alignment(barrier: CheckpointBarrier) -> str:
    return str(barrier.options.alignment.value)


def _timeout_ms(barrier: CheckpointBarrier) -> int | None:
    """Return after how long the barrier begins to overtake, or None for never."""
    return barrier.options.aligned_timeout_ms if _alignment(barrier) == TURNS else None


def goes_ahead_behind(barrier: CheckpointBarrier) -> bool:
    """Return whether a barrier goes ahead of all records in the outputs of a task that takes its snapshot.

    One that could not overtake on the edge to this task goes on as one that does.
    """
    alignment = _alignment(barrier)
    is_held_back = alignment == HELD_BACK and barrier.options.aligned_timeout_ms is None
    return alignment == OVERTAKES or is_held_back


@dataclass(frozen=True, slots=True)
class BarrierRules:
    """How the job's settings let barriers travel: "aligned", "unaligned" or "at_least_once"."""

    barriers: str
    aligned_timeout_ms: int | None = None

    def specification(self, channels: int) -> Specification:
        """Return the specification of a task with so many channels."""
        return (TrackerSpecification if self.barriers == "at_least_once" else BarrierSpecification)(channels)

    @lru_cache(maxsize=256)  # noqa: B019 (there are few rules and few options)
    def mismatch(self, kind: str, options: Any, may_overtake: bool) -> str | None:
        """Return how else a barrier must travel on an edge; None if it may travel as it does.

        Savepoints never overtake. Nothing overtakes on an edge that does not let it, or towards a task with
        such an edge; there a barrier says that those behind may.
        """
        found = (str(options.alignment.value), options.aligned_timeout_ms)
        timeout_ms = self.aligned_timeout_ms or None
        allowed: tuple[tuple[str, int | None], ...]
        if self.barriers == "aligned" or kind != CHECKPOINT:
            allowed = (("ALIGNED", None),)
        elif self.barriers == "at_least_once":
            allowed = (("AT_LEAST_ONCE", None),)
        elif not may_overtake:
            allowed = ((HELD_BACK, timeout_ms), (HELD_BACK, None))
        else:
            allowed = ((OVERTAKES, None),) if timeout_ms is None else ((TURNS, timeout_ms), (OVERTAKES, None))
        return None if found in allowed else " or ".join(map(str, allowed))
