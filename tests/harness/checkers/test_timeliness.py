"""Waits that are too long, and failed writes that nothing follows."""

import pytest

from onceproof.harness.checkers.timeliness import (
    LATE_CHECKPOINT,
    LATE_EXPIRY,
    LATE_RESTART,
    SILENT_FAILURE,
    Timeliness,
)
from onceproof.harness.model.history import EXPIRY_WAIT, INTERVAL_WAIT, RESTART_WAIT, History
from onceproof.harness.model.scenario import COORDINATOR, CheckpointMode


@pytest.fixture
def scenario(make_scenario):
    return make_scenario(
        checkpoint_interval_ms=50,
        checkpoint_timeout_ms=400,
        restart_delay_ms=20,
        mode=CheckpointMode(min_pause_ms=80),
    )


def anomalies(scenario, history):
    return [each.anomaly for each in Timeliness().check(scenario, history, None)]


@pytest.mark.parametrize(
    ("what", "allowed", "anomaly"),
    [(RESTART_WAIT, 20, LATE_RESTART), (INTERVAL_WAIT, 80, LATE_CHECKPOINT), (EXPIRY_WAIT, 400, LATE_EXPIRY)],
)
def test_wait_may_be_as_long_as_the_settings_say(scenario, what, allowed, anomaly):
    history = History()
    history.wait_begun(3, what, allowed)
    assert anomalies(scenario, history) == []
    history.wait_begun(4, what, allowed + 1)
    [violation] = Timeliness().check(scenario, history, None)
    assert (violation.anomaly, violation.where) == (anomaly, "step 4")
    assert violation.witness == {"step": 4, "waits_ms": allowed + 1, "allowed_ms": allowed}


def refused(task="count-0"):
    history = History()
    history.checkpoint_triggered(1, 7)
    history.write_refused(5, task, 7)
    return history


def test_refused_write_is_declined_in_the_same_step(scenario):
    history = refused()
    history.checkpoint_declined(5, "count-0", 7)
    history.job_finished(9)
    assert anomalies(scenario, history) == []


def test_refused_write_that_nothing_follows_is_a_silent_failure(scenario):
    history = refused()
    assert anomalies(scenario, history) == [SILENT_FAILURE]
    history.checkpoint_declined(6, "count-0", 7)
    assert anomalies(scenario, history) == [SILENT_FAILURE], "too late"


def test_another_tasks_answer_does_not_count(scenario):
    history = refused()
    history.checkpoint_declined(5, "count-1", 7)
    assert anomalies(scenario, history) == [SILENT_FAILURE]


def test_refused_metadata_abort_the_checkpoint(scenario):
    history = refused(COORDINATOR)
    assert anomalies(scenario, history) == [SILENT_FAILURE]
    history.checkpoint_aborted(5, 7, "refused")
    assert anomalies(scenario, history) == []


def test_write_of_an_aborted_checkpoint_may_fail_in_silence(scenario):
    history = History()
    history.checkpoint_triggered(1, 7)
    history.checkpoint_aborted(4, 7, "CHECKPOINT_EXPIRED")
    history.write_refused(5, "count-0", 7)
    assert anomalies(scenario, history) == []
