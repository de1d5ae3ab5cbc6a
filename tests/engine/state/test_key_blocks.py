"""Tables of many entries are sorted into key groups block by block, whatever changed in between."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise
from random import Random

import msgspec
import pytest

from onceproof.engine.key_groups import MANY_KEYS, key_group_of, key_groups_of
from onceproof.engine.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from onceproof.engine.state.file_envelope import HEADER_BYTES, SNAPSHOT_MAGIC, StateError, seal
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.key_blocks import SMALLEST_BLOCK, KeyGroupCache, block_size
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)
from onceproof.engine.state.stored import EncodedOperator, EncodedTable
from onceproof.engine.types import Types
from onceproof.engine.types.information import ENCODE

COUNT = ValueStateDescriptor("count", Types.LONG())
MANY = SMALLEST_BLOCK * 2 + 100
LEAST = -(1 << 63)
KEYS = {
    "small integers": (Types.LONG(), list(range(MANY_KEYS))),
    "integers of 64 bits": (Types.LONG(), [LEAST + (number << 40) for number in range(MANY_KEYS)]),
    "negative integers": (Types.INT(), list(range(-MANY_KEYS, 0))),
    "undeclared integers": (None, [(1 << 80) - number for number in range(MANY_KEYS)]),
    "texts": (Types.STRING(), [f"key {number} ä" for number in range(MANY_KEYS)]),
    "undeclared texts": (None, ["x" * number for number in range(MANY_KEYS)]),
    "floats": (Types.DOUBLE(), [number / 2 for number in range(MANY_KEYS)]),
    "tuples": (Types.TUPLE([Types.STRING(), Types.LONG()]), [("a", number) for number in range(MANY_KEYS)]),
    "keys of all kinds": (None, [None, 1, True, 1.0, "a", b"a", (1, True), -0.0] * (MANY_KEYS // 8)),
}


def backend(key_type=None, max_parallelism=16):
    return HashMapStateBackend(max_parallelism, (0, max_parallelism - 1), key_type, lambda: 0)


def encoded(source):
    """Return the tables of a backend, as a restore receives them."""
    file = encode_task_snapshot(TaskSnapshot({"op": OperatorSnapshot(source.snapshot())}))
    return decode_task_snapshot(file.data, "file", file.sha256)["op"].keyed


def restored(tables, key_type=None, max_parallelism=16):
    target = backend(key_type, max_parallelism)
    target.restore(tables)
    return target


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("max_parallelism", [1, 128, 1000])
def test_groups_of_many_keys_are_those_of_each_key(kind, max_parallelism):
    key_type, keys = KEYS[kind]
    identities = list(map(backend(key_type).identify, keys))
    expected = [key_group_of(identity, max_parallelism, key_type) for identity in identities]
    assert key_groups_of(identities, max_parallelism, key_type) == expected


@pytest.mark.parametrize(("max_parallelism", "size"), [(1, SMALLEST_BLOCK), (128, 8192), (32768, 1 << 21)])
def test_blocks_grow_with_the_number_of_key_groups(max_parallelism, size):
    assert block_size(max_parallelism) == size


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("key_of", [int, str, lambda number: (number, True)], ids=["int", "str", "tuple"])
def test_changes_between_snapshots_leave_no_entry_in_a_wrong_group(seed, key_of):
    chance = Random(seed)
    source = backend()
    table = source.table(COUNT)
    following = iter(range(1, 10 * MANY))
    for _ in range(5):
        for number in (next(following) for _ in range(chance.randrange(MANY))):
            table[source.identify(key_of(number))] = number
        for key in list(table):
            if chance.random() < 0.001:
                value = table.pop(key)
                if chance.random() < 0.5:
                    table[key] = value
        known = encoded(source)
        source._key_groups = KeyGroupCache()
        assert encoded(source) == known
        source = restored(known)
        assert source.table(COUNT) == table
        assert encoded(source)["count"].counts == known["count"].counts
        table = source.table(COUNT)


def test_unchanged_keys_are_not_sorted_again():
    source = backend(Types.LONG())
    table = source.table(COUNT)
    table.update(dict.fromkeys(range(MANY), 1))
    encoded(source)
    before = source._key_groups.blocks["count"]
    table.update(dict.fromkeys(range(MANY + 5), 2))
    encoded(source)
    after = source._key_groups.blocks["count"]
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, True, False]


def test_lists_maps_and_namespaces_of_many_keys_come_back():
    source = backend(Types.STRING())
    lists = source.list_state(ListStateDescriptor("list", Types.LONG()))
    maps = source.map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
    timers = source.table(COUNT, Types.LONG())
    for number in range(SMALLEST_BLOCK + 1):
        source.current_key = str(number)
        lists.update([number, -number])
        maps.put("a", number)
        timers[str(number % 10), number] = number
    target = restored(encoded(source), Types.STRING())
    lists = target.list_state(ListStateDescriptor("list", Types.LONG()))
    maps = target.map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
    assert target.table(COUNT, Types.LONG()) == timers
    for number in range(0, SMALLEST_BLOCK + 1, 97):
        target.current_key = str(number)
        assert (lists.get(), list(maps.items())) == ([number, -number], [("a", number)])


def first_format(table):
    """Return a table as files of format version 1 have it: lists of (entry, value)."""
    return EncodedTable(
        table.kind,
        table.key_type,
        table.value_type,
        table.counts,
        {group: ENCODE(table.pairs(group)) for group in table.groups},
        table.namespace_type,
    )


@pytest.mark.parametrize("namespace_type", [None, Types.LONG()], ids=["plain", "namespaced"])
def test_file_of_the_first_format_is_read(namespace_type):
    source = backend(Types.LONG())
    table = source.table(COUNT, namespace_type)
    for number in range(100):
        table[number if namespace_type is None else (number // 3, number)] = number
    body = {"op": EncodedOperator({"count": first_format(encoded(source)["count"])}, {})}
    data = bytearray(seal(SNAPSHOT_MAGIC, ENCODE(body))[0])
    data[9] = 1
    data[HEADER_BYTES - 32 : HEADER_BYTES] = sha256(ENCODE(body)).digest()
    target = restored(decode_task_snapshot(bytes(data), "file")["op"].keyed, Types.LONG())
    assert target.table(COUNT, namespace_type) == table
    assert encoded(target)["count"].counts == encoded(source)["count"].counts


def test_block_whose_columns_differ_in_length_is_refused():
    source = backend(Types.LONG())
    source.table(COUNT)[1] = 1
    table = encoded(source)["count"]
    ((group, _),) = table.groups.items()
    forged = msgspec.structs.replace(table, groups={group: ENCODE([([1, 2], [1])])})
    with pytest.raises(StateError, match=f"'count', key group {group}: .* columns of a block differ"):
        restored({"count": forged}, Types.LONG()).table(COUNT)


def test_groups_are_stored_in_ascending_order():
    source = backend(Types.LONG(), 128)
    source.table(COUNT).update(dict.fromkeys(range(MANY), 1))
    assert all(one < other for one, other in pairwise(encoded(source)["count"].groups))
