"""Checkpoints and savepoints at addresses, in the file system that fsspec keeps in this process's memory."""

from __future__ import annotations

import multiprocessing

import fsspec
import pytest

from onceproof.engine.graph import InvalidJob
from onceproof.engine.locations import is_same, location, name_of, parent_of
from onceproof.engine.protocol_points import COMMITTING, COMPLETED, SNAPSHOTTED
from onceproof.engine.runtime.job_registry import REGISTRY
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.mounted_storage import MountedStorage, open_storage
from onceproof.engine.runtime.remote_storage import RemoteCheckpointStorage
from onceproof.engine.runtime.restore_point import NoRestorePoint, read_restore_point
from onceproof.engine.runtime.spark.target import spark_storage
from onceproof.engine.runtime.storage import MemoryCheckpointStorage, StorageError
from onceproof.harness.services.object_store_server import BUCKET
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def address(request):
    """One that only this test knows; what it left is forgotten."""
    files = fsspec.filesystem("memory")
    name = request.node.name.replace("/", "-")
    yield f"memory://{name}"
    for path in files.find(f"/{name}"):
        files.rm_file(path)


@pytest.fixture(params=["folder", "address", "memory", "mounted folder", "mounted address"])
def storage(request, tmp_path, address):
    """Every kind of storage, and the beginning of the paths in it."""
    if request.param == "folder":
        return open_storage(str(tmp_path)), ""
    if request.param == "address":
        return open_storage(address), ""
    if request.param == "memory":
        return MemoryCheckpointStorage(), ""
    at = str(tmp_path / "mounted") if "folder" in request.param else f"{address}/mounted"
    return MountedStorage(MemoryCheckpointStorage(), {"sav-1": at}), "sav-1/"


def test_every_storage_supports_the_calls_of_checkpoints(storage, tmp_path):
    storage, beginning = storage
    names = [f"{beginning}{name}" for name in ("chk-1/_metadata", "chk-1/deep/c", "chk-10/a", "chk-2/b")]
    storage.write(names[0], b"one")
    assert storage.create_exclusive(names[1], b"three")
    assert not storage.create_exclusive(names[1], b"four")
    storage.make_durable(names[1])
    table = tmp_path / "table"
    table.write_bytes(b"table")
    storage.adopt(names[2], str(table), None)
    storage.adopt(names[3], str(table), names[2])
    assert [storage.read(name) for name in names] == [b"one", b"three", b"table", b"table"]
    assert storage.list(f"{beginning}chk-1") == names[:3]
    assert storage.list(f"{beginning}chk-1/") == names[:2]
    assert storage.list(f"{beginning}none/") == []
    assert storage.exists(names[0])
    assert not storage.exists(f"{beginning}chk-1/other")
    assert storage.create_exclusive(f"{beginning}claim-1")
    assert not storage.create_exclusive(f"{beginning}claim-1")
    storage.delete(names[0])
    storage.delete(names[0])
    assert not storage.exists(names[0])
    with pytest.raises(StorageError, match=r"chk-1/_metadata .*restore another|not in memory"):
        storage.read(names[0])
    with storage.exclusive():
        storage.write(names[0], b"four")
    assert storage.read(names[0]) == b"four"


def test_stored_table_that_is_gone_is_uploaded_again(address, tmp_path):
    table = tmp_path / "table"
    table.write_bytes(b"table")
    storage = open_storage(address)
    storage.adopt("shared/a", str(table), "chk-1/gone")
    assert storage.read("shared/a") == b"table"


def test_table_in_another_storage_is_not_reused(address, tmp_path):
    table = tmp_path / "table"
    table.write_bytes(b"table")
    storage = MountedStorage(open_storage(str(tmp_path / "job")), {"sav-1": address})
    storage.adopt("shared/a", str(table), None)
    storage.adopt("sav-1/a", str(table), "shared/a")
    assert open_storage(address).read("a") == b"table"


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a//b", "./a", "a\0b"])
@pytest.mark.parametrize("method", ["read", "delete", "create_exclusive"])
def test_a_path_that_leaves_an_address_is_refused(address, path, method):
    with pytest.raises(StorageError, match="does not lie within memory://"):
        getattr(open_storage(address), method)(path)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("hdfs://host/a", r"checkpoint folder hdfs://host/a: .* write webhdfs://HOST:PORT/PATH"),
        ("sftp://host/a", "nothing is known of sftp://"),
        ("gs://bucket/a", "checkpoint folder gs://bucket/a cannot be reached: .*gcsfs"),
    ],
)
def test_unusable_address_is_an_error_of_one_line(asked, said):
    with pytest.raises(StorageError, match=said) as caught:
        open_storage(asked)
    assert "\n" not in str(caught.value)


