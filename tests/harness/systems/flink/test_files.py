"""What the files of a job on Flink say: a log that grows, metadata as Flink lays them out, part files."""

from __future__ import annotations

import struct

import pytest

from onceproof.harness.systems.flink.files import (
    CheckpointFiles,
    FlinkPartFiles,
    Metadata,
    SourceLog,
    read_metadata,
)

LENGTHS = {"words-0": 7, "words 1": 4, "words-2": 3}
PART = "part-9f1c4f2e-58b1-4f30-8f69-33efa6d6bd5f-{}"


def metadata(checkpoint, *texts):
    """Return the metadata of a checkpoint: its head, and states as Flink stores them, between other bytes."""
    return (
        struct.pack(">iiq", 0x4960672D, 6, checkpoint)
        + b"\x00\xff["
        + b"\x00\x1f".join(map(str.encode, texts))
    )


def test_cut_is_read_from_readers_and_enumerator_and_the_rest_has_been_read():
    read = metadata(
        3, "[onceproof-read 0 0 3 ]", "[onceproof-read 0 5 3 words-0]", "[onceproof-waiting 1 0 0 words+1]"
    )
    assert read_metadata(read, LENGTHS) == Metadata(3, {"words-0": 5, "words 1": 0, "words-2": 3}, ())


def test_pending_part_files_are_listed_once_and_hidden_names_are_not():
    names = [PART.format(0), PART.format(11)]
    texts = [f"/folder/output/{name}/folder/output/.{name}.inprogress.7c" for name in (*names, names[0])]
    read = read_metadata(metadata(8, *texts), {})
    assert read is not None
    assert read.transactions == tuple(names)


@pytest.mark.parametrize("content", [b"", b"\x49", metadata(1)[:12], b"x" * 40])
def test_metadata_that_are_not_whole_are_none(content):
    assert read_metadata(content, LENGTHS) is None


def test_log_gives_whole_lines_once(tmp_path):
    path = tmp_path / "source.jsonl"
    log = SourceLog(path)
    assert log.new_events() == []
    line = b'{"kind": "element", "source": "s", "subtask": 1, "attempt": 0, "pid": 7, "checkpoint": 0}\n'
    path.write_bytes(line + line[:20])
    assert [each.subtask for each in log.new_events()] == [1]
    with path.open("ab") as file:
        file.write(line[20:])
    assert [each.pid for each in log.new_events()] == [7]
    assert log.new_events() == []


def test_checkpoint_is_found_once_where_flink_has_it_and_where_the_source_keeps_it(tmp_path):
    checkpoints, kept, stops = (tmp_path / name for name in ("checkpoints", "kept", "stops"))
    for folder in (kept, stops, checkpoints / "job" / "chk-2", checkpoints / "job" / "chk-3"):
        folder.mkdir(parents=True)
    found = CheckpointFiles(checkpoints, kept, stops, LENGTHS)
    # The folder of a checkpoint is there before its metadata.
    assert found.new_checkpoints() == []
    (checkpoints / "job" / "chk-3" / "_metadata").write_bytes(metadata(3))
    (checkpoints / "job" / "chk-2" / "_metadata").write_bytes(metadata(2))
    (kept / "chk-2").write_bytes(metadata(2))
    assert [each.checkpoint for each in found.new_checkpoints()] == [2, 3]
    assert found.place_of(2) == checkpoints / "job" / "chk-2"
    assert found.place_of(3) == checkpoints / "job" / "chk-3"
    assert found.new_checkpoints() == []


def test_job_does_not_go_on_from_a_checkpoint_that_flink_has_deleted(tmp_path):
    checkpoints, kept, stops = (tmp_path / name for name in ("checkpoints", "kept", "stops"))
    for folder in (kept, stops, checkpoints / "job" / "chk-2"):
        folder.mkdir(parents=True)
    found = CheckpointFiles(checkpoints, kept, stops, LENGTHS)
    (checkpoints / "job" / "chk-2" / "_metadata").write_bytes(metadata(2))
    (kept / "chk-3").write_bytes(metadata(3))
    assert [each.checkpoint for each in found.new_checkpoints()] == [2, 3]
    assert found.place_of(2) == checkpoints / "job" / "chk-2"
    assert found.place_of(3) is None
    (checkpoints / "job" / "chk-2" / "_metadata").unlink()
    assert found.place_of(2) is None


def test_savepoint_of_a_stop_is_a_checkpoint_and_another_one_is_not(tmp_path):
    checkpoints, kept, stops = (tmp_path / name for name in ("checkpoints", "kept", "stops"))
    for folder in (checkpoints, kept, stops / "savepoint-1", tmp_path / "savepoint-2"):
        folder.mkdir(parents=True)
    for folder, number in ((stops / "savepoint-1", 5), (tmp_path / "savepoint-2", 6)):
        (folder / "_metadata").write_bytes(metadata(number))
    found = CheckpointFiles(checkpoints, kept, stops, {})
    assert [each.checkpoint for each in found.new_checkpoints()] == [5]
    assert found.place_of(5) == stops / "savepoint-1"
    assert found.savepoint(tmp_path / "savepoint-2") == Metadata(6, {}, ())
    assert found.savepoint(tmp_path / "savepoint-3") is None


def test_part_file_counts_from_its_name_on_and_its_loss_is_seen(tmp_path):
    files = FlinkPartFiles(tmp_path)
    hidden, name = tmp_path / f".{PART.format(0)}.inprogress.7c", PART.format(0)
    hidden.write_text('["ant", 1]\n["bee", 2.5]\n')
    assert files.changes() == ({}, [])
    hidden.rename(tmp_path / name)
    assert files.changes() == ({name: [("ant", 1), ("bee", 2.5)]}, [])
    (tmp_path / name).unlink()
    assert files.changes() == ({}, [name])
