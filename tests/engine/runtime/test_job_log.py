"""What a user reads of a job in trouble: log records, and the job's result."""

import logging

import pytest

from onceproof.engine.checkpoint.failure_counter import EXPIRED, SUBSUMED
from onceproof.engine.protocol_points import ELEMENT
from onceproof.engine.runtime.job_log import LOGGED_IN_A_PERIOD, JobLog
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.storage import StorageError


@pytest.fixture
def log():
    return JobLog("words", 600)


def test_failed_checkpoint_is_a_warning_with_its_reason(log, caplog):
    log.checkpoint_aborted(3, "no space left", 0)
    log.checkpoint_aborted(4, EXPIRED, 0)
    assert caplog.messages == [
        "job 'words': checkpoint 3 failed: no space left",
        "job 'words': checkpoint 4 failed: not complete within 600 ms",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert (log.failed_checkpoints, log.last_checkpoint_failure) == (2, "not complete within 600 ms")


def test_checkpoint_that_a_newer_one_ends_has_not_failed(log, caplog):
    with caplog.at_level(logging.DEBUG):
        log.checkpoint_aborted(3, SUBSUMED, 0)
    assert log.failed_checkpoints == 0
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]


def test_event_that_repeats_many_times_a_second_is_counted(log, caplog):
    for number in range(100):
        log.checkpoint_aborted(number, "no space left", number)
    assert len(caplog.messages) == LOGGED_IN_A_PERIOD
    log.checkpoint_aborted(100, "no answer", 100)
    assert len(caplog.messages) == LOGGED_IN_A_PERIOD + 1, "another reason is another event"
    log.checkpoint_aborted(101, "no space left", 5000)
    assert (
        caplog.messages[-1]
        == "job 'words': checkpoint 101 failed: no space left (95 more like it were left out)"
    )
    assert log.failed_checkpoints == 102


def test_restart_says_the_cause_the_delay_and_where_it_begins(log, caplog):
    log.restart_planned("1.1", "map-0: ValueError: boom", 500, 7, 0)
    log.restart_planned("1.2", "map-0: ValueError: boom", 500, None, 2000)
    failed = "failed: map-0: ValueError: boom: the next one follows in 500 ms"
    assert caplog.messages == [
        f"job 'words': attempt 1.1 {failed} from checkpoint 7",
        f"job 'words': attempt 1.2 {failed} from the beginning",
    ]


def test_job_on_a_full_disk_says_so_in_its_log_and_its_result(job, monkeypatch, caplog):
    sound = job.storage_class.write
    refused = []

    def write(storage, path, data):
        if path.startswith("chk-") and len(refused) < 3:
            refused.append(path)
            raise StorageError("No space left on device")
        sound(storage, path, data)

    monkeypatch.setattr(job.storage_class, "write", write)
    result = execute(job.graph(1, restart_strategy__fixed_delay__attempts=10))
    assert job.rows() == job.counts
    assert result.restarts == result.attempts - 1 >= 2
    assert result.failed_checkpoints >= 2
    assert result.last_checkpoint_failure == "No space left on device"
    assert "No space left on device" in result.last_restart_cause
    assert "failed: No space left on device" in caplog.text
    assert result.troubles().startswith(f"restarted {result.restarts} times, last because of: checkpoint")


def test_undisturbed_job_has_no_troubles(job, caplog):
    result = execute(job.graph(1))
    assert result.troubles() == ""
    assert caplog.messages == []


def test_end_of_a_failed_job_is_an_error_record(job, caplog):
    with pytest.raises(JobExecutionFailed):
        execute(
            job.graph(1, restart_strategy__max_equal_errors=0),
            job.raising_always(ELEMENT, RuntimeError("boom")),
        )
    failed = [record for record in caplog.records if record.levelno == logging.ERROR]
    [said] = [record.getMessage() for record in failed]
    assert said.partition(" (conftest.py, line ")[0] == "job 'words' has failed: words-0: RuntimeError: boom"
    restarts = [record for record in caplog.records if "the next one follows" in record.getMessage()]
    assert len(restarts) == 3
