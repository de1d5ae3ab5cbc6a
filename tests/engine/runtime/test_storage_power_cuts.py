"""The promises of the checkpoint storage when the power is cut right after a call has returned."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from onceproof.engine.runtime.recovery import METADATA, metadata_path, sweep
from onceproof.engine.runtime.storage import LocalCheckpointStorage
from onceproof.harness.systems.volatile_disk import PowerCut, VolatileDisk

DATA = b"snapshot" * 100


@pytest.fixture
def disk() -> VolatileDisk:
    """An empty disk."""
    return VolatileDisk("/disk")


@pytest.fixture
def storage(disk: VolatileDisk) -> LocalCheckpointStorage:
    """The storage of a job on the disk; its folder and the one above are new."""
    return LocalCheckpointStorage("/disk/checkpoints/job", calls=disk)


@pytest.mark.parametrize("method", ["write", "adopt", "create_exclusive", "marker"])
def test_file_is_whole_after_a_power_cut(
    method: str, disk: VolatileDisk, storage: LocalCheckpointStorage, tmp_path: Path
) -> None:
    source = tmp_path / "table"
    source.write_bytes(DATA)
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: storage.write("chk-1/a", DATA),
        "adopt": lambda: storage.adopt("chk-1/a", str(source), None),
        "create_exclusive": lambda: storage.create_exclusive("chk-1/a", DATA),
        "marker": lambda: storage.create_exclusive("chk-1/a"),
    }
    calls[method]()
    disk.lose_power(PowerCut(Random(1), names=0, data=0))
    assert storage.read("chk-1/a") == (b"" if method == "marker" else DATA)


@pytest.mark.parametrize("method", ["write", "publish", "create_exclusive"])
def test_file_below_several_new_folders_is_there_after_a_power_cut(
    method: str, disk: VolatileDisk, storage: LocalCheckpointStorage
) -> None:
    getattr(storage, method)("jobs/a/b/record", DATA)
    disk.lose_power(PowerCut(Random(1), names=0, data=0))
    assert storage.read("jobs/a/b/record") == DATA


def test_created_file_is_there_whole_or_not_at_all_at_any_power_cut(
    disk: VolatileDisk, storage: LocalCheckpointStorage
) -> None:
    before = disk.live()
    found: set[bytes | None] = set()
    for seed in range(200):
        disk.become(before)
        _create_without_its_last_sync(disk, storage)
        disk.lose_power(PowerCut(Random(seed)))
        found.add(storage.read("record") if storage.exists("record") else None)
    assert found == {None, DATA}


def _create_without_its_last_sync(disk: VolatileDisk, storage: LocalCheckpointStorage) -> None:
    syncs: list[int] = []
    fsync = disk.fsync

    def first_only(descriptor: int) -> None:
        if not syncs:
            fsync(descriptor)
        syncs.append(descriptor)

    disk.fsync = first_only  # type: ignore[method-assign]
    try:
        storage.create_exclusive("record", DATA)
    finally:
        del disk.fsync  # type: ignore[method-assign]


def test_deleted_file_may_come_back(disk: VolatileDisk, storage: LocalCheckpointStorage) -> None:
    storage.write("chk-1/a", DATA)
    storage.delete("chk-1/a")
    back = set()
    for seed in range(50):
        image = disk.after(PowerCut(Random(seed), names=0.5, data=1))
        back.add("checkpoints/job/chk-1/a" in image)
    assert back == {True, False}


@pytest.mark.parametrize("method", ["publish", "create_exclusive", "make_durable"])
def test_folder_that_a_dead_process_made_is_durable_with_what_is_put_into_it(
    method: str, disk: VolatileDisk, storage: LocalCheckpointStorage
) -> None:
    disk.mkdir("/disk/checkpoints/job/chk-1")
    if method == "make_durable":
        disk.close(disk.open("/disk/checkpoints/job/chk-1/a", os.O_CREAT))
        storage.make_durable("chk-1/a")
    else:
        getattr(storage, method)("chk-1/a", DATA)
    disk.lose_power(PowerCut(Random(1), names=0, data=0))
    assert storage.exists("chk-1/a")


def test_storage_whose_folders_a_dead_process_made_survives_a_power_cut(disk: VolatileDisk) -> None:
    disk.mkdir("/disk/checkpoints")
    disk.mkdir("/disk/checkpoints/job")
    LocalCheckpointStorage("/disk/checkpoints/job", calls=disk)
    disk.lose_power(PowerCut(Random(1), names=0, data=0))
    assert disk.is_folder("/disk/checkpoints/job")


def test_deleted_checkpoint_never_comes_back_without_its_files(
    disk: VolatileDisk, storage: LocalCheckpointStorage
) -> None:
    for checkpoint_id in (1, 2):
        storage.write(f"chk-{checkpoint_id}/state", DATA)
        storage.create_exclusive(metadata_path(checkpoint_id), b"metadata")
    sweep(storage, ())
    for seed in range(100):
        disk_after = disk.after(PowerCut(Random(seed)))
        assert not [path for path in disk_after if path.endswith(METADATA)]
