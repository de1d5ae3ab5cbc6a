"""What a power cut may do to a disk, and what it may not."""

from __future__ import annotations

import os
from random import Random

import pytest

from onceproof.harness.systems.volatile_disk import PowerCut, VolatileDisk


def _write(disk: VolatileDisk, path: str, data: bytes, *, sync: bool) -> None:
    descriptor = disk.open(path, os.O_WRONLY | os.O_CREAT)
    disk.write(descriptor, data)
    if sync:
        disk.fsync(descriptor)
    disk.close(descriptor)


def _sync(disk: VolatileDisk, folder: str) -> None:
    descriptor = disk.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    disk.fsync(descriptor)
    disk.close(descriptor)


def _images(disk: VolatileDisk, draws: int = 300) -> list[dict[str, bytes | None]]:
    return [disk.after(PowerCut(Random(seed))) for seed in range(draws)]


@pytest.fixture
def disk() -> VolatileDisk:
    """An empty disk."""
    return VolatileDisk("/disk")


def test_synced_file_without_a_synced_name_may_vanish_but_is_never_torn(disk):
    _write(disk, "/disk/a", b"content", sync=True)
    assert {image.get("a") for image in _images(disk)} == {None, b"content"}


def test_synced_name_without_synced_data_may_be_short_or_zeros(disk):
    _write(disk, "/disk/a", b"content", sync=False)
    _sync(disk, "/disk")
    found = {image["a"] for image in _images(disk)}
    assert {b"content", b"", b"cont", bytes(4)} <= found


@pytest.mark.parametrize("in_order", [True, False])
def test_later_write_survives_an_earlier_one_only_where_none_are_in_order(disk, in_order):
    _write(disk, "/disk/a", bytes(8), sync=True)
    _sync(disk, "/disk")
    descriptor = disk.open("/disk/a", os.O_RDWR)
    for offset, data in ((0, b"1111"), (4, b"2222")):
        disk.write_at(descriptor, offset, data)
    found = {disk.after(PowerCut(Random(seed), in_order=in_order))["a"] for seed in range(300)}
    assert {bytes(8), b"1111" + bytes(4), b"11112222"} <= found
    assert (bytes(4) + b"2222" in found) is not in_order


def test_rename_is_atomic(disk):
    _write(disk, "/disk/a", b"old", sync=True)
    _write(disk, "/disk/b", b"new", sync=True)
    _sync(disk, "/disk")
    disk.rename("/disk/b", "/disk/a")
    assert {tuple(sorted(image.items())) for image in _images(disk)} == {
        (("a", b"new"),),
        (("a", b"old"), ("b", b"new")),
    }


def test_changes_of_different_names_survive_in_any_subset(disk):
    for name in "ab":
        _write(disk, f"/disk/{name}", b"", sync=True)
    assert {frozenset(image) for image in _images(disk)} == {
        frozenset(names) for names in ((), ("a",), ("b",), ("a", "b"))
    }


def test_changes_of_one_name_survive_in_order(disk):
    _write(disk, "/disk/a", b"1", sync=True)
    _sync(disk, "/disk")
    disk.unlink("/disk/a")
    _write(disk, "/disk/a", b"2", sync=True)
    assert {image.get("a") for image in _images(disk)} == {b"1", None, b"2"}


def test_sync_of_a_folder_does_not_keep_its_own_name(disk):
    disk.mkdir("/disk/folder")
    _write(disk, "/disk/folder/a", b"content", sync=True)
    _sync(disk, "/disk/folder")
    found = {tuple(sorted(image)) for image in _images(disk)}
    assert found == {(), ("folder", "folder/a")}


def test_file_with_two_names_has_one_content(disk):
    _write(disk, "/disk/a", b"content", sync=False)
    disk.link("/disk/a", "/disk/b")
    _sync(disk, "/disk")
    assert all(image["a"] == image["b"] for image in _images(disk))


def test_disk_that_lost_power_has_nothing_left_to_lose(disk):
    _write(disk, "/disk/a", b"content", sync=False)
    disk.lose_power(PowerCut(Random(3)))
    assert all(image == disk.live() for image in _images(disk))
