"""Two processes of one job over an object store, where nothing keeps the second one out."""

from __future__ import annotations

import threading

import fsspec
import msgspec
import pytest
from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import CheckpointMetadata, decode_metadata, encode_metadata
from onceproof.engine.protocol_points import COMMITTING
from onceproof.engine.runtime.checkpoint_history import (
    HistoryRecord,
    JobHistory,
    OutcomeUnknown,
    find_record,
    recorded_starting_point,
)
from onceproof.engine.runtime.deletion import Superseded
from onceproof.engine.runtime.job_requests import publish_metadata
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.recovery import (
    FINISHED,
    INCARNATION,
    is_claimed_by,
    metadata_path,
    recover,
    retire,
)
from onceproof.engine.runtime.remote_storage import RemoteCheckpointStorage
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.engine.runtime.storage import MemoryCheckpointStorage, StorageError
from onceproof.engine.state.file_envelope import DamagedFile
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def address(request):
    files = fsspec.filesystem("memory")
    name = request.node.name.replace("/", "-")
    yield f"memory://{name}"
    for path in files.find(f"/{name}"):
        files.rm_file(path)


class LateStorage(MemoryCheckpointStorage):
    """A memory that promises no more than an object store."""

    writes_may_be_late = True


def metadata_of(checkpoint_id, attempt):
    return CheckpointMetadata(checkpoint_id, "job", "words", 0, "checkpoint", attempt, ())


def complete(storage, checkpoint_id, attempt):
    storage.write(metadata_path(checkpoint_id), encode_metadata(metadata_of(checkpoint_id, attempt)))


def found(recovered):
    return [(each.checkpoint_id, each.attempt) for each in recovered.checkpoints]


# The whole job.


@pytest.mark.parametrize("paused_at", ["before the metadata", "after the metadata"])
def test_paused_process_and_its_successor_leave_one_history(job, address, monkeypatch, paused_at):
    """The first process stops at its second checkpoint; the second one restores, commits, and fails."""
    options = {
        "execution__checkpointing__dir": address,
        "restart_strategy__type": "none",
        "restart_strategy__fixed_delay__attempts": None,
        "restart_strategy__fixed_delay__delay": None,
    }
    paused, goes_on, is_first = threading.Event(), threading.Event(), [True]
    create = RemoteCheckpointStorage.create_exclusive

    def pausing(self, path, data=b""):
        stops = path.endswith("chk-2/_metadata") and is_first[0]
        if stops:
            is_first[0] = False
        done = create(self, path, data) if stops and paused_at.startswith("after") else None
        if stops:
            paused.set()
            assert goes_on.wait(PATIENCE_SECONDS)
        return create(self, path, data) if done is None else done

    monkeypatch.setattr(RemoteCheckpointStorage, "create_exclusive", pausing)
    ends = []

    def first():
        try:
            execute(job.graph(**options))
        except Exception as error:
            ends.append(str(error))

    thread = threading.Thread(target=first)
    thread.start()
    assert paused.wait(PATIENCE_SECONDS), ends
    with pytest.raises(Exception, match="planned"):
        execute(job.graph(**options), job.raising(COMMITTING, RuntimeError("planned"), 4))
    goes_on.set()
    thread.join(PATIENCE_SECONDS)
    assert "another process has taken job 'words' over" in ends[0]
    execute(job.graph(**options))
    assert job.rows() == job.counts
    assert execute(job.graph(**options)).already_finished
    assert job.hidden() == []


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_claim_is_looked_up_again_where_the_storage_does_not_answer(job, address, monkeypatch, looks):
    """Each time that a process looks whether it still has the job, the first listings fail."""
    list_paths = RemoteCheckpointStorage.list
    failed = [0]

    def failing(self, prefix):
        if prefix == INCARNATION and job_runs:
            failed[0] += 1
            if failed[0] % looks:
                raise StorageError("the store does not answer")
        return list_paths(self, prefix)

    job_runs = False
    graph = job.graph(execution__checkpointing__dir=address)

    def begins(point, task, checkpoint_id):
        nonlocal job_runs
        job_runs = True

    monkeypatch.setattr(RemoteCheckpointStorage, "list", failing)
    execute(graph, begins)
    assert failed[0] > looks
    assert job.rows() == job.counts


# What counts.


def test_checkpoint_of_a_process_that_had_lost_the_job_does_not_count():
    storage = LateStorage()
    first = recover(storage, 1)
    complete(storage, 1, "1.1")
    second = recover(storage, 1)
    assert (first.incarnation, found(second)) == (1, [(1, "1.1")])
    complete(storage, 7, "1.1")
    complete(storage, 2, "2.1")
    third = recover(storage, 1)
    assert found(third) == [(2, "2.1")]
    assert not storage.exists(metadata_path(7)), "it is deleted"
    assert third.record.first_id == 8, "no later checkpoint has the name of a file that may be deleted late"


def test_late_marker_of_an_end_does_not_end_the_successor():
    storage = LateStorage()
    recover(storage, 1)
    recover(storage, 1)
    storage.write("history-1-2", msgspec.json.encode(HistoryRecord(is_finished=True)))
    storage.create_exclusive(FINISHED)
    third = recover(storage, 1)
    assert not third.finished
    history = JobHistory(storage, third.incarnation, third.record, third.records)
    history.finish()
    storage.delete(FINISHED)
    assert recover(storage, 1).finished, "a late delete strikes what nothing relies on"


def test_process_that_claims_later_than_a_higher_one_has_no_claim():
    class Slow(LateStorage):
        """Two others claim the job between the listing and the create."""

        is_slow = True

        def create_exclusive(self, path, data=b""):
            if self.is_slow:
                self.is_slow = False
                assert [recover(self, 1).incarnation for _ in range(2)] == [1, 2]
            return super().create_exclusive(path, data)

    storage = Slow()
    with pytest.raises(Superseded):
        recover(storage, 1)
    assert not is_claimed_by(storage, 1)
    assert is_claimed_by(storage, 2)


