"""Keyed state: isolated snapshots, restores by key group, and state that the job no longer registers."""

from datetime import date, datetime, time
from decimal import Decimal

import pytest

from onceproof.engine.key_groups import key_group_of, key_group_range, operator_index
from onceproof.engine.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from onceproof.engine.state.file_envelope import PickleRefused, StateError
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)
from onceproof.engine.state.stored import EncodedTable
from onceproof.engine.types import Row, Types

COUNT = ValueStateDescriptor("count", Types.LONG())
EVERYTHING = (0, 127)
GOOD = {Types.LONG(): 1, Types.LIST(Types.LONG()): [1]}


def backend(key_type=None, key_groups=EVERYTHING):
    return HashMapStateBackend(128, key_groups, key_type)


def stored(source):
    """Snapshot, write and read a backend; give its state as a restore receives it."""
    encoded = encode_task_snapshot(TaskSnapshot({"op": OperatorSnapshot(source.snapshot())}))
    return decode_task_snapshot(encoded.data, "file", encoded.sha256)["op"].keyed


def restored(tables, key_type=None, key_groups=EVERYTHING, **settings):
    target = backend(key_type, key_groups)
    target.restore(tables, **settings)
    return target


def test_value_belongs_to_the_current_key():
    keyed = backend()
    state = keyed.value_state(COUNT)
    keyed.current_key = "a"
    state.update(1)
    keyed.current_key = "b"
    assert state.value() is None
    state.update(2)
    keyed.current_key = "a"
    assert state.value() == 1
    assert keyed.table(COUNT) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "clear", [lambda state: state.clear(), lambda state: state.update(None)], ids=["clear", "update"]
)
def test_cleared_value_is_gone_from_the_table_and_clearing_again_is_harmless(clear):
    keyed = backend()
    state = keyed.value_state(COUNT)
    keyed.current_key = "a"
    state.update(1)
    clear(state)
    clear(state)
    assert state.value() is None
    assert keyed.table(COUNT) == {}


def test_state_without_a_current_key_is_refused():
    state = backend().value_state(COUNT)
    for use in (state.value, lambda: state.update(1), state.clear):
        with pytest.raises(StateError, match="no current key"):
            use()


def test_asking_twice_gives_the_same_state_and_another_type_is_refused():
    keyed = backend()
    assert keyed.table(COUNT) is keyed.table(ValueStateDescriptor("count", Types.LONG()))
    with pytest.raises(
        StateError, match=r"'count' is declared as value of LONG and again as value of STRING"
    ):
        keyed.table(ValueStateDescriptor("count", Types.STRING()))


def test_list_state_is_no_table_of_values():
    with pytest.raises(StateError, match="'seen' is list state, which is not a table of values"):
        backend().table(ListStateDescriptor("seen"))


@pytest.mark.parametrize(
    ("value_type", "before", "change"),
    [
        (None, [1], lambda value: value.append(2)),
        (None, {"a": [1]}, lambda value: value["a"].append(2)),
        (None, ([1],), lambda value: value[0].append(2)),
        (Types.LIST(Types.LONG()), [1], lambda value: value.append(2)),
        (Types.PICKLED_BYTE_ARRAY(), [1], lambda value: value.append(2)),
    ],
)
def test_snapshot_does_not_see_later_changes_of_its_values(value_type, before, change):
    keyed = backend()
    table = keyed.table(ValueStateDescriptor("held", value_type))
    table["k"] = before
    unchanged = repr(before)
    snapshot = keyed.snapshot()
    change(table["k"])
    assert repr(snapshot.tables[0].entries["k"]) == unchanged


