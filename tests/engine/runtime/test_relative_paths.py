"""Relative paths mean the folder where the job is submitted, wherever user code or a worker is later."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from onceproof.engine import (
    Configuration,
    CsvSource,
    Duration,
    Encoder,
    FileSink,
    FileSource,
    MapFunction,
    StreamExecutionEnvironment,
    StreamFormat,
    Types,
)
from onceproof.engine.connectors.sqlite import SqliteUpsertSink
from onceproof.engine.runtime.job_result import JobExecutionFailed

ROWS = 400
SCHEMA = [("i", Types.LONG())]


class Moves(MapFunction):
    """Moves the process to another folder, and fails there once, or always."""

    def __init__(self, folder, always=False):
        self.folder = folder
        self.always = always

    def map(self, value):
        if value[0] == ROWS // 2:
            os.chdir(self.folder / "elsewhere")
            mark = self.folder / "failed"
            if self.always or not mark.exists():
                mark.touch()
                raise ValueError("planned")
        return value


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    for number in range(2):
        rows = range(number * ROWS, (number + 1) * ROWS)
        Path(f"in{number}.csv").write_text("i\n" + "".join(f"{row}\n" for row in rows))
    return tmp_path


def environment(workers=1, **options):
    settings = {
        "execution.checkpointing.interval-records": 50,
        "execution.checkpointing.dir": "checkpoints",
        "execution.checkpointing.savepoint-dir": "savepoints",
        "execution.local.workers": workers,
        "pipeline.buffer-records": 10,
        "parallelism.default": 2,
        "state.backend.type": "rocksdb" if workers == 1 else "hashmap",
        "state.backend.rocksdb.localdir": "databases",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 2,
        "restart-strategy.fixed-delay.delay": "1 ms",
        **options,
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))


def job(folder, workers=1, always=False, **options):
    env = environment(workers, **options)
    lines = env.from_source(CsvSource(["in0.csv", "in1.csv"], SCHEMA), None, "lines").uid("lines")
    moved = lines.map(Moves(folder, always)).uid("moves")
    moved.sink_to(FileSink.for_row_format("out", Encoder.csv_encoder()).build()).uid("files")
    moved.sink_to(SqliteUpsertSink("rows.db", "rows", ["i"])).uid("table")
    moved.key_by(lambda row: row[0] % 5, Types.LONG()).reduce(lambda one, other: other).uid("kept")
    return env


def rows_in(out):
    files = [path for path in out.iterdir() if not path.name.startswith(".")]
    return Counter(int(line) for path in files for line in path.read_text().split())


@pytest.mark.parametrize("workers", [1, 2])
def test_a_function_that_changes_the_folder_moves_no_input_output_or_checkpoint(folder, workers):
    assert job(folder, workers).execute("moves").restarts == 1
    assert rows_in(folder / "out") == Counter(range(2 * ROWS))
    assert list((folder / "elsewhere").iterdir()) == []
    with sqlite3.connect(folder / "rows.db") as database:
        assert database.execute("SELECT count(*) FROM rows").fetchall() == [(2 * ROWS,)]
    assert (folder / "checkpoints" / "jobs").is_dir()
    assert (folder / "databases").is_dir() == (workers == 1)


def test_a_job_that_is_submitted_again_restores_by_its_relative_paths(folder, monkeypatch):
    with pytest.raises(JobExecutionFailed, match="planned"):
        job(folder, always=True).execute("moves")
    monkeypatch.chdir(folder)
    result = job(folder).execute("moves")
    assert result.records_read < 2 * ROWS
    assert rows_in(folder / "out") == Counter(range(2 * ROWS))


def test_a_source_names_its_splits_and_itself_by_the_paths_that_were_given(folder, monkeypatch):
    (folder / "logs" / "a").mkdir(parents=True)
    Path("logs", "a", "one").write_text("1\n2\n")
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "logs")
    once, forever = builder.build(), builder.monitor_continuously(Duration.of_millis(1)).build()
    ranges = CsvSource("in0.csv", SCHEMA, bytes_per_split=1000)
    monkeypatch.chdir(folder / "elsewhere")
    assert once.splits() == ["logs/a/one"]
    assert once.identity().what.endswith(" files logs")
    assert [record[0] for record in once.open_split("logs/a/one", None).read(10)] == ["1", "2"]
    [bucket] = forever.splits()
    reader = forever.open_split(bucket, None)
    assert [record[0] for record in reader.read(10)] == ["1", "2"]
    [(path, *_)] = [*reader.position[0], *reader.position[1]]
    assert path == "logs/a/one"
    assert [split.split("@")[0] for split in ranges.splits()] == ["in0.csv", "in0.csv"]
    assert len(ranges.open_split(ranges.splits()[1], None).read(1000)) > 0
