"""State whose type changed between two versions of a job: what restores, what is refused in which words."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import pytest

from onceproof.engine.durations import Time
from onceproof.engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from onceproof.engine.state.file_envelope import PickleRefused, StateError
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.types import Row, Types


def version(name, fields):
    """A dataclass of the same name with other fields, as a new version of a job has it."""
    made = dataclasses.make_dataclass(name, fields)
    made.__qualname__ = name
    return made


Account = version("Account", [("owner", str), ("cents", int)])
WithLimit = version("Account", [("cents", int), ("owner", str), ("limit", int, field(default=100))])
WithTags = version("Account", [("owner", str), ("tags", list[str], field(default_factory=list))])
NoDefault = version("Account", [("owner", str), ("cents", int), ("limit", int)])
Retyped = version("Account", [("owner", str), ("cents", str)])
Renamed = version("Konto", [("owner", str), ("cents", int)])

BEFORE = Types.ROW_NAMED(["owner", "cents"], [Types.STRING(), Types.LONG()])
AFTER = Types.ROW_NAMED(["limit", "cents", "owner"], [Types.LONG(), Types.LONG(), Types.STRING()])


class Last:
    def create_accumulator(self):
        return None

    def add(self, value, accumulator):
        return value

    def get_result(self, accumulator):
        return accumulator


DESCRIPTORS = {
    "value": lambda kind: ValueStateDescriptor("s", kind),
    "list": lambda kind: ListStateDescriptor("s", kind),
    "map": lambda kind: MapStateDescriptor("s", Types.STRING(), kind),
    "reducing": lambda kind: ReducingStateDescriptor("s", lambda one, other: other, kind),
    "aggregating": lambda kind: AggregatingStateDescriptor("s", Last(), kind),
}


def write(state, value):
    if hasattr(state, "put"):
        state.put("x", value)
    elif hasattr(state, "value"):
        state.update(value)
    else:
        state.add(value)


def read(state):
    if hasattr(state, "put"):
        return state.get("x")
    found = state.value() if hasattr(state, "value") else state.get()
    return (found[0] if found else None) if isinstance(found, list) else found


@pytest.fixture
def evolved(backends, at):
    """Write a value with one descriptor, restore it with another."""

    def evolve(before, value, after, **settings):
        source = backends.make()
        source.allow_pickle = True
        at(source, "a")
        write(source.state(before), value)
        target = backends.restored(source, **settings)
        at(target, "a")
        state = target.state(after)
        # What was restored in its new form is stored in it.
        again = backends.restored(target, **settings)
        at(again, "a")
        assert read(again.state(after)) == read(state)
        return read(state)

    return evolve


by_kind = pytest.mark.parametrize("kind", list(DESCRIPTORS))


@by_kind
def test_field_with_a_default_may_be_added_to_a_dataclass(evolved, kind):
    make = DESCRIPTORS[kind]
    got = evolved(make(Types.DATACLASS(Account)), Account("ann", 5), make(Types.DATACLASS(WithLimit)))
    assert got == WithLimit(cents=5, limit=100, owner="ann")


@by_kind
def test_field_may_be_added_to_a_row_with_names(evolved, kind):
    make = DESCRIPTORS[kind]
    got = evolved(make(BEFORE), Row(owner="ann", cents=None), make(AFTER))
    assert got == Row(limit=None, cents=None, owner="ann")


def test_field_may_be_taken_away_and_each_object_has_its_own_default(backends, at):
    source = backends.make()
    for key in "ab":
        at(source, key)
        source.state(DESCRIPTORS["value"](Types.DATACLASS(Account))).update(Account(key, 5))
    target = backends.restored(source)
    state = target.state(DESCRIPTORS["value"](Types.DATACLASS(WithTags)))
    held = []
    for key in "ab":
        at(target, key)
        held.append(state.value())
    assert held == [WithTags("a", []), WithTags("b", [])]
    assert held[0].tags is not held[1].tags


def test_dataclass_within_other_types_may_change(evolved):
    inside = lambda cls: Types.TUPLE(  # noqa: E731
        [Types.MAP(Types.STRING(), Types.LIST(Types.DATACLASS(cls))), Types.LONG()]
    )
    got = evolved(
        ValueStateDescriptor("s", inside(Account)),
        ({"x": [Account("ann", 5)], "y": []}, 1),
        ValueStateDescriptor("s", inside(WithLimit)),
    )
    assert got == ({"x": [WithLimit(5, "ann", 100)], "y": []}, 1)


@dataclass
class Home:
    account: Account


@dataclass
class HomeWithLimit:
    account: WithLimit
    empty: WithLimit | None = None


def test_dataclass_within_a_dataclass_may_change(evolved):
    HomeWithLimit.__qualname__ = "Home"
    got = evolved(
        ValueStateDescriptor("s", Types.DATACLASS(Home)),
        Home(Account("ann", 5)),
        ValueStateDescriptor("s", Types.DATACLASS(HomeWithLimit)),
    )
    assert got == HomeWithLimit(WithLimit(5, "ann", 100), None)


def test_class_of_the_same_description_needs_no_migration(evolved):
    other = version("Account", [("owner", str), ("cents", int)])
    got = evolved(
        ValueStateDescriptor("s", Types.DATACLASS(Account)),
        Account("ann", 5),
        ValueStateDescriptor("s", Types.DATACLASS(other)),
    )
    assert got == other("ann", 5)


@pytest.mark.parametrize(
    ("before", "value", "after", "words"),
    [
        (Account, Account("ann", 5), NoDefault, "field 'limit' is new and has no default: give it one"),
        (Account, Account("ann", 5), Retyped, "field 'cents': it was LONG and is STRING"),
        (Account, Account("ann", 5), Renamed, r"it was Account\(.* and is Konto\("),
    ],
    ids=["no default", "other type", "other name"],
)
def test_dataclass_that_changed_too_much_is_refused(evolved, before, value, after, words):
    with pytest.raises(StateError, match=words) as raised:
        evolved(
            ValueStateDescriptor("s", Types.DATACLASS(before)),
            value,
            ValueStateDescriptor("s", Types.DATACLASS(after)),
        )
    assert str(raised.value).startswith("state 's' was stored as Account(owner: STRING, cents: LONG) but")
    assert str(raised.value).endswith("declare the stored type, or start without this state")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (Types.LONG(), 1, Types.STRING()),
        (Types.INT(), 1, Types.LONG()),
        (Types.TUPLE([Types.LONG()]), (1,), Types.TUPLE([Types.LONG(), Types.LONG()])),
        (Types.ROW([Types.LONG()]), Row(1), Types.ROW([Types.LONG(), Types.LONG()])),
        (BEFORE, Row(owner="a", cents=1), Types.ROW([Types.STRING(), Types.LONG()])),
        (Types.LIST(Types.LONG()), [1], Types.LIST(Types.STRING())),
        (Types.LIST(Types.LONG()), [1], Types.BASIC_ARRAY(Types.LONG())),
        (Types.MAP(Types.LONG(), Types.LONG()), {1: 1}, Types.MAP(Types.STRING(), Types.LONG())),
        (Types.DYNAMIC(), 1, Types.LONG()),
    ],
    ids=lambda each: repr(each) if hasattr(each, "descriptor") else "",
)
def test_other_changes_are_refused(evolved, before, value, after):
    with pytest.raises(StateError, match=r"'s' was stored as .* but the job declares"):
        evolved(ValueStateDescriptor("s", before), value, ValueStateDescriptor("s", after))


@by_kind
def test_key_of_a_map_state_and_key_of_the_stream_do_not_change(backends, at, kind):
    source = backends.make(key_type=Types.STRING())
    at(source, "a")
    write(source.state(DESCRIPTORS[kind](Types.LONG())), 1)
    target = backends.restored_from(source.snapshot(), key_type=Types.DYNAMIC())
    with pytest.raises(StateError, match=r"the key of state 's' was stored as STRING .* DYNAMIC"):
        target.state(DESCRIPTORS[kind](Types.LONG()))


def timed(make, ttl=100):
    def descriptor(kind):
        made = make(kind)
        config = StateTtlConfig.new_builder(Time.milliseconds(ttl)).disable_cleanup_in_background()
        made.enable_time_to_live(config.build())
        return made

    return descriptor


@by_kind
def test_time_to_live_may_be_given_to_state_and_counts_from_the_restore(backends, at, kind):
    make = DESCRIPTORS[kind]
    source = backends.make()
    at(source, "a")
    write(source.state(make(Types.DATACLASS(Account))), Account("ann", 5))
    backends.now = 1000
    target = backends.restored(source)
    at(target, "a")
    state = target.state(timed(make)(Types.DATACLASS(WithLimit)))
    backends.now = 1099
    assert read(state) == WithLimit(5, "ann", 100)
    backends.now = 1100
    assert read(state) is None


@by_kind
def test_time_to_live_may_be_taken_from_state(evolved, kind):
    make = DESCRIPTORS[kind]
    assert evolved(timed(make)(Types.LONG()), 5, make(Types.LONG())) == 5


@by_kind
def test_time_to_live_may_be_another(backends, at, kind):
    make = DESCRIPTORS[kind]
    source = backends.make()
    at(source, "a")
    write(source.state(timed(make)(Types.LONG())), 5)
    target = backends.restored(source)
    at(target, "a")
    backends.now = 150
    assert read(target.state(timed(make, ttl=200)(Types.LONG()))) == 5


class Opaque:
    """An object that only pickle can store."""


def test_pickled_field_that_is_taken_away_is_not_read_either(evolved):
    before = Types.ROW_NAMED(["kept", "pickled"], [Types.LONG(), Types.PICKLED_BYTE_ARRAY()])
    after = Types.ROW_NAMED(["kept"], [Types.LONG()])
    arguments = (
        ValueStateDescriptor("s", before),
        Row(kept=1, pickled=Opaque()),
        ValueStateDescriptor("s", after),
    )
    with pytest.raises(PickleRefused, match="holds pickled objects"):
        evolved(*arguments)
    assert evolved(*arguments, allow_pickle=True) == Row(kept=1)


def test_elements_of_operator_state_change_by_the_same_rules():
    store = OperatorStateStore()
    store.get_list_state(ListStateDescriptor("l", Types.DATACLASS(Account))).add(Account("ann", 5))
    rules = store.get_broadcast_state(MapStateDescriptor("b", Types.STRING(), Types.DATACLASS(Account)))
    rules.put("x", Account("bob", 6))
    rules.put("y", None)
    encoded = encode_task_snapshot(TaskSnapshot({"op": OperatorSnapshot(None, store.snapshot())}))
    stored = decode_task_snapshot(encoded.data, "file")["op"].operator

    def restored():
        target = OperatorStateStore()
        target.restore(stored)
        return target

    new = Types.DATACLASS(WithLimit)
    assert restored().get_list_state(ListStateDescriptor("l", new)).get() == [WithLimit(5, "ann", 100)]
    assert restored().get_broadcast_state(MapStateDescriptor("b", Types.STRING(), new)).items() == [
        ("x", WithLimit(6, "bob", 100)),
        ("y", None),
    ]
    with pytest.raises(StateError, match=r"operator state 'l' was stored as .*field 'cents'"):
        restored().get_list_state(ListStateDescriptor("l", Types.DATACLASS(Retyped)))