@pytest.mark.parametrize("value_type", [Types.LONG(), Types.DYNAMIC(), Types.PICKLED_BYTE_ARRAY()], ids=repr)
def test_snapshot_does_not_see_later_updates_and_removals(value_type):
    keyed = backend()
    table = keyed.table(ValueStateDescriptor("held", value_type))
    table.update({"a": 1, "b": 2})
    snapshot = keyed.snapshot()
    table["a"] = 9
    table["c"] = 3
    del table["b"]
    assert snapshot.tables[0].entries == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (None, ["a", ("b", 1), 7, True, 1.5, b"x"]),
        (None, [None, 1, 1.0, True, -0.0, 0.0, float("nan"), Decimal("1.0"), Decimal("1.00")]),
        (None, [date(2020, 1, 1), datetime(2020, 1, 1), time(1, 2), Row("a", None), Row(a=1), (1, None)]),
        (Types.DOUBLE(), [0.0, -0.0, float("nan"), None]),
        (Types.BIG_DEC(), [Decimal("1.0"), Decimal("1.00"), None]),
        (Types.ROW([Types.STRING(), Types.DOUBLE()]), [Row("a", -0.0), Row(None, 0.0)]),
        (Types.STRING(), ["a", "ä"]),
        (Types.INT(), [-1, 5]),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), [("a", 1), ("a", 2)]),
        (Types.BIG_INT(), [1 << 70, -1]),
    ],
)
def test_restore_gives_back_every_entry(key_type, keys):
    source = backend(key_type)
    identities = [key if type(key) in source.plain_keys else source.identify(key) for key in keys]
    source.table(COUNT).update({key: place for place, key in enumerate(identities)})
    assert len(source.table(COUNT)) == len(keys)
    assert restored(stored(source), key_type).table(COUNT) == source.table(COUNT)


@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 2), (2, 2), (4, 1)])
def test_rescaled_backends_hold_each_key_once_at_its_owner(old, new):
    keys = [f"key-{number}" for number in range(200)]
    files = []
    for index in range(old):
        source = backend(key_groups=key_group_range(128, old, index))
        table = source.table(COUNT)
        for number, key in enumerate(keys):
            if operator_index(128, old, key_group_of(key, 128, None)) == index:
                table[key] = number
        files.append(stored(source))
    together = {}
    for index in range(new):
        for file in files:
            part = restored(file, key_groups=key_group_range(128, new, index)).table(COUNT)
            assert all(operator_index(128, new, key_group_of(key, 128, None)) == index for key in part)
            assert not together.keys() & part.keys()
            together.update(part)
    assert together == {key: number for number, key in enumerate(keys)}


def test_state_that_the_job_no_longer_registers_is_written_again():
    source = backend()
    source.table(COUNT)["a"] = 1
    source.table(ValueStateDescriptor("old", Types.STRING()))["a"] = "kept"
    second = restored(stored(source))
    assert second.table(COUNT) == {"a": 1}
    third = restored(stored(second))
    assert third.table(ValueStateDescriptor("old", Types.STRING())) == {"a": "kept"}


def test_state_registered_after_a_snapshot_began_does_not_change_that_snapshot():
    source = backend()
    source.table(COUNT)["a"] = 1
    target = restored(stored(source))
    snapshot = target.snapshot()
    target.table(COUNT)["a"] = 2
    encoded = encode_task_snapshot(TaskSnapshot({"op": OperatorSnapshot(snapshot)}))
    assert restored(decode_task_snapshot(encoded.data, "file")["op"].keyed).table(COUNT) == {"a": 1}


def test_empty_table_survives_as_no_state():
    source = backend()
    source.table(COUNT)
    assert restored(stored(source)).table(COUNT) == {}


@pytest.mark.parametrize(
    ("descriptor", "key_type", "words"),
    [
        (ValueStateDescriptor("count", Types.STRING()), None, "state 'count' was stored as LONG .* STRING"),
        (COUNT, Types.STRING(), "the key of state 'count' was stored as DYNAMIC .* STRING"),
    ],
)
def test_restoring_into_another_type_is_refused(descriptor, key_type, words):
    source = backend()
    source.table(COUNT)["a"] = 1
    with pytest.raises(StateError, match=words):
        restored(stored(source), key_type).table(descriptor)


