"""The fault clock: which fault strikes at which pass, over the deaths of processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.fault_clock import ClockState, FaultClock, ProcessFaultClock, Waiting


class Watched(ProcessFaultClock):
    """A fault clock that records each strike."""

    def __init__(self, *faults, in_turn=False, waiting=None):
        self.struck = []
        self.safe = set()
        super().__init__(
            faults,
            in_turn,
            waiting or ClockState(),
            self.strikes,
            lambda fault, task: task not in self.safe,
        )

    def strikes(self, number, fault, task):
        self.struck.append((number, task))


def test_a_fault_strikes_once_at_its_turn_by_task_and_checkpoint():
    points = Watched(Fault("kill_process", "committing", "sink-1", checkpoint=2, occurrence=2))
    passes = [("sink-0", 2), ("sink-1", 1), ("sink-1", 2), ("sink-0", 3), ("sink-1", 2), ("sink-1", 2)]
    for place, (task, checkpoint) in enumerate(passes):
        points.probe("committing", task, checkpoint)
        assert points.struck == ([(0, "sink-1")] if place >= 4 else [])
    assert points.points == {"committing": 6}


def test_a_fault_strikes_the_next_checkpoint_where_its_own_was_aborted():
    points = Watched(Fault("kill_process", "completed", checkpoint=2))
    points.probe("completed", "coordinator", 1)
    assert points.struck == []
    points.probe("completed", "coordinator", 4)
    assert points.struck == [(0, "coordinator")]


def test_passes_of_other_points_do_not_count():
    points = Watched(Fault("kill_process", "committing"))
    points.probe("committed", "sink-0", 1)
    assert points.struck == []


def test_next_process_continues_the_counts_of_the_one_before():
    faults = (Fault("kill_process", "restoring"), Fault("kill_process", "element", occurrence=3))
    first = Watched(*faults)
    first.probe("element", "a", 0)
    first.probe("restoring", "a", 0)
    second = Watched(*faults, waiting=first.state())
    second.probe("restoring", "a", 0)
    second.probe("element", "a", 0)
    assert second.struck == []
    second.probe("element", "b", 0)
    assert second.struck == [(1, "b")]
    assert second.state().left == (0, 0)


def test_after_counts_further_passes_of_any_point_over_processes():
    fault = Fault("kill_all", "completed", after=3)
    first = Watched(fault)
    first.probe("completed", "coordinator", 1)
    first.probe("element", "a", 0)
    assert first.struck == []
    second = Watched(fault, waiting=first.state())
    second.probe("element", "a", 0)
    assert second.struck == []
    second.probe("element", "a", 0)
    assert second.struck == [(0, "coordinator")]
    second.probe("completed", "coordinator", 2)
    assert len(second.struck) == 1


def test_two_strikes_due_at_one_pass_take_two_passes():
    points = Watched(Fault("kill_task", "element", after=1), Fault("kill_task", "element", after=1))
    points.probe("element", "a", 0)
    points.probe("element", "b", 0)
    assert points.struck == [(0, "a")]
    points.probe("notified", "c", 0)
    assert points.struck == [(0, "a"), (1, "b")]


def test_in_turn_a_fault_waits_only_once_the_one_before_has_struck():
    points = Watched(Fault("kill_task", "notified"), Fault("kill_process", "element"), in_turn=True)
    points.probe("element", "a", 0)
    assert points.struck == []
    points.probe("notified", "a", 1)
    points.probe("element", "b", 0)
    assert points.struck == [(0, "a"), (1, "b")]


def test_in_turn_a_delayed_strike_holds_the_next_fault_back():
    points = Watched(Fault("kill_task", "notified", after=2), Fault("kill_process", "element"), in_turn=True)
    points.probe("notified", "a", 1)
    points.probe("element", "a", 0)
    assert points.struck == []
    points.probe("restored", "b", 0)
    points.probe("element", "c", 0)
    assert points.struck == [(0, "a"), (1, "c")]


@pytest.mark.parametrize(
    "kind", sorted(kind for kind, row in FAULTS.items() if row.strikes == "commit" and row.delay == "none")
)
def test_a_commit_fails_once_and_is_no_kill(kind):
    points = Watched(Fault(kind, "committing", "sink-0"))
    points.probe("committing", "sink-0", 1)
    assert points.struck == []
    assert points.other_at("committing", "sink-1", 0) is None
    assert points.other_at("committing", "sink-0", 0).kind == kind
    assert points.other_at("committing", "sink-0", 0) is None
    assert points.struck == [(0, "sink-0")]


@pytest.mark.parametrize("in_turn", [False, True])
def test_pass_of_a_strike_is_not_counted_by_later_faults(in_turn):
    faults = (Fault("kill_task", "element"), Fault("kill_task", "element", occurrence=2))
    points = Watched(*faults, in_turn=in_turn)
    for task in "abcd":
        points.probe("element", task, 0)
    assert points.struck == [(0, "a"), (1, "c")]


def test_a_pass_at_which_a_fault_cannot_strike_does_not_count():
    points = Watched(Fault("kill_task", "element", occurrence=2))
    points.safe.add("a")
    for task in "abacb":
        points.probe("element", task, 0)
    assert points.struck == [(0, "c")]


def test_delayed_strike_waits_for_a_pass_at_which_it_can_strike():
    points = Watched(Fault("kill_task", "element", "a", after=1), Fault("kill_task", "element", "b", after=2))
    points.probe("element", "a", 0)
    points.probe("element", "b", 0)
    points.struck.clear()
    points.safe.add("b")
    for _ in range(4):
        points.probe("notified", "c", 0)
    assert points.struck == []
    points.safe.clear()
    points.probe("notified", "c", 0)
    assert points.struck == [(1, "b")]


def test_write_fault_waits_for_its_point_task_and_checkpoint():
    points = Watched(Fault("tear_write", "snapshotted", "a", checkpoint=2))
    asked = [("metadata_written", "a", 2), ("snapshotted", "b", 2), ("snapshotted", "a", 1)]
    assert [points.other_at(*each) for each in asked] == [None] * 3
    assert points.other_at("snapshotted", "a", 2).kind == "tear_write"
    assert points.other_at("snapshotted", "a", 2) is None
    assert points.struck == [(0, "a")]


TASKS = ("a", "b")
CLOCK_POINTS = ("element", "notified")
KILL = st.builds(
    Fault,
    st.just("kill_task"),
    st.sampled_from(CLOCK_POINTS),
    st.sampled_from((*TASKS, "*")),
    st.integers(0, 2),
    st.integers(1, 4),
)
PASSES = st.lists(st.tuples(st.sampled_from(CLOCK_POINTS), st.sampled_from(TASKS), st.integers(0, 2)))


@given(st.lists(KILL, max_size=5).map(tuple), PASSES)
def test_simulation_and_processes_count_alike(faults, passes):
    plain = [Waiting(fault) for fault in faults]
    clock, points = FaultClock(faults), Watched(*faults)
    for point, task, checkpoint in passes:
        waiting = [each for each in plain if each.wanted.point == point and each.left]
        hit = next((each.wanted for each in waiting if each.is_hit(task, checkpoint)), None)
        assert clock.pass_at(point, task, checkpoint) == hit
        points.struck.clear()
        points.probe(point, task, checkpoint)
        assert [faults[number] for number, _ in points.struck] == ([] if hit is None else [hit])
    assert points.state().left == tuple(each.left for each in plain)
    still = {each.wanted.point for each in plain if each.left}
    assert set(clock.at_passes) == set(points.at_passes) == still


def test_nothing_strikes_once_all_faults_count_as_hit():
    faults = (Fault("kill_process", "element"), Fault("kill_process", "committed", occurrence=3, after=2))
    points = Watched(*faults, waiting=ClockState.all_hit(len(faults)))
    for _ in range(5):
        points.probe("element", "a", 0)
        points.probe("committed", "a", 1)
    assert points.struck == []
