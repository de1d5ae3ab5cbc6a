"""Names that a file of a checkpoint gives: which are refused, and where."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
    decode_metadata,
    encode_metadata,
)
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.state.file_envelope import (
    METADATA_MAGIC,
    SNAPSHOT_MAGIC,
    DamagedFile,
    is_database_file,
    is_plain_name,
    leads_out,
    seal,
)
from onceproof.engine.state.in_flight import ChannelIndex
from onceproof.engine.state.rocksdb.database import Database
from onceproof.engine.state.rocksdb.databases import DatabaseUnreadable
from onceproof.engine.state.snapshot import decode_task_snapshot
from onceproof.engine.state.stored import EncodedOperator, EncodedTable, NativeState, SnapshotIndex, StateFile
from onceproof.engine.types import from_descriptor
from onceproof.engine.types.information import ENCODE

LEADING_OUT = ["/etc/passwd", "../outside", "a/../../b", "a\0b", "", ".", "..", "a//b", "n" * 256]


@pytest.mark.parametrize("path", [*LEADING_OUT, "\udc80"])
def test_a_path_that_leaves_its_folder_is_recognised(path):
    assert leads_out(path)
    assert not is_plain_name(path)
    assert not is_database_file(path)


def test_paths_of_checkpoints_are_allowed():
    assert not leads_out("chk-3/0123456789ab-0-1.1")
    assert not leads_out("shared/chk-3.0123.000012.sst")
    assert is_database_file("MANIFEST-000005")
    assert not is_database_file("rocksdict-config.json"), "it would change how values are decoded"


def snapshot_of(operator):
    return seal(SNAPSHOT_MAGIC, ENCODE({"op": operator}))[0]


@pytest.mark.parametrize("name", [*LEADING_OUT, "rocksdict-config.json"])
def test_a_forged_name_in_a_snapshot_is_a_damaged_file(name):
    forged = EncodedOperator({}, {}, NativeState({}, 0, {name: b"x"}))
    with pytest.raises(DamagedFile, match="not a name of a database's file"):
        decode_task_snapshot(snapshot_of(forged), "chk-1/a")


@pytest.mark.parametrize(
    "operator",
    [
        EncodedOperator({}, {}, NativeState({}, -1, {})),
        EncodedOperator({"s": EncodedTable("value", "LONG", "LONG", {1: 1}, {})}, {}),
    ],
)
def test_forged_numbers_in_a_snapshot_are_a_damaged_file(operator):
    with pytest.raises(DamagedFile, match="forged or damaged"):
        decode_task_snapshot(snapshot_of(operator), "chk-1/a")


@pytest.mark.parametrize("name", LEADING_OUT)
def test_a_database_is_never_written_outside_of_its_folder(tmp_path, name):
    settings = StateBackendSettings(local_directory=str(tmp_path))
    with pytest.raises(DatabaseUnreadable, match="not a name of a database's file"):
        Database.of_files([(name, b"x")], settings)


HANDLE = StateHandle("chk-1/a", 100, "00", {"op": SnapshotIndex({}, {"list": ("UNION", 3)})})
FILE = StateFile("op", "000001.sst", "chk-1/t", 1, "00")


def metadata_with(handle, parallelism=1, max_parallelism=128, checkpoint_id=1):
    subtasks = (SubtaskState(handle, False),)
    operator = OperatorMetadata("op", None, "Op", parallelism, max_parallelism, subtasks)
    return encode_metadata(CheckpointMetadata(checkpoint_id, "j", "job", 0, "checkpoint", "1.1", (operator,)))


@pytest.mark.parametrize("path", LEADING_OUT)
def test_a_forged_path_in_metadata_is_a_damaged_file(path):
    table = replace(FILE, path=path)
    for forged in (replace(HANDLE, path=path), replace(HANDLE, files=(table,))):
        with pytest.raises(DamagedFile, match="leads out of its folder"):
            decode_metadata(metadata_with(forged), "_metadata")


@pytest.mark.parametrize(
    "forged",
    [
        metadata_with(replace(HANDLE, files=(replace(FILE, name="../x"),))),
        metadata_with(replace(HANDLE, files=(replace(FILE, length=-1),))),
        metadata_with(replace(HANDLE, channels=ChannelIndex(-5, "00", ()))),
        metadata_with(replace(HANDLE, channels=ChannelIndex(101, "00", ()))),
        metadata_with(replace(HANDLE, index={"op": SnapshotIndex({}, {"list": ("UNION", 10**9)})})),
        metadata_with(HANDLE, parallelism=2_000_000_000),
        metadata_with(HANDLE, max_parallelism=0),
        metadata_with(HANDLE, checkpoint_id=-1),
    ],
)
def test_forged_numbers_in_metadata_are_a_damaged_file(forged):
    with pytest.raises(DamagedFile, match="forged or damaged"):
        decode_metadata(forged, "_metadata")


@pytest.mark.parametrize("body", [b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff" + b"\x01" * 90])
def test_deep_nesting_and_lying_lengths_are_a_damaged_file(body):
    with pytest.raises(DamagedFile):
        decode_metadata(seal(METADATA_MAGIC, body)[0], "_metadata")
    with pytest.raises(DamagedFile):
        decode_task_snapshot(seal(SNAPSHOT_MAGIC, body)[0], "chk-1/a")


def test_a_stored_type_that_is_nested_too_deeply_is_refused():
    descriptor = "LONG"
    for _ in range(100_000):
        descriptor = ["LIST", descriptor]
    with pytest.raises(ValueError, match="nested too deeply"):
        from_descriptor(descriptor)
    with pytest.raises(ValueError, match="unknown type"):
        from_descriptor(["ROW", [["a"]], ["LONG"]])