def test_restoring_another_kind_of_state_is_refused():
    other = EncodedTable("list", "DYNAMIC", "LONG", {}, {})
    with pytest.raises(StateError, match="'count' was stored as list state but the job declares value"):
        restored({"count": other}).table(COUNT)


class Opaque:
    """An object that only pickle can store."""

    def __init__(self, held):
        self.held = held


def test_pickled_state_is_read_only_on_permission():
    held = ValueStateDescriptor("held", Types.TUPLE([Types.PICKLED_BYTE_ARRAY()]))
    source = backend()
    source.allow_pickle = True
    source.table(held)["a"] = (Opaque(1),)
    with pytest.raises(PickleRefused, match=r"pipeline\.allow-pickled-state"):
        restored(stored(source)).table(held)
    (value,) = restored(stored(source), allow_pickle=True).table(held)["a"]
    assert (type(value), value.held) == (Opaque, 1)


@pytest.mark.parametrize(
    ("value_type", "value", "words"),
    [
        (Types.LONG(), "x", r"state 'held', key 'bad': 'x' \(str\) is no LONG"),
        (Types.LONG(), 1 << 63, r"state 'held', key 'bad': .* is no LONG: it holds"),
        (None, Opaque(1), r"state 'held', key 'bad': a value of type Opaque"),
        (Types.LIST(Types.LONG()), 7, r"state 'held', key 'bad': 7 \(int\) is no LIST\(LONG\)"),
        (Types.STRING(), "\ud800", r"state 'held', key 'bad': .*surrogate"),
    ],
)
def test_wrong_value_is_refused_naming_state_and_key(value_type, value, words):
    source = backend()
    source.table(ValueStateDescriptor("held", value_type)).update(
        {"good": GOOD.get(value_type, "a"), "bad": value}
    )
    with pytest.raises(StateError, match=words) as raised:
        stored(source)
    assert "\n" not in str(raised.value)


def test_key_that_does_not_fit_its_type_is_refused_by_name():
    source = backend(Types.LONG())
    source.table(COUNT).update({1: 1, "b": 2})
    with pytest.raises(StateError, match="state 'count', key 'b': not a LONG key"):
        stored(source)


def test_value_that_cannot_be_copied_is_refused_naming_the_state():
    source = backend()
    source.allow_pickle = True
    source.table(ValueStateDescriptor("held", Types.PICKLED_BYTE_ARRAY()))["a"] = (n for n in ())
    with pytest.raises(
        StateError, match=r"state 'held', key 'a': <generator .* is no PICKLED_BYTE_ARRAY: pickle refuses it"
    ):
        source.snapshot()


def test_stored_table_in_which_a_key_occurs_twice_is_refused():
    source = backend()
    source.table(COUNT)["a"] = 10
    table = stored(source)["count"]
    ((group, data),) = table.groups.items()
    doubled = EncodedTable(
        table.kind, table.key_type, table.value_type, {0: 1, group: 1}, {0: data, group: data}
    )
    with pytest.raises(StateError, match="state 'count' was stored with 1 keys that occur twice"):
        restored({"count": doubled}).table(COUNT)


def test_unreadable_group_is_refused_naming_state_and_group():
    source = backend()
    source.table(COUNT)["a"] = 1
    table = stored(source)["count"]
    ((group, _),) = table.groups.items()
    broken = EncodedTable(table.kind, table.key_type, table.value_type, table.counts, {group: b"\xc1"})
    with pytest.raises(StateError, match=f"state 'count', key group {group}"):
        restored({"count": broken}).table(COUNT)


def test_memory_of_key_groups_follows_the_keys_that_have_state():
    source = backend()
    table = source.table(COUNT)
    for number in range(5000):
        table[number] = number
    stored(source)
    table.clear()
    table["last"] = 1
    stored(source)
    stored(source)
    assert [len(block.identities) for block in source._key_groups.blocks["count"]] == [1]
