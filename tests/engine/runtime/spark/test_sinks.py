"""Every kind of sink on Spark: the driver commits, any process may die, and each row is there once.

The outside of the write-ahead and of the committing sink is a folder of files; a batch appears in it by a
rename. The idempotent sink is the engine's own, over SQLite.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections import Counter
from pathlib import Path

import pytest

from onceproof.engine import StreamExecutionEnvironment, Types
from onceproof.engine.connectors.sink import SupportsCommitter
from onceproof.engine.connectors.sink_writer import Committer, CommittingSinkWriter
from onceproof.engine.connectors.sqlite import SqliteUpsertSink
from onceproof.engine.connectors.write_ahead import CheckpointCommitter, GenericWriteAheadSink
from onceproof.engine.functions import SinkFunction
from onceproof.engine.protocol_points import (
    COMMITTED,
    COMMITTING,
    COMPLETED,
    METADATA_WRITTEN,
    PRE_COMMITTED,
    SNAPSHOTTED,
    UPLOADED,
)
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.spark.target import execute_on_spark
from tests.engine.runtime.spark.killing import Kill, KillOnce

SEVEN_WORDS = 7


class Sent(CheckpointCommitter):
    """A batch that was sent is a file of its own name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, subtask: int, checkpoint_id: int) -> Path:
        return self.folder / f"batch-{checkpoint_id}-{subtask}"

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        assert self.is_checkpoint_committed(subtask_idx, checkpoint_id)

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        return self.path(subtask_idx, checkpoint_id).exists()


class Letters(GenericWriteAheadSink):
    """Sends a batch by writing it under its name, at once or not at all."""

    def __init__(self, folder: Path) -> None:
        self.sent = Sent(folder)
        super().__init__(self.sent)

    def send_batch(self, batch) -> bool:
        path = self.sent.path(batch.subtask, batch.checkpoint_id)
        publish(path.parent, write_hidden(path.parent, batch.values), path.name)
        return True


class Parts(SupportsCommitter):
    """A writer leaves hidden files, whose names are the committables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_writer(self, context):
        return PartWriter(self.folder)

    def create_committer(self, context):
        return PartCommitter(self.folder)


class PartWriter(CommittingSinkWriter):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[object] = []

    def write(self, element, context) -> None:
        self.rows.append(element)

    def flush(self, end_of_input: bool) -> None:
        pass

    def prepare_commit(self) -> list[str]:
        rows, self.rows = self.rows, []
        return [write_hidden(self.folder, rows)] if rows else []


class PartCommitter(Committer):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def commit(self, committables) -> None:
        for request in committables:
            hidden = request.get_committable()
            if (self.folder / hidden).exists():
                publish(self.folder, hidden, hidden.removeprefix("."))
            else:
                request.signal_already_committed()


def write_hidden(folder: Path, rows) -> str:
    folder.mkdir(exist_ok=True)
    name = f".{uuid.uuid4().hex}"
    (folder / name).write_text("".join(f"{tuple(row)}\n" for row in rows))
    return name


def publish(folder: Path, hidden: str, name: str) -> None:
    os.rename(folder / hidden, folder / name)


SINKS = {
    "write-ahead": Letters,
    "committing": Parts,
    "idempotent": lambda folder: SqliteUpsertSink(str(folder / "table.db"), "counts", ("word", "count")),
}


@pytest.fixture(params=SINKS)
def kind(request, job):
    job.output.mkdir()
    return request.param


def graph_of(job, kind, parallelism=2):
    env = StreamExecutionEnvironment.get_execution_environment(job.configuration())
    env.set_parallelism(parallelism).set_max_parallelism(16)
    counted = env.from_source(job.source, None, "words").key_by(lambda value: value[0], Types.STRING())
    counts = counted.process(job.function()).name("count").key_by(lambda value: value[0], Types.STRING())
    sink = SINKS[kind](job.output)
    attach = counts.add_sink if isinstance(sink, SinkFunction) else counts.sink_to
    attach(sink).name("sink")
    return env.get_job_graph("words")


def assert_all_is_there(job, kind) -> None:
    """Every row once; of a table the last one of each key."""
    if kind != "idempotent":
        assert job.rows() == job.counts
        return
    with sqlite3.connect(job.output / "table.db") as connection:
        rows = connection.execute("SELECT word, count FROM counts").fetchall()
    connection.close()
    assert Counter(dict(rows)) == Counter(job.words)
    assert len(rows) == SEVEN_WORDS


@pytest.mark.spark
def test_rows_are_there_once_if_workers_die_around_the_snapshot(job, kind, spark, tmp_path):
    kills = [Kill(PRE_COMMITTED, "sink", 2), Kill(SNAPSHOTTED, "sink-1", 3), Kill(UPLOADED, "sink", 4)]
    probe = KillOnce(tmp_path / "kills", *kills)
    result = execute_on_spark(graph_of(job, kind), spark, probe=probe)
    assert len(probe.struck()) == len(kills)
    assert (result.attempts, result.checkpoints) == (1, 6)
    assert_all_is_there(job, kind)


@pytest.mark.parametrize("point", [METADATA_WRITTEN, COMPLETED, COMMITTING, COMMITTED])
def test_next_driver_commits_the_rest_after_a_death_around_a_commit(job, kind, here, point):
    if kind == "idempotent" and point in (COMMITTING, COMMITTED):
        point = SNAPSHOTTED
    probe = here.dying(point, checkpoint=3, death=job.power_cut)
    with pytest.raises(job.power_cut):
        here(graph_of(job, kind), probe)
    assert probe.struck == 1
    _, result = here(graph_of(job, kind, parallelism=3))
    assert result.records_read < len(job.words), "it goes on from a checkpoint"
    assert_all_is_there(job, kind)


def test_local_runtime_commits_what_a_dead_spark_driver_has_not(job, kind, here):
    with pytest.raises(job.power_cut):
        here(graph_of(job, kind), here.dying(COMPLETED, checkpoint=3, death=job.power_cut))
    execute(graph_of(job, kind, parallelism=1))
    assert_all_is_there(job, kind)
