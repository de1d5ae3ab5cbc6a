"""Damage to any byte of any file of a checkpoint: it is found, named, and nothing older is taken in silence.

The checkpoints are those of a job whose state lies in a database and whose checkpoints are incremental:
metadata, state files and shared tables. Byte classes are the parts of an envelope; a table has none of ours,
and is damaged in its beginning, its middle and its end.
"""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    SubtaskState,
    decode_metadata,
    encode_metadata,
)
from onceproof.engine.checkpoint.snapshot_files import store_snapshot
from onceproof.engine.checkpoint.verification import damages_of
from onceproof.engine.protocol_points import COMMITTING
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.recovery import FINISHED, recover
from onceproof.engine.runtime.storage import MemoryCheckpointStorage, StorageError
from onceproof.engine.state.file_envelope import HEADER_BYTES, DamagedFile
from onceproof.engine.state.in_flight import INPUT, ChannelId
from onceproof.engine.state.key_blocks import KeyGroupCache
from onceproof.engine.state.snapshot import (
    KeyedSnapshot,
    OperatorSnapshot,
    TableSnapshot,
    TaskSnapshot,
)
from onceproof.engine.types import Types

ENVELOPE = {"magic": 0, "version": 9, "length": 17, "checksum": 30, "body": HEADER_BYTES, "end": -1}
TABLE = {"beginning": 0, "middle": None, "end": -1}


def flipped(data, place):
    place = len(data) // 2 if place is None else place % len(data)
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def truncated(data, place):
    place = len(data) // 2 if place is None else place % len(data)
    return data[:place]


OPTIONS = {
    "state__backend__type": "rocksdb",
    "execution__checkpointing__incremental": True,
    "execution__checkpointing__num_retained": 2,
}


@pytest.fixture(scope="module")
def stopped(new_job, tmp_path_factory):
    """A job that died with two complete checkpoints, its files and its output."""
    job = new_job(tmp_path_factory.mktemp("job"))
    # In the middle of the commits that follow the third checkpoint.
    job.stopped(COMMITTING, 5, **OPTIONS)
    return job, job.files(), job.files(job.output)


def kinds_of(files):
    """By kind, a file that the last checkpoint has; the table is none of the one before."""
    newest = f"chk-{max(int(path[4:].partition('/')[0]) for path in files if path.startswith('chk-'))}"
    return {
        "metadata": f"{newest}/_metadata",
        "state": max(
            (path for path in files if path.startswith(f"{newest}/") and "_metadata" not in path), key=str
        ),
        "table": max(path for path in files if path.startswith(f"shared/{newest}.")),
    }


def storage_with(files):
    storage = MemoryCheckpointStorage()
    for path, data in files.items():
        storage.write(path, data)
    return storage


CASES = [
    (kind, where, damage)
    for kind, places in (("metadata", ENVELOPE), ("state", ENVELOPE), ("table", TABLE))
    for where in places
    for damage in (flipped, truncated)
]


@pytest.mark.parametrize(("kind", "where", "damage"), CASES)
def test_job_names_the_damaged_file_and_does_not_run(stopped, kind, where, damage):
    job, files, output = stopped
    path = kinds_of(files)[kind]
    place = (TABLE if kind == "table" else ENVELOPE)[where]
    damaged = files | {path: damage(files[path], place)}
    storage = storage_with(damaged)
    with pytest.raises((DamagedFile, JobExecutionFailed)) as caught:
        job.execution(job.graph(**OPTIONS), storage).run()
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)
    kept = {
        name: storage.read(name)
        for name in storage.list("")
        if not name.startswith(("incarnation-", "owner-"))
    }
    assert kept == damaged
    if kind != "table":
        assert job.files(job.output) == output
    # A table is opened by the task that needs it; others may have committed what the checkpoint covers.
    assert not job.rows() - job.counts
    for name in job.files(job.output):
        (job.output / name).unlink()
    for name, data in output.items():
        (job.output / name).write_bytes(data)


@pytest.mark.parametrize("kind", ["metadata", "state", "table"])
@pytest.mark.parametrize("damage", [flipped, truncated])
def test_previous_checkpoint_is_restored_with_a_warning_if_configured(
    job, kind, damage, caplog: pytest.LogCaptureFixture
):
    job.stopped(COMMITTING, 5, **OPTIONS)
    path = job.directory / kinds_of(job.files())[kind]
    path.write_bytes(damage(path.read_bytes(), None))
    newest = int(path.name.partition(".")[0][4:] if kind == "table" else path.parent.name[4:])
    caplog.set_level(logging.WARNING)
    options = OPTIONS | {"execution__state_recovery__skip_damaged_checkpoints": True}
    execution_graph = job.graph(**options)
    execute(execution_graph)
    passed, gone_on = [
        record.getMessage() for record in caplog.records if "checkpoint" in record.getMessage()
    ]
    assert passed.startswith(f"checkpoint {newest} is passed over: ")
    assert path.name in passed
    assert gone_on.startswith(f"the job resumes from checkpoint {newest - 1}: ")
    # Nothing is lost; what the damaged one had committed is there again.
    assert not job.counts - job.rows()
    assert job.left_behind() == ([FINISHED, "incarnation-2"], [])


