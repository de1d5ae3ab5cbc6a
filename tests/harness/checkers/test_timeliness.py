"""Waits that are too long, and failed writes that nothing follows."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.timeliness import (
    IN_BATCH,
    LATE_CHECKPOINT,
    LATE_EXPIRY,
    LATE_RESTART,
    NO_CHECKPOINT,
    PATIENCE,
    SILENT_FAILURE,
    UNLOGGED,
    Timeliness,
)
from onceproof.harness.model.history import EXPIRY_WAIT, INTERVAL_WAIT, RESTART_WAIT, History
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.scenario import COORDINATOR, Schedule


@pytest.fixture
def scenario(make_scenario):
    return make_scenario(
        checkpoint_interval_ms=50,
        checkpoint_timeout_ms=400,
        restart_delay_ms=20,
        mode=CheckpointMode(min_pause_ms=80),
    )


FIXED = SimpleNamespace(is_drawn=False)
"""What the checker asks of an oracle: the graph of the job is always the same."""


def anomalies(scenario, history, oracle=FIXED):
    return [each.anomaly for each in Timeliness().check(scenario, history, oracle)]


@pytest.mark.parametrize(
    ("what", "allowed", "anomaly"),
    [(RESTART_WAIT, 20, LATE_RESTART), (INTERVAL_WAIT, 80, LATE_CHECKPOINT), (EXPIRY_WAIT, 400, LATE_EXPIRY)],
)
def test_wait_may_be_as_long_as_the_settings_say(scenario, what, allowed, anomaly):
    history = History()
    history.logged(3, "the attempt has failed")
    history.wait_begun(3, what, allowed, 3)
    assert anomalies(scenario, history) == []
    history.logged(4, "the attempt has failed")
    history.wait_begun(4, what, allowed + 1, 4)
    [violation] = Timeliness().check(scenario, history, FIXED)
    assert (violation.anomaly, violation.where) == (anomaly, "step 4")
    assert violation.witness == {"step": 4, "waits_ms": allowed + 1, "allowed_ms": allowed}


def test_interval_doubles_with_each_refusal_of_a_task_that_sorts(scenario):
    history = History()
    for step, wait_ms in enumerate([80, 160, 320, 640, 1280, 1280]):
        history.wait_begun(step, INTERVAL_WAIT, wait_ms, step)
        history.checkpoint_aborted(step, step, IN_BATCH)
    assert anomalies(scenario, history) == []
    history.wait_begun(6, INTERVAL_WAIT, 1281, 6)
    assert anomalies(scenario, history) == [LATE_CHECKPOINT]
    history.attempt_started(7, "1.2", 1, None)
    history.wait_begun(8, INTERVAL_WAIT, 81, 8)
    assert anomalies(scenario, history) == [LATE_CHECKPOINT] * 2


def test_no_checkpoint_completes_while_tasks_sort_their_input(scenario):
    history = History()
    history.wait_begun(1, INTERVAL_WAIT, 80, 0)
    history.checkpoint_aborted(2, 1, IN_BATCH)
    history.wait_begun(3, INTERVAL_WAIT, 80, 1 + LONG_MS)
    allowed_ms = LONG_MS + PATIENCE * (160 - 50)
    history.wait_begun(4, INTERVAL_WAIT, 80, 1 + LONG_MS + allowed_ms)
    assert anomalies(scenario, history) == []
    history.wait_begun(5, INTERVAL_WAIT, 80, 2 + LONG_MS + allowed_ms)
    assert anomalies(scenario, history) == [NO_CHECKPOINT]


def test_refusals_of_one_attempt_give_the_next_one_no_more_time(scenario):
    history = History()
    history.checkpoint_aborted(1, 1, IN_BATCH)
    history.attempt_started(2, "1.2", 1, None)
    history.wait_begun(3, INTERVAL_WAIT, 80, 0)
    history.wait_begun(4, INTERVAL_WAIT, 80, LONG_MS)
    assert anomalies(scenario, history) == []
    history.wait_begun(5, INTERVAL_WAIT, 80, 1 + LONG_MS)
    assert anomalies(scenario, history) == [NO_CHECKPOINT]


LONG_MS = PATIENCE * (50 + 80 + 400)


def test_checkpoint_completes_within_four_rounds_after_the_last_fault(scenario):
    history = History()
    history.wait_begun(1, INTERVAL_WAIT, 80, 0)
    history.fault_fired(2, "kill_all", "element", "*")
    history.wait_begun(3, INTERVAL_WAIT, 80, 500)
    history.wait_begun(4, INTERVAL_WAIT, 80, 500 + LONG_MS)
    assert anomalies(scenario, history) == []
    history.wait_begun(5, INTERVAL_WAIT, 80, 501 + LONG_MS)
    [violation] = Timeliness().check(scenario, history, FIXED)
    assert (violation.anomaly, violation.where) == (NO_CHECKPOINT, "step 5")
    assert violation.witness == {"step": 5, "waited_ms": LONG_MS + 1, "allowed_ms": LONG_MS}


def test_each_attempt_checkpoint_and_unfair_step_begins_the_time_anew(scenario):
    def anew(change):
        history = History()
        history.wait_begun(1, INTERVAL_WAIT, 80, 0)
        change(history)
        history.wait_begun(9, INTERVAL_WAIT, 80, LONG_MS + 1)
        return anomalies(scenario, history)

    assert anew(lambda history: None) == [NO_CHECKPOINT]
    assert anew(lambda history: history.attempt_started(2, "1.2", 2, None)) == []
    assert anew(lambda history: history.savepoint_completed(2, 3, "1.1")) == []
    assert anew(lambda history: history.job_stopped(2)) == []
    unfair = replace(scenario, schedule=Schedule("uniform", 1, horizon=8))
    history = History()
    history.wait_begun(7, INTERVAL_WAIT, 80, 0)
    history.wait_begun(8, INTERVAL_WAIT, 80, LONG_MS + 1)
    assert anomalies(unfair, history) == []


@pytest.mark.parametrize("reason", ["CHECKPOINT_EXPIRED", "the storage refused the write"])
def test_checkpoint_that_fails_must_be_logged_in_that_step(scenario, reason):
    def failing(message_at):
        history = History()
        history.wait_begun(1, INTERVAL_WAIT, 80, 1)
        history.checkpoint_triggered(1, 7)
        history.logged(message_at, "checkpoint 7 failed")
        if reason != "CHECKPOINT_EXPIRED":
            history.write_refused(5, COORDINATOR, 7)
        history.checkpoint_aborted(5, 7, reason)
        return anomalies(scenario, history)

    assert failing(5) == []
    assert failing(4) == [UNLOGGED]


def test_checkpoint_that_a_failover_ends_need_not_be_logged(scenario):
    history = History()
    history.wait_begun(1, INTERVAL_WAIT, 80, 1)
    history.checkpoint_triggered(1, 7)
    history.checkpoint_aborted(5, 7, "JOB_FAILOVER_REGION")
    assert anomalies(scenario, history) == []


def test_event_that_repeats_within_a_second_is_logged_a_few_times(scenario):
    history = History()
    for step in range(10, 20):
        if step < 15:
            history.logged(step, "the attempt has failed")
        history.wait_begun(step, RESTART_WAIT, 1, step)
    assert anomalies(scenario, history) == []
    history.wait_begun(1100, RESTART_WAIT, 1, 1100)
    assert anomalies(scenario, history) == [UNLOGGED]


def test_restart_must_be_logged(scenario):
    history = History()
    history.wait_begun(5, RESTART_WAIT, 1, 5)
    assert anomalies(scenario, history) == [UNLOGGED]


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


def test_no_checkpoint_is_asked_of_a_job_that_only_passes_watermarks_on(scenario):
    history = History()
    history.wait_begun(3, INTERVAL_WAIT, 80, 500)
    history.wait_begun(5, INTERVAL_WAIT, 80, 501 + LONG_MS)
    busy = replace(scenario, watermark_interval_ms=1, parallelism=3, source_parallelism=1, sink_parallelism=0)
    assert anomalies(busy, history) == []
    for enough_ms in (200, 43):
        assert anomalies(replace(busy, watermark_interval_ms=enough_ms), history) == [NO_CHECKPOINT]
    assert anomalies(replace(busy, watermark_interval_ms=42), history) == []


def test_no_checkpoint_is_asked_of_a_job_whose_graph_is_drawn(scenario):
    history = History()
    history.wait_begun(3, INTERVAL_WAIT, 80, 500)
    history.wait_begun(5, INTERVAL_WAIT, 80, 501 + LONG_MS)
    assert anomalies(scenario, history) == [NO_CHECKPOINT]
    assert anomalies(scenario, history, SimpleNamespace(is_drawn=True)) == []
