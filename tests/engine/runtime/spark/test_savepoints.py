"""Savepoints of a job on Spark: between epochs, and taken up by either runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.engine.runtime.job_requests import JobRequest
from onceproof.engine.runtime.job_result import JobCancelled
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.restore_point import read_restore_point


class Answers(list):
    """What a request was answered with."""

    def __call__(self, answer):
        self.append(answer)


@pytest.fixture
def asked(job, here, tmp_path):
    """Ask a run for something when a checkpoint is complete; give the answers, and what ran."""

    def ask(kind, checkpoint_id=2, drains=False, **options):
        answers = Answers()
        request = JobRequest(kind, "" if kind == "cancel" else str(tmp_path / "savepoints"), drains)

        class Asked(here.execution):
            def checkpoint_completed(self, effect):
                super().checkpoint_completed(effect)
                if effect.checkpoint_id == checkpoint_id:
                    self.submit(request, answers)

        return answers, lambda: here(job.graph(**options), execution_class=Asked)[1]

    return ask


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_job_stopped_on_spark_continues_in_the_local_runtime(job, asked, backend):
    answers, run = asked("stop", state__backend__type=backend)
    result = run()
    [answer] = answers
    assert not answer.error
    assert result.stopped_with == answer.savepoint
    assert not list(Path(answer.savepoint).glob("*.sst*"))
    committed = job.rows()
    assert 0 < sum(committed.values()) < sum(job.counts.values())
    execute(job.graph(3, execution__state_recovery__path=answer.savepoint))
    assert job.rows() == job.counts


def test_a_drained_job_has_ended_all_data(job, asked):
    answers, run = asked("stop", drains=True)
    run()
    operators = read_restore_point(answers[0].savepoint).metadata.operators
    assert all(operator.is_finished for operator in operators)
    assert sum(job.rows().values()) < sum(job.counts.values())


def test_savepoint_is_taken_between_two_epochs_and_the_job_continues(job, asked):
    answers, run = asked("savepoint")
    run()
    assert job.rows() == job.counts
    assert read_restore_point(answers[0].savepoint).metadata.checkpoint_id == 2


def test_job_cancelled_with_a_savepoint_restores_it_on_spark(job, here, asked):
    answers, run = asked("cancel_with_savepoint")
    with pytest.raises(JobCancelled):
        run()
    path = answers[0].savepoint
    here(job.graph(1, execution__state_recovery__path=path))
    assert job.rows() == job.counts


def test_a_job_is_cancelled_at_once(asked):
    answers, run = asked("cancel")
    with pytest.raises(JobCancelled):
        run()
    assert not answers[0].error
