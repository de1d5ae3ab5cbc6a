"""The local runtime: whole jobs in this process, their restarts, and what they leave.

What a real SIGKILL does is tried in tests/harness/systems; here a process dies by an exception that nothing
catches, or goes on.
"""

from __future__ import annotations

import re
import threading
from collections import Counter

import pytest

from onceproof.engine.protocol_points import COMMITTING, COMPLETED, ELEMENT, END_OF_DATA, RESTORING
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.recovery import FINISHED
from onceproof.engine.runtime.storage import LocalCheckpointStorage, MemoryCheckpointStorage, StorageError


def test_a_job_runs_to_its_end_and_leaves_its_rows_and_nothing_else(job):
    result = execute(job.graph())
    assert job.rows() == job.counts
    assert result.records_read == 600
    assert result.attempts == 1
    assert result.get_job_id() == job.graph().job_id
    assert result.get_net_runtime() >= 0
    assert job.left_behind() == ([FINISHED, "incarnation-1"], [])


def test_a_job_that_has_finished_is_not_run_again(job):
    execute(job.graph())
    before = {path.name for path in job.output.iterdir()}
    result = execute(job.graph(parallelism=3))
    assert result.already_finished
    assert result.records_read == 0
    assert {path.name for path in job.output.iterdir()} == before


def test_a_death_between_the_end_and_the_clearing_up_leaves_nothing_for_ever(job):
    job.stopped(COMPLETED, 3)
    (job.directory / FINISHED).touch()
    assert any(path.name.startswith("chk-") for path in job.directory.iterdir())
    assert execute(job.graph()).already_finished
    assert [path.name for path in job.directory.iterdir() if path.name.startswith("chk-")] == []


def test_a_folder_that_a_dead_process_left_empty_is_removed(job):
    job.stopped(COMMITTING, 5)
    (job.directory / "chk-27").mkdir()
    execute(job.graph())
    assert job.left_behind() == ([FINISHED, "incarnation-2"], [])
    (job.directory / "chk-28").mkdir()
    assert execute(job.graph()).already_finished
    assert job.left_behind() == ([FINISHED, "incarnation-3"], [])


@pytest.mark.parametrize("point", [ELEMENT, COMMITTING, COMPLETED, END_OF_DATA, RESTORING])
def test_a_task_that_fails_costs_one_attempt_and_no_row(job, point):
    if point == COMPLETED:
        # The job master passes it: what fails there is the process.
        job.stopped(point)
        result = execute(job.graph())
        assert result.attempts == 1
    else:
        result = execute(job.graph(), job.raising(point, RuntimeError("planned"), 3))
        assert result.attempts == 2
    assert job.rows() == job.counts
    assert job.left_behind()[1] == []


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_another_process_restores_the_directory_at_any_parallelism(job, parallelism):
    job.stopped(COMPLETED, 3)
    assert job.rows() != job.counts
    result = execute(job.graph(parallelism=parallelism))
    assert result.records_read < 400
    assert job.rows() == job.counts
    assert job.left_behind() == ([FINISHED, "incarnation-2"], [])


def test_no_two_processes_share_an_incarnation(job):
    for number in (1, 2, 3):
        job.stopped(RESTORING)
        markers = [path.name for path in job.directory.iterdir() if path.name.startswith("incarnation-")]
        assert markers == [f"incarnation-{number}"]


def test_a_task_that_died_reads_nothing_more(job):
    passes = Counter()

    def probe(point, task, checkpoint_id):
        if point == ELEMENT and task.endswith("-0") and not task.startswith("words"):
            passes[execution.attempts] += 1
            if execution.attempts == 1 and passes[1] == 3:
                raise RuntimeError("planned")

    execution = job.execution(job.graph(), MemoryCheckpointStorage(), probe)
    assert execution.run().attempts == 2
    assert passes[1] == 3


def test_restarts_are_spent_and_then_the_job_fails_with_one_line(job):
    def probe(point, task, checkpoint_id):
        if point == ELEMENT and task.startswith("count"):
            raise RuntimeError("planned\nfor ever")

    with pytest.raises(JobExecutionFailed) as caught:
        execute(job.graph(restart_strategy__max_equal_errors=0), probe)
    assert str(caught.value).startswith("job 'words' failed: count")
    assert re.search(r"RuntimeError: planned for ever \(test_local\.py, line \d+\)$", str(caught.value))


