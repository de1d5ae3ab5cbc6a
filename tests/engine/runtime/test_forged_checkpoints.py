"""Checkpoints of strangers: whatever a file of them holds, a restore reads and writes nothing outside.

Each example takes a real checkpoint, replaces one value somewhere in its metadata or in a state file, seals
the file again as its writer would, and reads it as a restore does.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from onceproof.engine.checkpoint import metadata as metadata_module
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, StateHandle, encode_metadata
from onceproof.engine.checkpoint.verification import handles_of
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.job.channel_layout import layout_of
from onceproof.engine.job.deployment import fit_max_parallelism, plan_restores, read_restore
from onceproof.engine.protocol_points import COMPLETED
from onceproof.engine.runtime import restore_point
from onceproof.engine.runtime import storage as storage_module
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.restore_point import RESTORED_FROM, as_users, read_restore_point
from onceproof.engine.runtime.storage import LocalCheckpointStorage, MemoryCheckpointStorage, StorageError
from onceproof.engine.state.file_envelope import METADATA_MAGIC, SNAPSHOT_MAGIC, first_part, seal, unseal
from onceproof.engine.state.stored import SPLIT_DISTRIBUTE
from onceproof.engine.types.information import ENCODER
from onceproof.harness.model.mutants.patching import replaced

MOST_MEMORY = 64 << 20
NASTY = (
    "../outside/precious",
    "/etc/passwd",
    "link/precious",
    "chk-1/../../outside/precious",
    "a\0b",
    "",
    ".",
    "OPTIONS-000001",
    "rocksdict-config.json",
    -1,
    0,
    1,
    70_000,
    1 << 40,
    (1 << 62) + 1,
    None,
    True,
    b"\xff",
    [],
    {},
    [[[]]],
    1.5,
)


class Attack:
    """A retained checkpoint of a real job, and a folder beside it that must stay as it is."""

    def __init__(self, job, folder: Path, backend: str) -> None:
        options = {"state__backend__type": backend}
        if backend == "rocksdb":
            options["execution__checkpointing__incremental"] = True
        job.stopped(COMPLETED, 2, **options)
        self.graph = job.graph(3, **options)
        self.outside = folder / "outside"
        self.outside.mkdir()
        (self.outside / "precious").write_text("x")
        self.base = job.directory
        self.checkpoint = max(path.parent for path in self.base.glob("chk-*/_metadata"))
        (self.base / "link").symlink_to(self.outside)
        (self.checkpoint / "link").symlink_to(self.outside)
        self.metadata_file = self.checkpoint / "_metadata"
        self.metadata = self.metadata_file.read_bytes()
        self.before = self.tree()
        self.files = {path: path.read_bytes() for path in self.base.rglob("*") if path.is_file()}

    def tree(self) -> dict[str, bytes]:
        """What lies outside of the checkpoint."""
        return {str(path): path.read_bytes() for path in sorted(self.outside.rglob("*"))}

    def restore(self) -> None:
        """Read the checkpoint as three subtasks do, and name the files that a claim would delete."""
        point = read_restore_point(str(self.checkpoint))
        metadata = as_users(point.mounted)
        storage = MountedStorage(MemoryCheckpointStorage(), {RESTORED_FROM: point.base})
        fitted = fit_max_parallelism(self.graph, metadata)
        for plan in plan_restores(fitted, layout_of(fitted), metadata).values():
            read_restore(plan, storage.read, {})
        for path in point.own_files:
            storage.delete(path)

    def repair(self) -> None:
        """Put back what the claim of a forged checkpoint has deleted of its own files."""
        for path, content in self.files.items():
            if "link" not in path.parts:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
        self.outside.mkdir(exist_ok=True)
        (self.outside / "precious").write_text("x")
        if not (self.checkpoint / "link").is_symlink():
            (self.checkpoint / "link").symlink_to(self.outside)

    def survives(self) -> None:
        """Restore; only errors of one line that a user can act on may come out."""
        said = ""
        tracemalloc.start()
        try:
            self.restore()
        except (UnrecoverableError, OSError) as error:
            said = str(error)
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert "\n" not in said
        assert peak < MOST_MEMORY
        assert self.tree() == self.before


@pytest.fixture(scope="module", params=["hashmap", "rocksdb"])
def attack(request, tmp_path_factory, new_job):
    folder = tmp_path_factory.mktemp(request.param)
    return Attack(new_job(folder), folder, request.param)


def places(value: Any, prefix: tuple = ()) -> list[tuple]:
    """The ways to every value inside of a decoded file."""
    found = [prefix] if prefix else []
    if isinstance(value, list):
        for index, each in enumerate(value):
            found += places(each, (*prefix, index))
    elif isinstance(value, dict):
        for key in value:
            found += places(value[key], (*prefix, key))
            found.append((*prefix, (key,)))
    return found


def changed(value: Any, place: tuple, given: Any) -> Any:
    """A copy in which one value, or one key of a map, is another."""
    head, *rest = place
    if isinstance(head, tuple):
        return {given if key == head[0] else key: each for key, each in value.items()}
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[head] = changed(copy[head], tuple(rest), given) if rest else given
    return copy


def forged(magic: bytes, data: bytes, draw: Any) -> bytes:
    body = msgspec.msgpack.decode(
        unseal(magic, first_part(data), "file")[0], ext_hook=lambda code, data: bytes(data)
    )
    place = draw(st.sampled_from(places(body)))
    nasty = draw(st.sampled_from(NASTY))
    if isinstance(place[-1], tuple) and isinstance(nasty, list | dict):
        nasty = "key"
    return seal(magic, ENCODER.encode(changed(body, place, nasty)))[0]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_forged_metadata_neither_leave_their_folder_nor_fill_the_memory(attack, data):
    try:
        attack.metadata_file.write_bytes(forged(METADATA_MAGIC, attack.metadata, data.draw))
        attack.survives()
    finally:
        attack.repair()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_forged_state_files_neither_leave_their_folder_nor_fill_the_memory(attack, data):
    """The metadata list the forged file's length and checksum, as a careful forger's would."""
    point = read_restore_point(str(attack.checkpoint))
    handle = data.draw(st.sampled_from(handles_of(point.metadata)))
    file = attack.base / handle.path
    before = file.read_bytes()
    after = forged(SNAPSHOT_MAGIC, before, data.draw)
    digest = unseal(SNAPSHOT_MAGIC, after, "file")[1]
    try:
        file.write_bytes(after)
        listed = encode_metadata(point.metadata)
        body = bytes(unseal(METADATA_MAGIC, listed, "file")[0]).replace(
            handle.sha256.encode(), digest.encode()
        )
        decoded = msgspec.msgpack.decode(body)
        attack.metadata_file.write_bytes(
            seal(METADATA_MAGIC, ENCODER.encode(relisted(decoded, handle.path, len(after))))[0]
        )
        attack.survives()
    finally:
        attack.repair()


def relisted(value: Any, path: str, length: int) -> Any:
    """The metadata with the length of one file."""
    if isinstance(value, list):
        if value[:1] == [path]:
            return [path, length, *value[2:]]
        return [relisted(each, path, length) for each in value]
    return value


@pytest.mark.parametrize("where", ["the metadata", "a state file"])
def test_sparse_file_is_not_read(attack, where):
    point = read_restore_point(str(attack.checkpoint))
    [handle, *_] = handles_of(point.metadata)
    file = attack.metadata_file if where == "the metadata" else attack.base / handle.path
    try:
        os.truncate(file, 10 << 30)
        with pytest.raises((UnrecoverableError, OSError), match="it is sparse: hardly anything"):
            attack.restore()
    finally:
        attack.repair()


def test_device_in_place_of_a_file_is_not_read(tmp_path, monkeypatch):
    storage = LocalCheckpointStorage(tmp_path)
    (tmp_path / "chk-1").symlink_to("/dev")
    with pytest.raises(StorageError, match="symbolic link"):
        storage.read("chk-1/zero")
    with pytest.raises(StorageError, match="it is a device"):
        LocalCheckpointStorage("/dev", stands_in=True).read("zero")


def with_handles(metadata: CheckpointMetadata, change: Callable[[StateHandle], StateHandle]) -> bytes:
    operators = tuple(
        replace(
            operator,
            subtasks=tuple(
                subtask if subtask.handle is None else replace(subtask, handle=change(subtask.handle))
                for subtask in operator.subtasks
            ),
        )
        for operator in metadata.operators
    )
    return encode_metadata(replace(metadata, operators=operators))


def test_forged_count_of_elements_takes_no_memory(attack):
    def many(handle: StateHandle) -> StateHandle:
        index = {
            operator_id: replace(each, operator={**each.operator, "forged": (SPLIT_DISTRIBUTE, 1 << 50)})
            for operator_id, each in handle.index.items()
        }
        return replace(handle, length=1 << 60, index=index)

    metadata = read_restore_point(str(attack.checkpoint)).metadata
    try:
        attack.metadata_file.write_bytes(with_handles(metadata, many))
        attack.survives()
    finally:
        attack.repair()


@pytest.mark.parametrize("planted", ["names unchecked", "links followed"])
def test_planted_bug_is_seen_by_what_it_deletes(attack, planted):
    checkpoint = attack.checkpoint.name
    is_link = planted.startswith("links")
    path = f"{checkpoint}/link/precious" if is_link else f"{checkpoint}/../../../outside/precious"
    metadata = read_restore_point(str(attack.checkpoint)).metadata
    forgery = with_handles(metadata, lambda handle: replace(handle, path=path))
    try:
        attack.metadata_file.write_bytes(forgery)
        attack.survives()
        attack.repair()
        attack.metadata_file.write_bytes(forgery)
        with ExitStack() as bugs:
            bugs.enter_context(replaced(restore_point, "is_plain_name", lambda name: True))
            if is_link:
                bugs.enter_context(replaced(storage_module, "_refuse_link", lambda path: None))
            else:
                for module in (metadata_module, storage_module):
                    bugs.enter_context(replaced(module, "leads_out", lambda path: False))
            point = read_restore_point(str(attack.checkpoint))
            storage = MountedStorage(MemoryCheckpointStorage(), {RESTORED_FROM: point.base})
            for each in point.own_files:
                storage.delete(each)
        assert attack.tree() != attack.before
    finally:
        attack.repair()
