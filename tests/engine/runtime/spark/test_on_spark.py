"""The engine on a real Spark: families, real SIGKILLs, checkpoints that go from one runtime to the other."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import psutil
import pytest

from onceproof.engine import Configuration, Encoder, FileSink, StreamExecutionEnvironment
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.job.channel_layout import layout_of
from onceproof.engine.protocol_points import (
    ACKNOWLEDGED,
    ALIGNED,
    BARRIER_RECEIVED,
    COMMITTED,
    COMPLETED,
    ELEMENT,
    END_OF_DATA,
    PRE_COMMITTED,
    RESTORED,
    RESTORING,
    SNAPSHOTTED,
    TRIGGERED,
    UPLOADED,
)
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.spark.stages import partitions_of, stages_of
from onceproof.engine.runtime.spark.target import execute_on_spark
from onceproof.harness.model.family import NOTHING_DECLARED
from onceproof.harness.model.family_places import load_family
from tests.engine.runtime.spark.killing import Kill, KillOnce, TearingRun
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.spark


class Ends:
    """What a family's job reads and writes: splits in memory, part files of JSON lines."""

    parallelism = source_parallelism = sink_parallelism = 2

    def __init__(self, workload, folder):
        self.parameters = workload.parameters
        self._splits = {
            split: [(value, timestamp) for timestamp, value in records]
            for split, records in workload.records.items()
        }
        self._folder = folder

    def source(self, name):
        return CollectionSource(self._splits)

    def sink(self, name):
        sink = FileSink.for_row_format(str(self._folder / "out"), Encoder.json_lines_encoder()).build()
        return sink.create_function()