def test_file_system_that_creates_a_file_twice_is_refused():
    class Forgetful(LateStorage):
        def create_exclusive(self, path, data=b""):
            self.delete(path)
            return super().create_exclusive(path, data)

    with pytest.raises(StorageError, match="creates a file that is there already"):
        recover(Forgetful(), 1)


def test_job_of_an_earlier_version_goes_on(job):
    """Its folder has no record, and a file with its starting point."""
    storage = LateStorage()
    storage.create_exclusive("incarnation-4")
    complete(storage, 3, "2.1")
    complete(storage, 6, "4.2")
    point = StartingPoint("/savepoint", 3)
    storage.write("starting-point", msgspec.json.encode(point))
    recovered = recover(storage, 1)
    assert (recovered.incarnation, found(recovered)) == (5, [(6, "4.2")])
    assert recovered.starting_point == point == recorded_starting_point(storage)
    assert storage.list("starting-point") == []
    assert found(recover(storage, 1)) == [(6, "4.2")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "it cannot be read"),
        (b"[" * 100_000, "it cannot be read"),
        (b'{"first_id": 0}', "0 is not an id of a checkpoint"),
        (b'{"unknown": 1}', "it cannot be read"),
    ],
)
def test_damaged_record_is_an_error_of_one_line(data, said):
    storage = LateStorage()
    storage.write("history-3-1", data)
    with pytest.raises(DamagedFile, match=said) as caught:
        find_record(storage, storage.list(""))
    assert "\n" not in str(caught.value)


# What fails.


class Failing(LateStorage):
    """Creates fail while ``fails`` says so, and land all the same when ``lands`` does."""

    def __init__(self):
        super().__init__()
        self.fails = ()
        self.lands = False

    def create_exclusive(self, path, data=b""):
        if path.startswith(self.fails or ("nothing",)):
            if self.lands:
                super().create_exclusive(path, data)
            raise StorageError(f"checkpoint file {path} cannot be written: timed out")
        return super().create_exclusive(path, data)


@pytest.fixture
def failing():
    storage = Failing()
    recovered = recover(storage, 1)
    return storage, JobHistory(storage, recovered.incarnation, recovered.record, recovered.records)


def test_metadata_that_appear_after_their_create_failed_do_not_count(failing):
    storage, history = failing
    publish_metadata(storage, history, metadata_of(1, "1.1"), None)
    storage.fails = ("chk-2",)
    with pytest.raises(StorageError, match="timed out"):
        publish_metadata(storage, history, metadata_of(2, "1.1"), None)
    complete(storage, 2, "1.1")
    assert found(recover(storage, 1)) == [(1, "1.1")]


def test_unknown_outcome_ends_the_process_and_the_next_one_decides(failing):
    storage, history = failing
    storage.fails, storage.lands = ("chk-1", "history-"), True
    with pytest.raises(OutcomeUnknown, match=r"is unknown .*timed out.*: start the job again"):
        publish_metadata(storage, history, metadata_of(1, "1.1"), None)
    storage.fails = ()
    storage.delete("history-1-2")
    assert found(recover(storage, 1)) == [(1, "1.1")]


def test_create_that_its_client_repeats_is_not_taken_for_anothers(failing):
    storage, history = failing
    complete(storage, 1, "1.1")
    publish_metadata(storage, history, metadata_of(1, "1.1"), None)
    with pytest.raises(StorageError, match="from a process that had lost the job"):
        publish_metadata(storage, history, metadata_of(1, "1.2"), None)
    assert decode_metadata(storage.read(metadata_path(1)), "").attempt == "1.1"


def test_starting_point_whose_record_failed_is_taken_back(failing):
    storage, history = failing
    storage.fails, storage.lands = ("history-1-2",), True
    savepoint = replace(metadata_of(4, "1.1"), kind="sync_savepoint")
    with pytest.raises(StorageError, match="timed out"):
        publish_metadata(storage, history, savepoint, StartingPoint("/savepoint", 4))
    assert recorded_starting_point(storage).path == ""
    assert storage.list("savepoint") == []


def test_cancelled_job_begins_anew_above_the_ids_that_it_used(failing):
    storage, history = failing
    complete(storage, 5, "1.1")
    history.close(6)
    again = recover(storage, 1)
    assert (found(again), again.record.first_id) == ([], 6)


def test_of_the_records_of_a_finished_job_the_latest_stays():
    storage = LateStorage()
    recover(storage, 1)
    recovered = recover(storage, 1, StartingPoint("/savepoint", 9))
    history = JobHistory(storage, recovered.incarnation, recovered.record, recovered.records)
    history.finish()
    retire(storage)
    history.forget()
    assert storage.list("") == [FINISHED, "history-2-2", "incarnation-2"]
    assert recover(storage, 1).finished
    assert recorded_starting_point(storage).path == "/savepoint"


def test_record_accepts_by_id_and_attempt():
    storage = LateStorage()
    storage.write(
        "history-2-1", msgspec.json.encode(HistoryRecord(accepted=((1, "1.1"),), void=((4, "2.1"),)))
    )
    record = find_record(storage, storage.list(""))
    counts = [(1, "1.1"), (1, "1.2"), (3, "2.1"), (4, "2.1"), (4, "2.2"), (5, "21.1"), (5, "1.1")]
    assert [each for each in counts if record.counts(metadata_of(*each))] == [
        (1, "1.1"),
        (3, "2.1"),
        (4, "2.2"),
    ]
