"""no_leaks, determinism and coverage, on hand-written histories and counts."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from onceproof.harness.checkers.coverage import CAMPAIGN, MODES, check_coverage, mode_point
from onceproof.harness.checkers.determinism import check_determinism
from onceproof.harness.checkers.no_leaks import NoLeaks
from onceproof.harness.model.fault_kinds import POINTS
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History

if TYPE_CHECKING:
    from tests.harness.conftest import Run

LEAKS = NoLeaks()
ALL_FIRED = {(kind, point): 1 for kind, row in FAULTS.items() for point in row.points}
ALL_PASSED = dict.fromkeys((*POINTS, *map(mode_point, MODES)), 7)


def test_a_finished_run_that_left_nothing_behind_passes(sound_run: Run) -> None:
    assert sound_run.check(LEAKS) == []


def test_each_kind_of_thing_left_behind_is_one_anomaly(sound_run: Run) -> None:
    sound_run.history.leak(90, "open transaction", "t0-4-2.2")
    sound_run.history.leak(90, "open transaction", "t1-4-2.2")
    sound_run.history.leak(90, "orphan file", "chk-3/state-7")
    assert sound_run.check(LEAKS) == [
        ("open transaction", "open transaction t0-4-2.2"),
        ("orphan file", "orphan file chk-3/state-7"),
    ]


def test_resources_of_an_unfinished_run_are_no_leak(run: Run) -> None:
    run.start("1.1")
    run.history.leak(90, "open transaction", "t0-0-1.1")
    assert run.check(LEAKS) == []


def test_two_runs_with_the_same_trace_are_deterministic(sound_run: Run) -> None:
    assert check_determinism(sound_run.history, deepcopy(sound_run.history)) == ()


def test_the_first_event_that_differs_is_the_witness(sound_run: Run) -> None:
    other = deepcopy(sound_run.history)
    other.trace_hash = "other"
    other.events[3] = (99, *other.events[3][1:])
    (violation,) = check_determinism(sound_run.history, other)
    assert violation.anomaly == "trace differs"
    assert violation.where.startswith("event 3, step ")


def test_a_run_that_ends_earlier_than_the_other_differs(sound_run: Run) -> None:
    other = deepcopy(sound_run.history)
    del other.events[-1]
    assert len(check_determinism(sound_run.history, other)) == 1


def test_different_steps_behind_the_same_events_differ() -> None:
    (violation,) = check_determinism(History(trace_hash="a"), History(trace_hash="b"))
    assert violation.where == "between two visible events"


def test_a_large_campaign_with_every_fault_and_point_is_covered() -> None:
    assert check_coverage(CAMPAIGN, ALL_FIRED, ALL_PASSED) == []


def test_a_planned_fault_that_never_fired_fails_a_large_campaign() -> None:
    fired = {**ALL_FIRED, ("tear_write", "metadata_written"): 0}
    (violation,) = check_coverage(CAMPAIGN, fired, ALL_PASSED)
    assert (violation.anomaly, violation.where) == ("fault never fired", "tear_write at metadata_written")


def test_a_point_that_no_task_passed_fails_a_large_campaign() -> None:
    passed = {**ALL_PASSED, "aborted": 0}
    (violation,) = check_coverage(CAMPAIGN, ALL_FIRED, passed)
    assert (violation.anomaly, violation.where) == ("point never passed", "aborted")


def test_a_mode_without_a_completed_checkpoint_fails_a_large_campaign() -> None:
    passed = {**ALL_PASSED, mode_point("unaligned"): 0}
    (violation,) = check_coverage(CAMPAIGN, ALL_FIRED, passed)
    assert (violation.anomaly, violation.where) == ("mode never taken", "unaligned")


def test_a_small_campaign_is_not_checked_for_coverage() -> None:
    assert check_coverage(CAMPAIGN - 1, {}, {}) == ()


def test_fault_kinds_that_the_system_lacks_are_not_checked() -> None:
    fired = {("kill_all", point): 1 for point in POINTS}
    assert check_coverage(CAMPAIGN, fired, ALL_PASSED, ["kill_all"]) == []