def graph_of(family, workload, folder):
    options = {
        "execution.checkpointing.interval-records": 10,
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "pipeline.buffer-records": 2,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    env.set_max_parallelism(16)
    family.job(env, Ends(workload, folder))
    return env.get_job_graph(family.name)


def rows_in(folder):
    parts = [part for part in folder.iterdir() if not part.name.startswith(".")]
    return Counter(
        tuple(msgspec.json.decode(line)) for part in parts for line in part.read_bytes().splitlines()
    )


@pytest.mark.parametrize("name", ["flights", "full_join"])
def test_family_gives_the_rows_of_its_oracle_while_workers_die(tmp_path, spark, name):
    family = load_family(name)
    workload = max((family.generate(Random(seed)) for seed in range(7)), key=lambda each: len(str(each)))
    probe = KillOnce(tmp_path / "kills", Kill(PRE_COMMITTED, checkpoint=2), Kill(UPLOADED, checkpoint=3))
    result = execute_on_spark(graph_of(family, workload, tmp_path), spark, probe=probe)
    assert result.attempts == 1
    assert len(probe.struck()) == 2
    expected = family.expected(workload.records, NOTHING_DECLARED)
    assert rows_in(tmp_path / "out") == Counter(expected)
    assert len(expected) > 30


def test_a_worker_is_killed_at_every_point_of_its_life(job, spark, tmp_path):
    kills = [
        Kill(RESTORING, "words-0", 1),
        Kill(RESTORED, "count", 2),
        Kill(BARRIER_RECEIVED, "count", 3),
        Kill(ALIGNED, "count", 4),
        Kill(PRE_COMMITTED, "count", 5),
        Kill(SNAPSHOTTED, "words-1", 6),
        Kill(SNAPSHOTTED, "count", 7),
        Kill(UPLOADED, "words", 8),
        Kill(UPLOADED, "count", 9),
        Kill(ACKNOWLEDGED, "count", 10),
        Kill(ACKNOWLEDGED, "words", 11),
        Kill(ELEMENT, "count -> sink-1"),
        Kill(END_OF_DATA),
    ]
    probe = KillOnce(tmp_path / "kills", *kills)
    graph = job.graph(execution__checkpointing__interval_records=50)
    result = execute_on_spark(graph, spark, probe=probe)
    assert len(probe.struck()) == len(kills)
    assert (result.attempts, result.checkpoints) == (1, 12), "Spark has mended all of it"
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_worker_that_runs_many_subtasks_is_killed_and_all_of_them_run_again(job, spark, tmp_path):
    """Twelve subtasks of a stage on two cores: a worker runs six of them, one after another."""
    graph = job.graph(12)
    assert partitions_of(stages_of(graph, layout_of(graph)), spark.sparkContext.defaultParallelism) == [2, 2]
    kills = [
        Kill(SNAPSHOTTED, "words-5", 2),
        Kill(PRE_COMMITTED, "count -> sink-11", 3),
        Kill(UPLOADED, "count", 4),
    ]
    probe = KillOnce(tmp_path / "kills", *kills)
    result = execute_on_spark(graph, spark, probe=probe)
    assert len(probe.struck()) == len(kills)
    assert (result.attempts, result.records_read) == (1, 600)
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_a_snapshot_that_was_torn_by_a_kill_is_deleted(job, spark, tmp_path):
    result = execute_on_spark(job.graph(), spark, subtask_class=TearingRun)
    torn = tmp_path / "torn"
    assert torn.exists()
    assert (result.attempts, result.checkpoints) == (1, 6)
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_a_spark_job_that_fails_for_good_is_followed_by_another_attempt(job, spark, tmp_path):
    probe = KillOnce(tmp_path / "kills", *[Kill(SNAPSHOTTED, "count -> sink-0", 3)] * 4)
    result = execute_on_spark(job.graph(), spark, probe=probe)
    assert len(probe.struck()) == 4
    assert result.attempts == 2
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_job_without_restarts_fails_with_the_error_of_spark(job, spark, tmp_path):
    probe = KillOnce(tmp_path / "kills", *[Kill(SNAPSHOTTED, "count -> sink-0", 3)] * 4)
    graph = job.graph(restart_strategy__fixed_delay__attempts=0)
    with pytest.raises(JobExecutionFailed, match=r"^job 'words' failed: .*Python worker exited") as caught:
        execute_on_spark(graph, spark, probe=probe)
    assert "\n" not in str(caught.value)
    execute_on_spark(job.graph(), spark)
    assert job.rows() == job.counts


def test_a_function_that_raises_fails_its_task_and_not_the_spark_job(job, spark, tmp_path):
    def unlucky(point, task, checkpoint_id):
        if point == SNAPSHOTTED and checkpoint_id == 2 and not (tmp_path / "raised").exists():
            (tmp_path / "raised").touch()
            raise ValueError("no luck")

    result = execute_on_spark(job.graph(), spark, probe=unlucky)
    assert (result.attempts, result.checkpoints) == (2, 6)
    assert job.rows() == job.counts


def test_a_module_that_workers_lack_ends_the_job_with_its_name(job, spark, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def pair(word):\n    return word\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    env = StreamExecutionEnvironment.get_execution_environment(job.configuration())
    words = env.from_source(job.source, None, "words").map(importlib.import_module("only_here").pair)
    words.sink_to(FileSink.for_row_format(str(job.output), Encoder.simple_string_encoder()).build())
    reason = r"cannot make .*: No module named 'only_here'; the program is interactive or installed, .*: give"
    with pytest.raises(JobExecutionFailed, match=reason) as caught:
        execute_on_spark(env.get_job_graph("words"), spark)
    assert "\n" not in str(caught.value)
    assert job.rows() == Counter()


def test_a_checkpoint_of_the_local_runtime_is_restored_on_spark(job, spark):
    with pytest.raises(job.power_cut):
        execute(job.graph(2), job.raising(COMPLETED, job.power_cut(), 3))
    execute_on_spark(job.graph(3), spark)
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-2"], [])


def test_a_checkpoint_taken_on_spark_is_restored_by_the_local_runtime(job, spark, here):
    probe = here.dying(COMPLETED, checkpoint=3, death=job.power_cut)
    with pytest.raises(job.power_cut):
        execute_on_spark(job.graph(3), spark, probe=probe)
    execute(job.graph(1))
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-2"], [])


def killed(whom, folder, point, checkpoint):
    """Run the program that kills its driver or its Java; gives its exit code and the lines that it said."""
    program = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, str(program), whom, str(folder), point, str(checkpoint)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert len(list((folder / "kills").iterdir())) == 1, done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.slow
def test_a_driver_that_is_killed_is_succeeded_by_another_one_and_its_java_ends(job, spark, tmp_path):
    # Of the two sinks that commit checkpoint 3 one has.
    code, [java] = killed("driver", tmp_path, COMMITTED, 3)
    assert code == -signal.SIGKILL
    deadline = time.monotonic() + PATIENCE_SECONDS
    while psutil.pid_exists(int(java)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(int(java)), "Java has outlived its driver"
    execute_on_spark(job.graph(3), spark)
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-2"], [])


@pytest.mark.slow
def test_driver_with_killed_java_fails_in_a_line_and_another_continues(job, tmp_path):
    code, [_, failure] = killed("java", tmp_path, TRIGGERED, 3)
    assert code == 0
    assert failure.startswith("job 'words' failed: Spark has stopped: ")
    execute(job.graph())
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-2"], [])
