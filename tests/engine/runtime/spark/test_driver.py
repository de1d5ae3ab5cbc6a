"""The driver of epochs: which results it accepts, what it commits and deletes, how it restarts."""

from __future__ import annotations

import os
import threading
from itertools import pairwise

import pytest

from onceproof.engine import InvalidJob, StreamExecutionEnvironment
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.messages import TaskId
from onceproof.engine.protocol_points import (
    ABORTED,
    ACKNOWLEDGED,
    ALIGNED,
    BARRIER_RECEIVED,
    COMMITTED,
    COMMITTING,
    COMPLETED,
    ELEMENT,
    END_OF_DATA,
    METADATA_WRITTEN,
    NOTIFIED,
    POINTS,
    PRE_COMMITTED,
    RESTORED,
    RESTORING,
    SNAPSHOTTED,
    TRIGGERED,
    UPLOADED,
)
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.recovery import files_of
from onceproof.engine.runtime.spark.epoch_job import EpochJobFailed
from onceproof.engine.runtime.spark.epoch_size import EpochSize

WORKER_POINTS = (
    RESTORING,
    RESTORED,
    ELEMENT,
    BARRIER_RECEIVED,
    ALIGNED,
    PRE_COMMITTED,
    SNAPSHOTTED,
    UPLOADED,
    ACKNOWLEDGED,
    END_OF_DATA,
)
DRIVER_POINTS = (TRIGGERED, METADATA_WRITTEN, COMPLETED, NOTIFIED, COMMITTING, COMMITTED)


def test_epochs_report_all_protocol_points_but_one():
    assert {*WORKER_POINTS, *DRIVER_POINTS, ABORTED} == set(POINTS)


def test_a_job_runs_to_its_end(job, here):
    _, result = here(job.graph())
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])
    assert (result.attempts, result.checkpoints, result.records_read) == (1, 6, 600)


@pytest.mark.parametrize("point", WORKER_POINTS)
def test_a_worker_that_dies_at_any_point_changes_nothing(job, here, point):
    checkpoint = 0 if point in (ELEMENT, END_OF_DATA) else 2
    probe = here.dying(point, checkpoint=checkpoint, times=2)
    _, result = here(job.graph(), probe)
    assert probe.struck == 2
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])
    assert (result.attempts, result.checkpoints) == (1, 6)


@pytest.mark.parametrize("point", DRIVER_POINTS)
def test_a_driver_that_dies_at_any_point_is_succeeded(job, here, point):
    probe = here.dying(point, checkpoint=3, death=job.power_cut)
    with pytest.raises(job.power_cut):
        here(job.graph(), probe)
    here(job.graph(3))
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-2"], [])


@pytest.mark.parametrize("vertex", [0, 1])
def test_an_attempt_whose_work_was_done_twice_leaves_nothing_behind(job, here, vertex):
    """It wrote its snapshot and its part file, then its output was lost; the second attempt counts."""

    def repeat(execution):
        execution.repeated = [(3, TaskId(vertex, 0)), (4, TaskId(vertex, 1))]

    execution, result = here(job.graph(), prepare=repeat)
    assert execution.repeated == []
    assert len(execution.tried) == 6 * 4 + 2
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])
    assert result.attempts == 1


INCREMENTAL = {"state__backend__type": "rocksdb", "execution__checkpointing__incremental": True}