def test_without_any_intact_checkpoint_the_error_names_the_last_damage(stopped):
    _, files, _ = stopped
    damaged = {path: data if "_metadata" not in path else data[:-1] for path, data in files.items()}
    with pytest.raises(DamagedFile) as caught:
        recover(storage_with(damaged), 2, skips_damaged=True)
    assert caught.value.path == kinds_of(files)["metadata"]


def test_damaged_older_checkpoint_is_skipped_if_configured(stopped):
    _, files, _ = stopped
    newest = kinds_of(files)["metadata"]
    (older,) = [path for path in files if path.endswith("_metadata") and path != newest]
    damaged = files | {older: flipped(files[older], -1)}
    with pytest.raises(DamagedFile):
        recover(storage_with(damaged), 2)
    recovered = recover(storage_with(damaged), 2, skips_damaged=True)
    assert [f"chk-{each.checkpoint_id}/_metadata" for each in recovered.checkpoints] == [newest]
    assert [f"chk-{each}/_metadata" for each in recovered.former] == [older]


def test_skipped_checkpoint_stays_until_a_newer_one_is_complete(stopped):
    _, files, _ = stopped
    path = kinds_of(files)["table"]
    damaged = files | {path: truncated(files[path], None)}
    storage = storage_with(damaged)
    recover(storage, 2, skips_damaged=True)
    kept = {
        name: storage.read(name)
        for name in storage.list("")
        if not name.startswith(("incarnation-", "owner-"))
    }
    assert kept == damaged


# Every byte, by what looks at all files without loading any.


def in_flight(tmp_path_factory):
    """A checkpoint with records in flight, in memory, and its metadata."""
    storage = MemoryCheckpointStorage()
    entries = {key: key * key for key in range(20)}
    keyed = KeyedSnapshot(
        16, Types.LONG(), [TableSnapshot("squares", "value", Types.LONG(), entries)], {}, KeyGroupCache()
    )
    channels = {ChannelId(INPUT, "source", "count", 0, 0, 0): [[(1, None), (2, 5)]]}
    handle = store_snapshot(
        storage, "chk-1/count", TaskSnapshot({"count": OperatorSnapshot(keyed)}, channels=channels)
    )
    operator = OperatorMetadata("count", "count", "count", 1, 16, (SubtaskState(handle, False),))
    metadata = CheckpointMetadata(1, "job", "job", 0, "checkpoint", "1.1", (operator,))
    storage.write("chk-1/_metadata", encode_metadata(metadata))
    return {path: storage.read(path) for path in storage.list("chk-")}


def damaged_files(files, checkpoint):
    """Return what is wrong with the files of a checkpoint, by path."""
    storage = storage_with(files)
    path = f"{checkpoint}/_metadata"
    try:
        metadata = decode_metadata(storage.read(path), path)
    except DamagedFile as error:
        return {path: error.what}
    found = {damage.path: damage.what for damage in damages_of(metadata, storage.read)}
    assert not any("\n" in what for what in found.values())
    return found


@given(st.data())
def test_no_damage_to_any_byte_goes_unnoticed(stopped, tmp_path_factory, data):
    files = data.draw(st.sampled_from([stopped[1], in_flight(tmp_path_factory)]))
    newest = max(
        {path.partition("/")[0] for path in files if path.startswith("chk-")}, key=lambda name: int(name[4:])
    )
    needed = [path for path in files if path.startswith(newest)]
    metadata = decode_metadata(files[f"{newest}/_metadata"], "")
    needed += [
        file.path
        for operator in metadata.operators
        for subtask in operator.subtasks
        if subtask.handle is not None
        for file in subtask.handle.files
    ]
    assert damaged_files(files, newest) == {}
    path = data.draw(st.sampled_from(sorted(set(needed))))
    place = data.draw(st.integers(0, len(files[path]) - 1))
    damage = data.draw(st.sampled_from([flipped, truncated]))
    assert set(damaged_files(files | {path: damage(files[path], place)}, newest)) == {path}
    gone = {name: content for name, content in files.items() if name != path}
    if not path.endswith("_metadata"):
        (what,) = damaged_files(gone, newest).values()
        assert what.startswith("cannot be read: ")
    else:
        with pytest.raises(StorageError):
            damaged_files(gone, newest)
