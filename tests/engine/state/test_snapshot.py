"""Snapshots of a task: the same state gives the same bytes, and the index tells what they hold."""

import pytest

from onceproof.engine.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from onceproof.engine.state.file_envelope import SNAPSHOT_MAGIC, DamagedFile, seal
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)
from onceproof.engine.state.stored import EncodedTable
from onceproof.engine.types import Types


def task_snapshot():
    backend = HashMapStateBackend(128, (0, 127), Types.STRING())
    backend.table(ValueStateDescriptor("count", Types.LONG())).update({"a": 1, "b": 2, "c": 3})
    store = OperatorStateStore()
    store.get_list_state(ListStateDescriptor("offsets")).update([("s", 1), ("t", 2)])
    store.get_union_list_state(ListStateDescriptor("all"))
    return TaskSnapshot(
        {
            "count": OperatorSnapshot(backend.snapshot()),
            "source": OperatorSnapshot(None, store.snapshot()),
            "map": OperatorSnapshot(),
        }
    )


def test_same_state_gives_the_same_bytes():
    assert encode_task_snapshot(task_snapshot()).data == encode_task_snapshot(task_snapshot()).data


def test_index_lists_the_content_of_the_file():
    encoded = encode_task_snapshot(task_snapshot())
    assert sum(encoded.operators["count"].keyed["count"].values()) == 3
    assert encoded.operators["source"].operator == {"offsets": ("SPLIT_DISTRIBUTE", 2), "all": ("UNION", 0)}
    assert encoded.operators["count"].has_state
    assert not encoded.operators["map"].has_state
    assert encoded.has_state


def test_task_without_state_has_none():
    assert not encode_task_snapshot(TaskSnapshot({"map": OperatorSnapshot()})).has_state
    assert not encode_task_snapshot(TaskSnapshot({})).has_state


def test_groups_are_stored_in_ascending_order():
    encoded = encode_task_snapshot(task_snapshot())
    groups = list(decode_task_snapshot(encoded.data, "file")["count"].keyed["count"].groups)
    assert groups == sorted(groups)
    assert len(groups) == 3


def test_part_of_a_table_keeps_only_the_groups_of_its_range():
    table = EncodedTable("value", "LONG", "LONG", {1: 1, 5: 2, 9: 3}, {1: b"a", 5: b"b", 9: b"c"})
    part = table.within(5, 8)
    assert (part.counts, part.groups) == ({5: 2}, {5: b"b"})
    assert table.within(0, 9) is table


def test_sound_file_that_is_not_the_listed_one_is_refused():
    encoded = encode_task_snapshot(task_snapshot())
    other = encode_task_snapshot(TaskSnapshot({}))
    with pytest.raises(DamagedFile, match="another file than the one"):
        decode_task_snapshot(other.data, "chk-1/a", encoded.sha256)


def test_sound_envelope_around_something_else_is_refused():
    data, _ = seal(SNAPSHOT_MAGIC, b"\x93\x01\x02\x03")
    with pytest.raises(DamagedFile, match="chk-1/a: its content cannot be read"):
        decode_task_snapshot(data, "chk-1/a")


def test_checksum_in_the_index_is_that_of_the_file():
    encoded = encode_task_snapshot(task_snapshot())
    decode_task_snapshot(encoded.data, "file", encoded.sha256)