@pytest.mark.parametrize("options", [{}, {"state__backend__type": "rocksdb"}, INCREMENTAL])
def test_files_of_a_lost_attempt_are_gone_when_the_next_epoch_begins(job, here, options):
    class Watched(here.execution):
        def __init__(self, *arguments, **settings):
            self.unlisted = {}
            super().__init__(*arguments, **settings)

        def start_job(self, epoch):
            completed = self.master.coordinator.store.latest
            if completed is not None:
                files = [*job.directory.glob("chk-*/*"), *job.directory.glob("shared/*")]
                found = {str(path.relative_to(job.directory)) for path in files}
                listed = files_of(completed) | {f"chk-{completed.checkpoint_id}/_metadata"}
                assert listed <= found
                self.unlisted[epoch.checkpoint_id] = (sorted(found - listed), job.hidden())
            return super().start_job(epoch)

    def repeat(execution):
        execution.repeated = [(3, TaskId(0, 0)), (4, TaskId(1, 1))]

    execution, _ = here(job.graph(**options), execution_class=Watched, prepare=repeat)
    assert execution.repeated == []
    assert execution.unlisted == dict.fromkeys(range(2, 7), ([], []))
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_epoch_stores_changed_files_and_refers_to_earlier_ones(job, here):
    class Watched(here.execution):
        def __init__(self, *arguments, **settings):
            self.shared = []
            super().__init__(*arguments, **settings)

        def start_job(self, epoch):
            completed = self.master.coordinator.store.latest
            if completed is not None:
                self.shared.append({path for path in files_of(completed) if path.startswith("shared/")})
            return super().start_job(epoch)

    execution, _ = here(job.graph(**INCREMENTAL), execution_class=Watched)
    assert len(execution.shared) == 5
    for before, after in pairwise(execution.shared):
        assert before & after
        assert after - before
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_an_epoch_in_which_two_attempts_of_a_subtask_were_read_is_not_taken(job, here):
    class Mixing(here.execution):
        has_mixed = False

        def start_job(self, epoch):
            done = super().start_job(epoch)
            if epoch.checkpoint_id == 3 and not self.has_mixed:
                self.has_mixed = True
                # Spark has run a source subtask again after one of its readers was done.
                place = next(place for place, report in enumerate(done.found) if report.task == TaskId(0, 1))
                again = type(done)(self, epoch).found
                done.found[place] = again[place]
            return done

    execution, result = here(job.graph(), execution_class=Mixing)
    assert execution.has_mixed
    assert result.attempts == 2
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_a_function_that_raises_fails_its_task_at_once_and_the_job_restarts(job, here):
    probe = here.dying(ELEMENT, task="count", checkpoint=0, death=ValueError("no luck"))
    execution, result = here(job.graph(), probe)
    assert result.attempts == 2
    # Each task once in the epoch that failed, and once in each of six more.
    assert len(execution.tried) == 7 * 4
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_epoch_of_large_records_is_one_of_few(job, here):
    graph = job.graph(execution__checkpointing__interval_records=600)
    _, result = here(graph, pace=EpochSize(graph.settings, most_bytes=1_000))
    assert result.checkpoints > 5, "not one epoch of all 600 records"
    assert result.records_read == 600
    assert job.rows() == job.counts


class Odd(BaseException):
    """No Exception."""


class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "RuntimeError: user code raised GeneratorExit"),
        (StopIteration(), "RuntimeError: user code raised StopIteration"),
        (Odd("never any luck"), "Odd: never any luck"),
        (Mute(), "Mute: it has no message, because its __str__ raises ValueError"),
    ],
)
def test_whatever_a_function_raises_is_the_cause_and_may_be_retried(job, here, error, said):
    probe = here.dying(ELEMENT, task="count", times=100, death=error)
    line = r"\(\w+\.py, line \d+\)"
    with pytest.raises(JobExecutionFailed, match=rf"^job 'words' failed: count -> sink-[01]: {said} {line}$"):
        here(job.graph(restart_strategy__fixed_delay__attempts=2), probe)
    assert probe.struck >= 3


def test_module_that_workers_lack_ends_the_job_at_once(job, here):
    error = ModuleNotFoundError("No module named 'nowhere'")
    probe = here.dying(ELEMENT, task="count", times=100, death=error)
    said = r"Error: No module named 'nowhere' \(\w+\.py, line \d+\): give workers the"
    with pytest.raises(JobExecutionFailed, match=said):
        here(job.graph(), probe)
    assert probe.struck == 2, "once in each of the two counts, which run side by side"


