"""A storage that cannot be read for a while: the job goes on once it can."""

import os
import re

import pytest

from onceproof.engine import CsvSource, StreamExecutionEnvironment, Types
from onceproof.engine.protocol_points import ELEMENT
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.job_startup import open_job_storage
from onceproof.engine.runtime.local import LocalExecution, execute
from onceproof.engine.runtime.recovery import recover
from onceproof.engine.runtime.storage import LocalCheckpointStorage, MissingFile, StorageError


class Storage:
    """Fails some reads of snapshots with an error, from when the test says so."""

    def __init__(self, monkeypatch):
        self.left = 0
        self.error = StorageError("checkpoint file cannot be read: Input/output error: check the disk")
        sound = LocalCheckpointStorage.read

        def read(storage, path):
            if self.left and "_metadata" not in path and path.startswith("chk-"):
                self.left -= 1
                raise self.error
            return sound(storage, path)

        monkeypatch.setattr(LocalCheckpointStorage, "read", read)


@pytest.fixture
def storage(monkeypatch):
    return Storage(monkeypatch)


def run(graph, storage, failures, at=350, kind=ELEMENT):
    """Run a job that fails once and then cannot read its checkpoint so many times."""
    passed = 0

    def probe(point, task, checkpoint_id):
        nonlocal passed
        if point == kind:
            passed += 1
            if passed == at:
                storage.left = failures
                raise RuntimeError("boom")

    opened = open_job_storage(graph)
    return LocalExecution(graph, opened, recover(opened, graph.settings.num_retained), probe).run()


@pytest.mark.parametrize("error", [StorageError("no answer"), MissingFile("gone"), OSError("stale handle")])
def test_failover_retries_a_read_that_fails(job, storage, error):
    storage.error = error
    result = run(job.graph(1), storage, failures=2, at=60)
    assert job.rows() == job.counts
    assert result.attempts == 4


def test_reads_that_fail_too_often_end_the_job_with_their_reason(job, storage):
    with pytest.raises(JobExecutionFailed, match="Input/output error"):
        run(job.graph(1), storage, failures=100, at=60)
    storage.left = 0
    execute(job.graph(1))
    assert job.rows() == job.counts


def test_partly_finished_job_is_restored_after_reads_that_fail(job, storage, tmp_path):
    short, long = tmp_path / "short.csv", tmp_path / "long.csv"
    short.write_text("word\n" + "w0\n" * 3)
    long.write_text("word\n" + "w1\n" * 400)
    env = StreamExecutionEnvironment.get_execution_environment(job.configuration())
    sources = [
        env.from_source(CsvSource(str(path), [("word", Types.STRING())]), None, path.stem).uid(path.stem)
        for path in (short, long)
    ]
    keyed = sources[0].union(sources[1]).key_by(lambda value: value[0], Types.STRING())
    job.into_files(keyed.process(job.function()).name("count"))
    result = run(env.get_job_graph("union"), storage, failures=2, at=75)
    assert result.attempts == 4
    rows = job.rows()
    assert sum(rows.values()) == 403
    assert set(rows.values()) == {1}


def test_lookup_that_fails_does_not_mean_that_the_file_is_gone(tmp_path, monkeypatch):
    storage = LocalCheckpointStorage(tmp_path)
    storage.write("incarnation-1", b"")

    def stat(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(StorageError, match="incarnation-1 cannot be looked for: Input/output error"):
        storage.exists("incarnation-1")


def test_missing_file_is_an_error_of_its_own(tmp_path):
    storage = LocalCheckpointStorage(tmp_path)
    with pytest.raises(MissingFile, match=re.escape(f"{tmp_path}/chk-1/a cannot be read")):
        storage.read("chk-1/a")