def test_file_system_error_becomes_one_line_with_the_file(address, monkeypatch):
    storage = open_storage(address)
    assert isinstance(storage, RemoteCheckpointStorage)

    def refuse(*_, **__):
        raise ValueError("no\ncredentials")

    monkeypatch.setattr(storage._files, "pipe_file", refuse)
    with pytest.raises(StorageError) as caught:
        storage.write("chk-1/a", b"")
    assert str(caught.value) == (
        f"checkpoint file {address}/chk-1/a cannot be written: no credentials:"
        " check address, rights and network, or choose another execution.checkpointing.dir"
    )


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("after", [1, 3])
def test_job_restores_its_checkpoints_at_an_address(job, address, backend, after):
    options = {
        "execution__checkpointing__dir": address,
        "state__backend__type": backend,
        "execution__checkpointing__incremental": backend == "rocksdb",
    }
    job.stopped(SNAPSHOTTED, 5, **options)
    job.stopped(COMPLETED, 1, **options)
    execute(job.graph(after, **options))
    assert job.rows() == job.counts
    assert not job.checkpoints.exists()
    left = [each for each in fsspec.filesystem("memory").find(address) if f"/{REGISTRY}/" not in each]
    assert [name_of(path).partition("-")[0] for path in left] == [
        "finished",
        "history",
        "incarnation",
        "incarnation",
        "owner",
    ]


def test_a_second_process_at_an_address_takes_the_job_over(job, address):
    """There is no lock: the first one finds out by what it wants to complete."""
    options = {"execution__checkpointing__dir": address}
    other = []

    def probe(point, task, checkpoint_id):
        if point == COMMITTING and not other:
            other.append(open_storage(f"{address}/{graph.job_id}").create_exclusive("incarnation-2"))
            open_storage(f"{address}/{graph.job_id}").delete("incarnation-1")

    graph = job.graph(**options)
    with pytest.raises(Exception, match="another process has taken job 'words' over"):
        execute(graph, probe)
    execute(job.graph(**options))
    assert job.rows() == job.counts


def test_address_without_savepoint_is_an_error(address):
    with pytest.raises(NoRestorePoint, match=f"{address}/none: there is no savepoint"):
        read_restore_point(f"{address}/none")


def test_workers_on_spark_do_not_share_a_memory(job, address):
    with pytest.raises(
        InvalidJob, match="keeps its checkpoints in memory, which workers on Spark do not share"
    ):
        spark_storage(job.graph(execution__checkpointing__dir=address))


def test_places_are_folders_or_addresses(tmp_path):
    assert location("file:///a/b/") == "/a/b"
    assert location("S3://bucket/a/") == "S3://bucket/a"
    assert (name_of("s3://bucket/a/chk-3"), parent_of("s3://bucket/a/chk-3")) == ("chk-3", "s3://bucket/a")
    (tmp_path / "link").symlink_to(tmp_path)
    assert is_same(str(tmp_path / "link"), str(tmp_path))
    assert not is_same("s3://bucket/a", "s3://bucket/b")


def test_forked_worker_opens_the_file_system_for_itself(object_store):
    storage = open_storage(f"s3://{BUCKET}/forked")
    storage.write("chk-1/a", b"of the coordinator")
    worker = multiprocessing.get_context("fork").Process(
        target=storage.write, args=("chk-1/b", b"of a worker")
    )
    worker.start()
    worker.join(PATIENCE_SECONDS)
    assert worker.exitcode == 0
    assert storage.read("chk-1/b") == b"of a worker"
