"""`onceproof checkpoints list|show|verify|delete`, in folders and at addresses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pytest

from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
    encode_metadata,
)
from onceproof.engine.state.file_envelope import SNAPSHOT_MAGIC, seal
from onceproof.engine.state.stored import StateFile

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command


def write_checkpoint(job: Path, number: int) -> Path:
    folder = job / f"chk-{number}"
    folder.mkdir(parents=True)
    subtasks = []
    for subtask in range(2):
        data, digest = seal(SNAPSHOT_MAGIC, f"state of subtask {subtask}".encode())
        (folder / f"count-{subtask}").write_bytes(data)
        handle = StateHandle(f"chk-{number}/count-{subtask}", len(data), digest, {})
        subtasks.append(SubtaskState(handle, finished=False))
    operator = OperatorMetadata("ab" * 16, "count", "count", 2, 128, tuple(subtasks))
    metadata = CheckpointMetadata(number, "job", "words", 0, "checkpoint", "1.1", (operator,))
    (folder / "_metadata").write_bytes(encode_metadata(metadata))
    return folder


@pytest.fixture
def job(tmp_path: Path) -> Path:
    for number in (9, 10):
        write_checkpoint(tmp_path / "checkpoints" / "job", number)
    return tmp_path / "checkpoints" / "job"


def test_list_sorts_checkpoints_by_number(onceproof: Command, job: Path) -> None:
    ended = onceproof("checkpoints", "list", "checkpoints", "--json")
    assert ended.code == 0
    documents = json.loads(ended.out)
    assert [document["checkpoint"] for document in documents] == [9, 10]
    assert documents[0]["files"] == 2
    assert onceproof("checkpoints", "list", str(job)).out.count("checkpoint 10 of words, attempt 1.1") == 1


def test_show_prints_the_operators_of_a_checkpoint(onceproof: Command, job: Path) -> None:
    assert "count: parallelism 2 of 128, 2 files" in onceproof("checkpoints", "show", str(job)).out
    document = json.loads(onceproof("checkpoints", "show", str(job / "chk-9"), "--json").out)
    assert document[0]["operators"][0]["uid"] == "count"


def test_verify_passes_for_intact_checkpoints(onceproof: Command, job: Path) -> None:
    ended = onceproof("checkpoints", "verify", str(job))
    assert ended.code == 0
    assert ended.out.count(": intact") == 2


def test_verify_names_each_damaged_file_and_checks_the_rest(onceproof: Command, job: Path) -> None:
    flipped = job / "chk-9" / "count-0"
    content = bytearray(flipped.read_bytes())
    content[-1] ^= 1
    flipped.write_bytes(bytes(content))
    truncated = job / "chk-9" / "count-1"
    truncated.write_bytes(truncated.read_bytes()[:-3])
    ended = onceproof("checkpoints", "verify", str(job))
    assert ended.code == 1
    assert "chk-9/count-0: damaged" in ended.out
    assert "chk-9/count-1: " in ended.out
    assert ended.out.count(": intact") == 1


@pytest.mark.parametrize("content", [b"", b"something else", b"\x89OPMETA\n\x00\x09"])
def test_verify_reports_unreadable_metadata(onceproof: Command, job: Path, content: bytes) -> None:
    (job / "chk-10" / "_metadata").write_bytes(content)
    assert onceproof("checkpoints", "list", str(job)).code == 0
    ended = onceproof("checkpoints", "verify", str(job), "--json")
    assert ended.code == 1
    assert [bool(document["damages"]) for document in json.loads(ended.out)] == [False, True]


def test_verify_reports_a_missing_file(onceproof: Command, job: Path) -> None:
    (job / "chk-10" / "count-1").unlink()
    ended = onceproof("checkpoints", "verify", str(job / "chk-10"))
    assert ended.code == 1
    assert "count-1: cannot be read" in ended.out


def test_verify_does_not_follow_a_path_out_of_the_job_folder(onceproof: Command, job: Path) -> None:
    data, digest = seal(SNAPSHOT_MAGIC, b"secret")
    (job.parent.parent / "secret").write_bytes(data)
    handle = StateHandle("../../secret", len(data), digest, {})
    operator = OperatorMetadata("ab" * 16, "count", "count", 1, 128, (SubtaskState(handle, finished=False),))
    metadata = CheckpointMetadata(10, "job", "words", 0, "checkpoint", "1.1", (operator,))
    (job / "chk-10" / "_metadata").write_bytes(encode_metadata(metadata))
    assert "leads out of" in onceproof("checkpoints", "verify", str(job)).out


def test_verify_without_checkpoints_does_not_pass(onceproof: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert onceproof("checkpoints", "verify", "empty").code == 5
    refused = onceproof("checkpoints", "verify", "absent")
    assert refused.code == 4
    assert refused.error == "onceproof: absent: no such folder\n"


def share_a_table(job: Path, number: int) -> Path:
    """Add a shared file to a checkpoint, and return its path."""
    path = job / "shared" / "chk-9.count-0.1.op.000012.sst"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"a table of a database")
    data, digest = seal(SNAPSHOT_MAGIC, b"state of subtask 0")
    (job / f"chk-{number}" / "count-0").write_bytes(data)
    table = StateFile(
        "ab" * 16, "000012.sst", f"shared/{path.name}", 21, sha256(b"a table of a database").hexdigest()
    )
    handle = StateHandle(f"chk-{number}/count-0", len(data), digest, {}, (table,))
    operator = OperatorMetadata("ab" * 16, "count", "count", 1, 128, (SubtaskState(handle, finished=False),))
    metadata = CheckpointMetadata(number, "job", "words", 0, "checkpoint", "1.1", (operator,))
    (job / f"chk-{number}" / "_metadata").write_bytes(encode_metadata(metadata))
    return path


def test_shared_files_are_counted_with_each_checkpoint_that_has_them(onceproof: Command, job: Path) -> None:
    for number in (9, 10):
        share_a_table(job, number)
    out = onceproof("checkpoints", "show", str(job)).out
    assert out.count("2 files, 89 bytes (1 shared file, 21 bytes)") == 4
    document = json.loads(onceproof("checkpoints", "show", str(job / "chk-9"), "--json").out)
    assert document[0]["shared_bytes"] == document[0]["operators"][0]["shared_bytes"] == 21
    assert onceproof("checkpoints", "verify", str(job)).out.count(": intact") == 2


def test_damaged_shared_file_is_reported_with_each_checkpoint(onceproof: Command, job: Path) -> None:
    for number in (9, 10):
        path = share_a_table(job, number)
    path.write_bytes(b"a table of a databasf")
    ended = onceproof("checkpoints", "verify", str(job))
    assert ended.code == 1
    assert ended.out.count("shared/chk-9.count-0.1.op.000012.sst: damaged") == 2
    path.write_bytes(b"a table")
    assert onceproof("checkpoints", "verify", str(job)).out.count("truncated: 7 bytes") == 2


@pytest.fixture
def address(job: Path) -> Iterator[str]:
    """The same checkpoints at an address of this process."""
    files = fsspec.filesystem("memory")
    files.put(str(job.parent), "/listed", recursive=True)
    yield "memory://listed"
    files.rm("/listed", recursive=True)


def test_checkpoints_at_an_address_are_listed_and_verified(onceproof: Command, address: str) -> None:
    listed = json.loads(onceproof("checkpoints", "list", address, "--json").out)
    assert [each["folder"] for each in listed] == [f"{address}/job/chk-9", f"{address}/job/chk-10"]
    assert onceproof("checkpoints", "verify", f"{address}/job").out.count(": intact") == 2
    fsspec.filesystem("memory").pipe_file("/listed/job/chk-10/count-0", b"other")
    ended = onceproof("checkpoints", "verify", f"{address}/job")
    assert ended.code == 1
    assert f"{address}/job/chk-10: checkpoint 10 of words" in ended.out
    assert "chk-10/count-0" in ended.out


def test_delete_refuses_a_checkpoint_at_an_address(onceproof: Command, address: str) -> None:
    ended = onceproof("checkpoints", "delete", f"{address}/job/chk-9")
    assert ended.code == 4
    assert "delete it with the tools of the store" in ended.error
    assert fsspec.filesystem("memory").exists("/listed/job/chk-9/_metadata")


def test_unusable_address_is_a_one_line_error(onceproof: Command) -> None:
    ended = onceproof("checkpoints", "list", "hdfs://host/checkpoints")
    assert ended.code == 4
    assert ended.error.count("\n") == 1
    assert "hdfs:// has no client here that creates a file exclusively: write webhdfs://" in ended.error
