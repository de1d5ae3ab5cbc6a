"""The local runtime over damaged checkpoints, failing storage, and input that cannot be used.

Each is one clear line; what is there stays, and a job that was mended goes on from it.
"""

from __future__ import annotations

import threading

import pytest

from onceproof.engine import CsvSource, Types
from onceproof.engine.protocol_points import COMMITTING, COMPLETED, ELEMENT, RESTORING
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.recovery import FINISHED
from onceproof.engine.runtime.storage import LocalCheckpointStorage, MemoryCheckpointStorage, StorageError
from onceproof.engine.state.file_envelope import FORMAT_VERSION, DamagedFile
from tests.patience import PATIENCE_SECONDS


def files_of(storage):
    """Return the names of files without the owner's token."""
    return [name for name in storage.list("") if not name.startswith("owner-")]


def test_malformed_row_fails_the_job_at_once_and_a_corrected_one_continues(job, tmp_path):
    lines = [f"{word}\n" for word in job.words]
    lines[450] = "a,b\n"
    path = tmp_path / "words.csv"
    path.write_text("".join(lines))
    job.source = CsvSource(path, [("word", Types.STRING())], header=False, block_bytes=100)
    with pytest.raises(JobExecutionFailed, match=r"words\.csv, line 451: ") as caught:
        execute(job.graph())
    assert "\n" not in str(caught.value)
    committed = job.rows()
    assert sum(committed.values()) >= 300
    assert not committed - job.counts
    path.write_text("".join(f"{word}\n" for word in job.words))
    result = execute(job.graph())
    assert result.records_read <= 300
    assert job.rows() == job.counts


def test_state_of_the_wrong_type_ends_the_job_at_once_and_keeps_the_checkpoints(job, monkeypatch):
    job.stopped(COMMITTING, 5)
    kept = job.files()
    monkeypatch.setattr(job.function, "process_element", wrong_count)
    with pytest.raises(JobExecutionFailed, match="state 'count'") as caught:
        execute(job.graph())
    assert "\n" not in str(caught.value)
    assert kept.items() <= job.files().items()
    monkeypatch.undo()
    execute(job.graph())
    assert job.rows() == job.counts


def wrong_count(self, value, ctx):
    self.count.update("many")
    yield value[0], 0


def flipped(data):
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def truncated(data):
    return data[: len(data) // 2]


def newer(data):
    return data[:8] + (FORMAT_VERSION + 1).to_bytes(2, "big") + data[10:]


def foreign(data):
    return b"PK\3\4" + data


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (flipped, "damaged"),
        (truncated, "truncated"),
        (newer, f"newer than {FORMAT_VERSION}"),
        (foreign, "no "),
    ],
)
@pytest.mark.parametrize("kind", ["metadata", "state"])
def test_a_damaged_checkpoint_is_one_clear_line_and_nothing_is_touched(job, kind, damage, said):
    job.stopped(COMMITTING, 5)
    [checkpoint] = [path for path in job.directory.iterdir() if path.name.startswith("chk-")]
    names = sorted(path.name for path in checkpoint.iterdir() if path.name != "_metadata")
    path = checkpoint / ("_metadata" if kind == "metadata" else names[0])
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    before, rows = job.files(), job.files(job.output)
    expected = DamagedFile if kind == "metadata" else JobExecutionFailed
    with pytest.raises(expected) as caught:
        execute(job.graph())
    line = str(caught.value)
    assert "\n" not in line
    assert str(path) in line
    assert said in line or "overlong: " in line
    assert job.files() == before
    assert job.files(job.output) == rows
    path.write_bytes(whole)
    execute(job.graph())
    assert job.rows() == job.counts


def test_a_state_file_that_is_gone_is_one_clear_line(job):
    job.stopped(COMMITTING, 5)
    [checkpoint] = [path for path in job.directory.iterdir() if path.name.startswith("chk-")]
    path = next(path for path in checkpoint.iterdir() if path.name != "_metadata")
    path.unlink()
    with pytest.raises(JobExecutionFailed, match=rf"{path.name} cannot be read: No such file") as caught:
        execute(job.graph())
    assert "\n" not in str(caught.value)


def test_a_parallelism_beyond_the_key_groups_is_refused_and_the_checkpoint_stays(job):
    job.stopped(COMPLETED, 3)
    before = job.files()
    env_graph = job.graph
    with pytest.raises(Exception, match=r"parallelism") as caught:
        execute(env_graph(parallelism=17))
    assert "\n" not in str(caught.value)
    assert job.files() == before


# A storage that fails


