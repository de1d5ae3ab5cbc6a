"""coverage on counts."""

from __future__ import annotations

from onceproof.harness.checkers.coverage import CAMPAIGN, MODES, check_coverage, mode_point
from onceproof.harness.model.fault_kinds import POINTS
from onceproof.harness.model.faults import FAULTS

ALL_FIRED = {(kind, point): 1 for kind, row in FAULTS.items() for point in row.points}
ALL_PASSED = dict.fromkeys((*POINTS, *map(mode_point, MODES)), 7)


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