def test_function_that_cannot_be_pickled_is_named_with_its_operator(job, here):
    lock = threading.Lock()
    env = StreamExecutionEnvironment.get_execution_environment(job.configuration())
    env.from_collection([1, 2]).map(lambda value: (lock, value)[1]).name("locked").print()
    said = r"operator 'locked' cannot be sent to Spark's workers: .*lock.*: leave .* make it in open\(\)$"
    with pytest.raises(InvalidJob, match=said):
        here(env.get_job_graph("words"))


@pytest.mark.parametrize(("limit", "struck"), [(3, 3), (0, 31)])
def test_equal_errors_of_a_function_end_the_job_unless_the_limit_is_zero(job, here, limit, struck):
    probe = here.dying(ELEMENT, task="count -> sink-1", times=1000, death=ValueError("no such currency"))
    options = {"restart_strategy__fixed_delay__attempts": 30, "restart_strategy__max_equal_errors": limit}
    place = r"\(\w+\.py, line \d+\)"
    said = (
        rf"^job 'words' failed: count -> sink-1: ValueError: no such currency {place}(: 3 attempts .* says)?$"
    )
    with pytest.raises(JobExecutionFailed, match=said) as failed:
        here(job.graph(**options), probe)
    assert ("max-equal-errors to 0" in str(failed.value)) is bool(limit)
    assert probe.struck == struck


def test_restarts_are_counted_by_the_restart_strategy(job, here):
    probe = here.dying(SNAPSHOTTED, task="count -> sink-1", times=100, death=ValueError("never\nany luck"))
    said = r"^job 'words' failed: count -> sink-1: ValueError: never any luck \(\w+\.py, line \d+\)$"
    with pytest.raises(JobExecutionFailed, match=said):
        here(job.graph(restart_strategy__fixed_delay__attempts=2), probe)
    assert probe.struck == 3


def test_an_error_that_no_restart_can_mend_ends_the_job(job, here):
    probe = here.dying(
        SNAPSHOTTED, task="count", times=100, death=UnrecoverableError("words.csv, line 3: bad")
    )
    with pytest.raises(JobExecutionFailed, match=r"^job 'words' failed: words\.csv, line 3: bad$"):
        here(job.graph(), probe)
    assert probe.struck == 2, "once in each of the two counts, which run side by side"


def test_a_spark_job_that_fails_for_good_is_a_failure_of_the_attempt(job, here):
    probe = here.dying(UPLOADED, checkpoint=2, times=4)
    _, result = here(job.graph(), probe)
    assert result.attempts == 2
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_stopped_spark_fails_the_job_and_another_process_continues(job, here):
    class Gone(here.execution):
        def start_job(self, epoch):
            done = super().start_job(epoch)
            if epoch.checkpoint_id == 3:
                done.failure = EpochJobFailed("Spark has stopped: no answer", is_final=True)
            return done

    with pytest.raises(JobExecutionFailed, match=r"^job 'words' failed: Spark has stopped: no answer$"):
        here(job.graph(), execution_class=Gone)
    here(job.graph())
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-2"], [])


def test_a_folder_is_synced_once_for_the_commits_of_all_subtasks(job, here, monkeypatch):
    synced, fsync = [], os.fsync
    within = []

    class Observed(here.execution):
        def _commit(self, message):
            within.append(message.checkpoint_id)
            super()._commit(message)
            within.clear()

    def noted(descriptor):
        if within:
            synced.append((*within, os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    here(job.graph(8), execution_class=Observed)
    assert job.rows() == job.counts
    assert len(synced) == len(set(synced)) > 3


def test_commits_that_do_not_become_durable_fail_the_attempt(job, here, monkeypatch):
    fsync, failures = os.fsync, []

    class Failing(here.execution):
        def _commit(self, message):
            def full(descriptor):
                failures.append(descriptor)
                raise OSError(28, "No space left on device")

            with monkeypatch.context() as patched:
                patched.setattr(os, "fsync", full if not failures else fsync)
                super()._commit(message)

    _, result = here(job.graph(), execution_class=Failing)
    assert len(failures) == 1
    assert (result.attempts, result.restarts) == (2, 1)
    assert job.rows() == job.counts
