"""A checkpoint whose time is up: the log names the slowest subtask, what it waited for, and the options."""

from __future__ import annotations

import logging
import re
import time

import pytest

from onceproof.engine import Configuration, MapFunction, SinkFunction, StreamExecutionEnvironment, Types
from onceproof.engine.checkpoint.events import CheckpointAborted
from onceproof.engine.checkpoint.failure_counter import EXPIRED
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.messages import TaskId
from onceproof.engine.runtime import job_log
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.job_warnings import Delay, Stage, slowest_of
from onceproof.engine.runtime.spark.driver import SparkExecution
from onceproof.engine.runtime.storage import LocalCheckpointStorage
from tests.patience import PATIENCE_SECONDS

UPSTREAMS = {
    TaskId(0, 0): (),
    TaskId(0, 1): (),
    TaskId(1, 0): (TaskId(0, 0), TaskId(0, 1)),
    TaskId(2, 0): (TaskId(1, 0),),
}


@pytest.mark.parametrize(
    ("missing", "slowest"),
    [
        ([(2, 0), (1, 0)], (1, 0)),
        ([(2, 0)], (2, 0)),
        ([(2, 0), (1, 0), (0, 1)], (0, 1)),
    ],
)
def test_slowest_subtask_is_the_one_whose_upstreams_have_answered(missing, slowest):
    assert slowest_of([TaskId(*each) for each in missing], UPSTREAMS) == TaskId(*slowest)


class Slow(MapFunction):
    """Slow at once, when the queue in front of it is filled for a quick function."""

    def map(self, value):
        if value[0] >= 1000:
            time.sleep(0.02)
        return value


class Nothing(SinkFunction):
    def invoke(self, value, context):
        pass


def waited_for(where, caplog, folder, **more):
    """Run a job until the log says of a checkpoint what the pattern says; return these messages.

    Where the machine is busy, every checkpoint of a run may wait for something else.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    said = []
    while not said and time.monotonic() < deadline:
        said = [each for each in waited(caplog, folder, **more) if re.search(where, each)]
    return said


def waited(caplog, folder, **more):
    """Run a job whose first checkpoints expire; return what the log says of them."""
    options = {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.timeout": "100 ms",
        "execution.checkpointing.tolerable-failed-checkpoints": 1000,
        "execution.checkpointing.dir": str(folder),
        "pipeline.buffer-records": 10,
        **more,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    numbers = env.from_source(CollectionSource({"a": [((n,), None) for n in range(1100)]}), None, "numbers")
    numbers = numbers.key_by(lambda value: value[0] % 2, Types.LONG())
    numbers.map(Slow(), Types.TUPLE([Types.LONG()])).name("slow").add_sink(Nothing()).name("out")
    with caplog.at_level(logging.WARNING, job_log.__name__):
        env.execute("waits")
    return [record.getMessage() for record in caplog.records if "waited longest" in record.getMessage()]


def test_barrier_that_waits_behind_records_is_named_with_its_subtask(caplog, tmp_path):
    where = "waited longest for slow -> out-0: the barrier waits for what it has not yet processed"
    said = waited_for(where, caplog, tmp_path)
    assert said
    for option in ("timeout", "tolerable-failed-checkpoints", "unaligned.enabled"):
        assert f"execution.checkpointing.{option}" in said[0]
    assert said[0].endswith("see docs/troubleshooting.md#waited-longest-for")


def test_worker_says_what_its_slowest_subtask_waited_for(caplog, tmp_path):
    where = r"waited longest for (slow -> out|numbers)-\d: (the barrier waits|its source has not)"
    assert waited_for(where, caplog, tmp_path, **{"execution.local.workers": 2, "parallelism.default": 2})


def test_checkpoint_that_expires_on_spark_waited_for_its_epoch(caplog):
    class Driver:
        job_log = job_log.JobLog("words", 100)
        now = staticmethod(lambda: 5)
        _epoch = None

    effect = CheckpointAborted(4, EXPIRED, (TaskId(0, 0),))
    with caplog.at_level(logging.WARNING, job_log.__name__):
        SparkExecution.checkpoint_aborted(Driver(), effect)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "checkpoint 4 waited longest for its epoch" in said
    assert "execution.checkpointing.interval-records" in said


def test_source_that_waits_for_the_turns_of_others_names_the_busiest():
    said = Delay(Stage.TRIGGER_WAITS, busiest="slow-0").describe()
    assert "takes long (most of the time has gone to slow-0): make the operator faster" in said


def test_snapshot_that_is_stored_slowly_is_named_with_how_long_each_part_took(caplog, tmp_path, monkeypatch):
    write = LocalCheckpointStorage.write

    slow = []

    def slow_write(self, path, *content, **how):
        if "/" in path and "metadata" not in path and len(slow) < 3:
            slow.append(path)
            time.sleep(0.4)
        return write(self, path, *content, **how)

    monkeypatch.setattr(LocalCheckpointStorage, "write", slow_write)
    said = waited(caplog, tmp_path, **{"execution.checkpointing.unaligned.enabled": True})
    stored = [each for each in said if "not yet stored (asynchronous part)" in each]
    assert stored
    assert "start delay" in stored[0]
    assert "execution.checkpointing.incremental" in stored[0]


def test_error_of_a_job_that_tolerates_no_expiry_follows_the_message(caplog, tmp_path):
    with pytest.raises(JobExecutionFailed):
        waited(
            caplog,
            tmp_path,
            **{
                "execution.checkpointing.tolerable-failed-checkpoints": 0,
                "restart-strategy.type": "none",
            },
        )
    assert any("waited longest for" in record.getMessage() for record in caplog.records)
