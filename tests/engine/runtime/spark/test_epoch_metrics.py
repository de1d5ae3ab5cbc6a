"""Metrics of functions on Spark: what epochs have counted comes together in the driver, each epoch once."""

from __future__ import annotations

import logging

import pytest

from onceproof.engine import MapFunction
from onceproof.engine.messages import TaskId
from onceproof.engine.protocol_points import SNAPSHOTTED

EPOCHS = 6


class Measured(MapFunction):
    """Measures the words that it maps, in a metric of each kind."""

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group().add_group("mine")
        self.rows = group.counter("rows")
        self.events = group.meter("events", 3600)
        self.digits = group.distribution("digits")
        self.latest = ""
        group.gauge("latest", lambda: self.latest)

    def map(self, value):
        self.rows.inc()
        self.events.mark_event()
        self.digits.update(int(value[0][1:]))
        self.latest = value[0]
        return value


@pytest.fixture
def measured(job):
    """The graph of the word count whose words are measured on their way; its options are those of a job."""

    def graph_of(**options):
        env = job.environment(**options)
        job.describe(env, before=lambda words: words.map(Measured()).name("measured"))
        return env.get_job_graph("words")

    return graph_of


def test_metrics_of_all_epochs_add_up_to_those_of_the_input(job, measured, here, caplog):
    with caplog.at_level(logging.INFO):
        _, result = here(measured())
    assert result.checkpoints == EPOCHS
    for subtask, split in enumerate(job.splits.values()):
        digits = [int(word[1:]) for word, _ in split]
        shown = {
            name: result.metrics[f"measured.{subtask}.mine.{name}"] for name in ("rows", "digits", "latest")
        }
        assert shown == {
            "rows": 300,
            "latest": split[-1][0],
            "digits": {"count": 300, "sum": sum(digits), "min": 0, "max": 6, "mean": sum(digits) / 300},
        }
        events = result.metrics[f"measured.{subtask}.mine.events"]
        assert events == {"count": 300, "rate": pytest.approx(300 / 3600)}
    said = [each.getMessage() for each in caplog.records]
    assert "job 'words': metric measured.0.mine.rows is 300" in said


def rows_of(result):
    return [result.metrics[f"measured.{subtask}.mine.rows"] for subtask in (0, 1)]


def test_an_epoch_whose_workers_die_counts_once(job, measured, here):
    probe = here.dying(SNAPSHOTTED, checkpoint=2, times=3)

    def repeat(execution):
        execution.repeated = [(3, TaskId(0, 0)), (4, TaskId(0, 1))]

    _, result = here(measured(), probe, prepare=repeat)
    assert (probe.struck, result.attempts) == (3, 1)
    assert rows_of(result) == [300, 300]


def test_an_epoch_whose_checkpoint_is_not_stored_counts_when_it_is_repeated(job, measured, here):
    class Unlucky(here.execution):
        refused = 0

        def publish(self, metadata):
            if metadata.checkpoint_id in (2, 3):
                self.refused += 1
                raise OSError("no space left")
            super().publish(metadata)

    graph = measured(execution__checkpointing__tolerable_failed_checkpoints=2)
    execution, result = here(graph, execution_class=Unlucky)
    assert (execution.refused, result.attempts, result.records_read) == (2, 1, 800)
    assert rows_of(result) == [300, 300]


def test_metrics_of_an_attempt_are_those_behind_the_checkpoint_it_restores(job, measured, here):
    class Odd(here.execution):
        def start_job(self, epoch):
            started = super().start_job(epoch)
            if epoch.checkpoint_id == 4:
                started.failure = here.epoch_failed("Spark has lost it", is_final=False)
            return started

    _, result = here(measured(), execution_class=Odd)
    assert result.attempts == 2
    assert rows_of(result) == [150, 150], "three of six epochs came before"


def test_two_operators_of_a_name_in_different_tasks_do_not_share_metrics(job, here):
    env = job.environment()
    job.describe(
        env,
        before=lambda words: (
            words.map(Measured()).name("measured").rebalance().map(Measured()).name("measured")
        ),
    )
    _, result = here(env.get_job_graph("words"))
    counted = {name: value for name, value in result.metrics.items() if name.endswith(".rows")}
    assert sum(counted.values()) == 1200
    assert {name.partition(".")[0] for name in counted} == {"measured", "measured (2)"}


@pytest.mark.spark
def test_the_result_of_a_job_on_spark_shows_its_metrics(job, spark):
    env = job.environment(execution__target="spark")
    job.describe(env, before=lambda words: words.map(Measured()).name("measured"))
    result = env.execute("words")
    assert result.checkpoints == EPOCHS
    assert rows_of(result) == [300, 300]