class FailingStorage(MemoryCheckpointStorage):
    """Refuses writes: those whose number is in ``writes``, publications in ``publications``."""

    def __init__(self, writes=(), publications=()):
        super().__init__()
        self.refused = {"write": writes, "create": publications}
        self.calls = {"write": 0, "create": 0}
        self.torn = []
        self.deleted = []

    def write(self, path, data):
        self._maybe_refuse("write", path, data)
        super().write(path, data)

    def create_exclusive(self, path, data=b""):
        if data:
            self._maybe_refuse("create", path, data)
        return super().create_exclusive(path, data)

    def delete(self, path):
        if path in self.torn:
            self.deleted.append((path, threading.current_thread().name.startswith("checkpoint-writer")))
        super().delete(path)

    def _maybe_refuse(self, call, path, data):
        self.calls[call] += 1
        if self.calls[call] in self.refused[call]:
            super().write(path, data[: len(data) // 2])
            self.torn.append(path)
            raise StorageError(
                f"checkpoint file {path} cannot be written: No space left on device: free some"
            )


@pytest.mark.parametrize("storage", [FailingStorage(writes={8}), FailingStorage(publications={2})])
@pytest.mark.parametrize("tolerated", [0, 2])
def test_a_write_that_fails_fails_its_checkpoint_and_leaves_nothing(job, storage, tolerated):
    storage.__init__(storage.refused["write"], storage.refused["create"])
    graph = job.graph(execution__checkpointing__tolerable_failed_checkpoints=tolerated)
    result = job.execution(graph, storage).run()
    # The writer deletes at once: the checkpoint may have been aborted before, and no later event deletes it.
    assert [(path, True) for path in storage.torn] == storage.deleted[: len(storage.torn)]
    assert result.attempts == (1 if tolerated else 2)
    assert job.rows() == job.counts
    assert files_of(storage) == [FINISHED, "incarnation-1"]
    assert job.hidden() == []


def test_a_full_storage_ends_the_job_with_its_reason_and_the_last_checkpoint_stays(job):
    storage = FailingStorage(writes=range(20, 10_000))
    with pytest.raises(JobExecutionFailed, match="No space left on device") as caught:
        job.execution(job.graph(), storage).run()
    assert "\n" not in str(caught.value)
    storage.refused = {"write": (), "create": ()}
    result = job.execution(job.graph(), storage).run()
    assert result.records_read < 600
    assert job.rows() == job.counts
    assert files_of(storage) == [FINISHED, "incarnation-2"]


def test_a_snapshot_that_becomes_durable_after_its_task_died_is_deleted(job):
    class Held(MemoryCheckpointStorage):
        """Holds the first snapshot back until the attempt it belongs to is over."""

        held = threading.Event()

        def write(self, path, data):
            if path.endswith("-1.1"):
                self.held.wait(PATIENCE_SECONDS)
            super().write(path, data)

    storage = Held()
    deaths = job.raising(ELEMENT, RuntimeError("planned"), 60)

    def probe(point, task, checkpoint_id):
        if point == RESTORING and execution.attempts == 2:
            storage.held.set()
        deaths(point, task, checkpoint_id)

    execution = job.execution(job.graph(execution__checkpointing__interval_records=300), storage, probe)
    assert execution.run().attempts == 2
    assert job.rows() == job.counts
    assert files_of(storage) == [FINISHED, "incarnation-1"]


def test_a_job_that_runs_already_is_refused_and_nothing_is_touched(job):
    job.stopped(COMMITTING, 5)
    before = job.files()
    refused = []

    def probe(point, task, checkpoint_id):
        # In the middle of the job, the same job is started once more.
        if point == RESTORING and not refused:
            with pytest.raises(StorageError, match="the job runs in another process") as caught:
                execute(job.graph())
            refused.append(str(caught.value))
            assert job.files() == before

    execute(job.graph(), probe)
    assert len(refused) == 1
    assert "\n" not in refused[0]
    assert job.rows() == job.counts


def test_the_directory_of_another_user_is_one_clear_line(job):
    job.checkpoints.write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"checkpoints") as caught:
        execute(job.graph())
    assert "\n" not in str(caught.value)


def test_local_storage_and_memory_leave_the_same_files(job, tmp_path):
    local, memory = LocalCheckpointStorage(tmp_path / "local"), MemoryCheckpointStorage()
    for storage in (local, memory):
        with pytest.raises(job.power_cut):
            job.execution(job.graph(), storage, job.raising(COMPLETED, job.power_cut(), 2)).run()
        for path in job.output.iterdir():
            path.unlink()
    assert files_of(local) == files_of(memory)
