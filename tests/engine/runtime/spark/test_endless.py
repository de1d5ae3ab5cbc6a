"""Sources without end on Spark: an epoch ends when there is nothing to read, and a rest follows."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial

import pytest

from onceproof.engine import (
    DataGeneratorSource,
    Duration,
    FileSource,
    InvalidJob,
    RateLimiterStrategy,
    StreamFormat,
)
from onceproof.engine.runtime.job_requests import JobRequest
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.restore_point import read_restore_point
from onceproof.engine.runtime.spark.epoch_size import LONGEST_REST_MS, SHORTEST_REST_MS, rest_ms
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def monitored(job, tmp_path):
    """The job's words in a folder that is monitored."""
    folder = tmp_path / "in"
    folder.mkdir()
    for place in range(6):
        (folder / f"{place}.txt").write_text("".join(f"{word}\n" for word in job.words[place::6]))
    text = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    job.source = text.monitor_continuously(Duration.of_millis(1)).build()
    job.describe = partial(job.describe, before=as_tuples)
    return job


def as_tuples(lines):
    return lines.map(as_tuple)


def as_tuple(line):
    return (line,)


@pytest.fixture
def stopped(here, tmp_path):
    """Run a job here, and stop it when some epochs in a row have read nothing."""

    def run(graph, idle_epochs, drains=False):
        answers = []
        request = JobRequest("stop", str(tmp_path / "savepoints"), drains)

        class Stopping(here.execution):
            def checkpoint_completed(self, effect):
                super().checkpoint_completed(effect)
                completed = self.__dict__.setdefault("completed", [])
                completed.append((time.monotonic(), self.records_read))
                idle = [each for each in completed if each[1] == self.records_read]
                if len(idle) == idle_epochs + 1:
                    self.submit(request, answers.append)

        execution, _ = here(graph, execution_class=Stopping)
        [answer] = answers
        assert not answer.error
        return execution, answer.savepoint

    return run


def test_epochs_without_records_rest_and_the_job_ends_by_a_stop(monitored, stopped):
    execution, _ = stopped(monitored.graph(), 4)
    assert monitored.rows() == monitored.counts
    idle = [moment for moment, read in execution.completed if read == 600]
    # The first one read the last records. Three of the others rest before the next one begins; a rest begins
    # before the test sees the completion, and on a busy machine long before.
    assert len(idle) == 5
    assert idle[-1] - idle[0] >= 3 * SHORTEST_REST_MS / 1000


@pytest.mark.parametrize("drains", [True, False])
def test_job_stopped_on_spark_goes_on_with_the_files_that_come_later(monitored, stopped, tmp_path, drains):
    _, savepoint = stopped(monitored.graph(), 1, drains)
    operators = read_restore_point(savepoint).metadata.operators
    assert all(operator.is_finished for operator in operators) == drains
    assert monitored.rows() == monitored.counts


def test_generated_records_at_a_rate_end_on_spark_and_none_is_missing(job, here):
    # On a busy machine an epoch takes a good part of a second.
    rate = RateLimiterStrategy.per_second(200)
    job.source = DataGeneratorSource(word_of, 600, rate)
    began = time.monotonic()
    _, result = here(job.graph())
    assert job.rows() == job.counts
    assert result.checkpoints > 6, "each epoch reads what has become due"
    assert time.monotonic() - began > 2.5


def word_of(number):
    return (f"w{number % 7}",)


def test_files_that_the_local_runtime_has_begun_are_finished_on_spark(monitored, stopped):
    with pytest.raises(monitored.power_cut):
        execute(monitored.graph(), monitored.raising("snapshotted", monitored.power_cut(), 12))
    assert sum(monitored.rows().values()) < 600
    stopped(monitored.graph(3), 1)
    assert monitored.rows() == monitored.counts


def test_source_that_cannot_be_replayed_is_refused(job, here):
    env = job.environment()
    job.into_files(env.socket_text_stream("127.0.0.1", 9))
    with pytest.raises(InvalidJob) as caught:
        here(env.get_job_graph("words"))
    assert str(caught.value) == (
        "source 'Socket Stream' of job 'words' cannot be replayed, and on Spark each epoch opens its readers"
        " anew: run the job on the local runtime, or write the stream to files and read those"
    )


@pytest.mark.parametrize(("retry_ms", "rest"), [(1, SHORTEST_REST_MS), (300, 300), (60_000, LONGEST_REST_MS)])
def test_rest_follows_the_wish_of_the_source_within_bounds(retry_ms, rest):
    assert rest_ms(retry_ms) == rest


@pytest.mark.spark
def test_folder_is_monitored_on_spark_until_the_job_is_stopped(job, spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    text = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    job.source = text.monitor_continuously(Duration.of_millis(100)).build()
    env = job.environment(
        execution__target="spark",
        execution__spark__master=spark.sparkContext.master,
        execution__checkpointing__interval="200 ms",
    )
    job.describe(env, before=as_tuples)
    client = env.execute_async("words")
    for number in range(3):
        (folder / "_new").write_text("a\nb\n")
        (folder / "_new").rename(folder / str(number))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not job.output.exists() or job.rows().total() < 2 * (number + 1):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert client.get_job_execution_result().result().records_read == 6
    assert job.rows() == Counter(f"('{word}', {count})" for word in "ab" for count in (1, 2, 3))