@pytest.mark.parametrize("retention", [None, "NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION"])
def test_checkpoints_of_a_failed_job_stay_unless_it_is_set_otherwise(job, retention):
    restarts = {"restart_strategy__type": "none"}
    for key in ("attempts", "delay"):
        restarts[f"restart_strategy__fixed_delay__{key}"] = None
    option = {"execution__checkpointing__externalized_checkpoint_retention": retention}
    graph = job.graph(**restarts, **option)
    with pytest.raises(JobExecutionFailed, match="planned"):
        execute(graph, job.raising(COMMITTING, RuntimeError("planned"), 5))
    kept = list(job.directory.glob("chk-*/_metadata"))
    assert bool(kept) is (retention != "NO_EXTERNALIZED_CHECKPOINTS")
    # Who goes on from them reads only what is left; who has none begins afresh.
    assert (execute(job.graph()).records_read < len(job.words)) is bool(kept)


def test_without_checkpoints_the_output_is_complete_and_a_failure_the_end(job):
    options = {
        "execution__checkpointing__interval_records": None,
        "execution__checkpointing__dir": None,
        "restart_strategy__type": None,
        "restart_strategy__fixed_delay__attempts": None,
        "restart_strategy__fixed_delay__delay": None,
    }
    with pytest.raises(JobExecutionFailed, match="planned"):
        execute(job.graph(**options), job.raising(ELEMENT, RuntimeError("planned"), 30))
    assert list(job.output.iterdir()) == []
    result = execute(job.graph(**options))
    assert job.rows() == job.counts
    assert result.checkpoints == 0


def test_checkpoints_in_memory_survive_a_failed_task(job):
    graph = job.graph(execution__checkpointing__dir=None)
    result = execute(graph, job.raising(COMMITTING, RuntimeError("planned"), 4))
    assert result.attempts == 2
    assert result.records_read < 1100
    assert job.rows() == job.counts
    assert not job.checkpoints.exists()


def test_the_last_checkpoint_comes_with_the_end_of_the_data(job):
    result = execute(job.graph(execution__checkpointing__interval_records=1_000_000))
    assert result.checkpoints == 1
    assert job.rows() == job.counts


def test_record_interval_between_checkpoints_holds_with_slow_storage(job):
    class Slow(MemoryCheckpointStorage):
        def write(self, path, data):
            threading.Event().wait(0.005)
            super().write(path, data)

    execution = job.execution(job.graph(), Slow())
    read = []
    trigger = execution.checkpoint_triggered
    execution.checkpoint_triggered = lambda effect: (read.append(execution._records_read()), trigger(effect))
    execution.run()
    # Two sources read a buffer of ten each before they are asked again.
    steps = [after - before for before, after in zip([0, *read], read, strict=False)]
    assert all(100 <= step <= 120 for step in steps[:5]), steps
    assert job.rows() == job.counts


def test_checkpoints_by_time_are_taken_while_the_job_runs(job):
    options = {"execution__checkpointing__interval_records": None, "execution__checkpointing__interval": 10}

    def probe(point, task, checkpoint_id):
        if point == ELEMENT and task.startswith("words"):
            threading.Event().wait(0.001)

    assert execute(job.graph(**options), probe).checkpoints >= 2
    assert job.rows() == job.counts


@pytest.mark.parametrize("incremental", [False, True])
def test_a_folder_that_deletes_nothing_for_a_while_does_not_end_the_job(
    job, monkeypatch, caplog, incremental
):
    refused = []
    delete = LocalCheckpointStorage.delete

    def refusing(storage, path):
        if len(refused) < 5:
            refused.append(path)
            raise StorageError(f"checkpoint file {path} cannot be deleted: Read-only file system")
        delete(storage, path)

    monkeypatch.setattr(LocalCheckpointStorage, "delete", refusing)
    backend = {"state__backend__type": "rocksdb", "execution__checkpointing__incremental": True}
    result = execute(job.graph(**(backend if incremental else {})))
    assert result.attempts == 1
    assert job.rows() == job.counts
    assert len(refused) == 5
    assert "cannot be deleted: Read-only file system; the end of the job deletes it" in caplog.text
    assert job.left_behind() == (["finished", "incarnation-1"], [])
