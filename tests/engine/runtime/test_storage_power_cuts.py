"""The promises of the checkpoint storage when the power is cut right after a call has returned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from onceproof.engine.runtime.storage import LocalCheckpointStorage
from onceproof.harness.systems.disk.volatile_disk import PowerCut, VolatileDisk

DATA = b"snapshot" * 100


@pytest.fixture
def disk() -> VolatileDisk:
    """An empty disk."""
    return VolatileDisk("/disk")


@pytest.fixture
def storage(disk: VolatileDisk) -> LocalCheckpointStorage:
    """The storage of a job on the disk; its folder and the one above are new."""
    return LocalCheckpointStorage("/disk/checkpoints/job", calls=disk)


@pytest.mark.parametrize("method", ["write", "publish", "adopt", "create_exclusive"])
def test_file_is_whole_after_a_power_cut(
    method: str, disk: VolatileDisk, storage: LocalCheckpointStorage, tmp_path: Path
) -> None:
    source = tmp_path / "table"
    source.write_bytes(DATA)
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: storage.write("chk-1/a", DATA),
        "publish": lambda: storage.publish("chk-1/a", DATA),
        "adopt": lambda: storage.adopt("chk-1/a", str(source), None),
        "create_exclusive": lambda: storage.create_exclusive("chk-1/a"),
    }
    calls[method]()
    disk.lose_power(PowerCut(Random(1), names=0, data=0))
    assert storage.read("chk-1/a") == (b"" if method == "create_exclusive" else DATA)


def test_published_file_is_the_old_one_or_the_new_one_at_any_power_cut(
    disk: VolatileDisk, storage: LocalCheckpointStorage
) -> None:
    storage.publish("starting-point", b"old")
    before = disk.live()
    found: set[bytes] = set()
    for seed in range(200):
        disk.become(before)
        storage.publish("starting-point", b"new one")
        disk.become(before)
        _publish_without_its_last_sync(disk, storage)
        disk.lose_power(PowerCut(Random(seed)))
        found.add(storage.read("starting-point"))
    assert found == {b"old", b"new one"}


def _publish_without_its_last_sync(disk: VolatileDisk, storage: LocalCheckpointStorage) -> None:
    syncs: list[int] = []
    fsync = disk.fsync

    def first_only(descriptor: int) -> None:
        if not syncs:
            fsync(descriptor)
        syncs.append(descriptor)

    disk.fsync = first_only  # type: ignore[method-assign]
    try:
        storage.publish("starting-point", b"new one")
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
