"""Operator state: lists that are isolated, stored element by element, and restored as they were."""

import pytest

from onceproof.engine.durations import Time
from onceproof.engine.state.descriptors import ListStateDescriptor, MapStateDescriptor
from onceproof.engine.state.file_envelope import PickleRefused, StateError
from onceproof.engine.state.operator import OperatorStateStore, ReadOnlyView
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.types import Types

OFFSETS = ListStateDescriptor("offsets", Types.TUPLE([Types.STRING(), Types.LONG()]))


def stored(store):
    encoded = encode_task_snapshot(TaskSnapshot({"op": OperatorSnapshot(None, store.snapshot())}))
    return decode_task_snapshot(encoded.data, "file", encoded.sha256)["op"].operator


def restored(lists, **settings):
    store = OperatorStateStore()
    store.restore(lists, **settings)
    return store


def test_list_is_empty_at_first_and_never_none():
    assert OperatorStateStore().get_list_state(OFFSETS).get() == []


def test_elements_are_added_replaced_and_removed():
    state = OperatorStateStore().get_list_state(ListStateDescriptor("l"))
    state.add(1)
    state.add_all([2, 3])
    assert state.get() == [1, 2, 3]
    state.update([4])
    assert state.get() == [4]
    state.clear()
    assert state.get() == []


@pytest.mark.parametrize(
    "put",
    [lambda s: s.add(None), lambda s: s.add_all([1, None]), lambda s: s.update([None])],
    ids=["add", "add_all", "update"],
)
def test_none_is_no_element(put):
    state = OperatorStateStore().get_list_state(ListStateDescriptor("l"))
    with pytest.raises(StateError, match="'l': None"):
        put(state)
    assert state.get() == []


def test_changing_the_result_of_get_does_not_change_the_state():
    state = OperatorStateStore().get_list_state(ListStateDescriptor("l"))
    state.add(1)
    state.get().append(2)
    assert state.get() == [1]


def test_snapshot_does_not_see_later_elements():
    store = OperatorStateStore()
    state = store.get_list_state(OFFSETS)
    state.add(("a", 1))
    snapshot = store.snapshot()
    state.add(("b", 2))
    assert snapshot.lists[0].elements == [("a", 1)]


def test_snapshot_does_not_see_later_changes_of_an_element():
    store = OperatorStateStore()
    state = store.get_list_state(ListStateDescriptor("l"))
    inner = [1]
    state.add(inner)
    snapshot = store.snapshot()
    inner.append(2)
    state.add(3)
    assert snapshot.lists[0].elements == [[1]]


def test_restore_gives_back_both_modes_and_the_order_of_elements():
    store = OperatorStateStore()
    store.get_list_state(OFFSETS).update([("b", 2), ("a", 1)])
    store.get_union_list_state(ListStateDescriptor("all")).update([{"x": (1,)}])
    second = restored(stored(store))
    assert second.get_list_state(OFFSETS).get() == [("b", 2), ("a", 1)]
    assert second.get_union_list_state(ListStateDescriptor("all")).get() == [{"x": (1,)}]


def test_state_that_the_job_no_longer_registers_is_written_again():
    store = OperatorStateStore()
    store.get_list_state(OFFSETS).update([("a", 1)])
    assert restored(stored(restored(stored(store)))).get_list_state(OFFSETS).get() == [("a", 1)]


def test_registered_state_is_not_carried_a_second_time():
    store = OperatorStateStore()
    store.get_list_state(OFFSETS).update([("a", 1)])
    second = restored(stored(store))
    second.get_list_state(OFFSETS).clear()
    assert restored(stored(second)).get_list_state(OFFSETS).get() == []


def test_name_has_one_mode_and_one_type():
    store = OperatorStateStore()
    assert store.get_list_state(OFFSETS) is store.get_list_state(OFFSETS)
    with pytest.raises(StateError, match="again as UNION"):
        store.get_union_list_state(OFFSETS)
    with pytest.raises(StateError, match="again as SPLIT_DISTRIBUTE of LONG"):
        store.get_list_state(ListStateDescriptor("offsets", Types.LONG()))


def test_restoring_into_another_mode_or_type_is_refused():
    store = OperatorStateStore()
    store.get_list_state(OFFSETS).update([("a", 1)])
    with pytest.raises(StateError, match="was stored as SPLIT_DISTRIBUTE but the job declares UNION"):
        restored(stored(store)).get_union_list_state(OFFSETS)
    with pytest.raises(
        StateError, match=r"was stored as TUPLE\(\[STRING, LONG\]\) but the job declares LONG"
    ):
        restored(stored(store)).get_list_state(ListStateDescriptor("offsets", Types.LONG()))


class Opaque:
    """An object that only pickle can store."""


def test_pickled_elements_are_read_only_on_permission():
    held = ListStateDescriptor("held", Types.PICKLED_BYTE_ARRAY())
    store = OperatorStateStore(allow_pickle=True)
    store.get_list_state(held).add(Opaque())
    with pytest.raises(PickleRefused, match="held"):
        restored(stored(store)).get_list_state(held)
    (value,) = restored(stored(store), allow_pickle=True).get_list_state(held).get()
    assert type(value) is Opaque


def test_an_opaque_element_is_refused_as_it_is_written():
    store = OperatorStateStore(operator_name="pairs")
    held = store.get_list_state(ListStateDescriptor("held", Types.PICKLED_BYTE_ARRAY()))
    rules = store.get_broadcast_state(MapStateDescriptor("rules", None, Types.PICKLED_BYTE_ARRAY()))
    refused = (
        r"operator 'pairs', operator state '%s': a value of type Opaque .* pipeline\.allow-pickled-state"
    )
    for write in (held.add, lambda value: held.add_all([value]), lambda value: held.update([value])):
        with pytest.raises(StateError, match=refused % "held"):
            write(Opaque())
    with pytest.raises(StateError, match=refused % "rules"):
        rules.put("a", Opaque())
    held.update([(1, {2}), "a"])
    rules.put("a", {1: {2}})
    again = restored(stored(store))
    assert again.get_list_state(ListStateDescriptor("held", Types.PICKLED_BYTE_ARRAY())).get() == [
        (1, {2}),
        "a",
    ]


def test_wrong_element_is_refused_naming_the_state():
    store = OperatorStateStore()
    store.get_list_state(OFFSETS).update([("a", "b")])
    with pytest.raises(StateError, match=r"operator state 'offsets': 'b' \(str\) is no LONG"):
        stored(store)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
ONE_PATTERN = MapStateDescriptor("pattern", Types.VOID(), Types.TUPLE([Types.STRING(), Types.STRING()]))


@pytest.mark.parametrize("descriptor", [ONE_PATTERN, MapStateDescriptor("pattern")])
def test_none_is_the_key_of_a_broadcast_state_with_one_entry(descriptor):
    store = OperatorStateStore()
    store.get_broadcast_state(descriptor).put(None, ("login", "logout"))
    pattern = restored(stored(store)).get_broadcast_state(descriptor)
    assert (pattern.get(None), list(pattern.keys())) == (("login", "logout"), [None])
    pattern.put_all([(None, ("add", "pay"))])
    assert list(pattern.items()) == [(None, ("add", "pay"))]


def test_none_is_no_key_of_a_declared_type_that_does_not_hold_it():
    by_number = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
    with pytest.raises(StateError, match="'rules': None cannot be a key"):
        OperatorStateStore().get_broadcast_state(by_number).put(None, 1)


def test_broadcast_state_is_a_map():
    state = OperatorStateStore().get_broadcast_state(RULES)
    assert state.is_empty()
    state.put("a", 1)
    state.put_all({"b": 2, "c": None})
    assert (state.get("a"), state.get("missing"), state.contains("c"), "d" in state) == (1, None, True, False)
    state.remove("a")
    state.remove("a")
    assert list(state.items()) == [("b", 2), ("c", None)]
    assert list(state) == ["b", "c"]
    for key in state.keys():  # noqa: SIM118 (a state, not a dict)
        del state[key]
    assert state.is_empty()
    state.put("a", 1)
    state.clear()
    assert state.is_empty()
    state.put(None, 1)
    assert list(state.items()) == [(None, 1)]


def test_broadcast_state_comes_back_as_it_was_and_apart_from_later_changes():
    store = OperatorStateStore()
    state = store.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LIST(Types.LONG())))
    state.put("a", [1])
    state.put("b", None)
    snapshot = store.snapshot()
    state.get("a").append(2)
    state.put("c", [3])
    encoded = encode_task_snapshot(TaskSnapshot({"op": OperatorSnapshot(None, snapshot)}))
    copy = restored(decode_task_snapshot(encoded.data, "file")["op"].operator)
    again = copy.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LIST(Types.LONG())))
    assert again.items() == [("a", [1]), ("b", None)]


def test_view_for_reading_sees_changes_and_refuses_to_make_any():
    state = OperatorStateStore().get_broadcast_state(RULES)
    view = ReadOnlyView(state)
    assert view.is_empty()
    state.put("a", 1)
    assert (view.get("a"), view.contains("a"), view.items(), view["a"]) == (1, True, [("a", 1)], 1)
    assert not hasattr(view, "put")
    with pytest.raises(StateError, match="'rules' can only be read on this side"):
        view.clear()


@pytest.mark.parametrize("first", ["list", "union", "broadcast"])
@pytest.mark.parametrize("second", ["list", "union", "broadcast"])
def test_name_has_one_mode(first, second):
    store = OperatorStateStore()
    ask = {
        "list": lambda: store.get_list_state(ListStateDescriptor("s", Types.LONG())),
        "union": lambda: store.get_union_list_state(ListStateDescriptor("s", Types.LONG())),
        "broadcast": lambda: store.get_broadcast_state(MapStateDescriptor("s", Types.LONG(), Types.LONG())),
    }
    state = ask[first]()
    if first == second:
        assert ask[second]() is state
    else:
        with pytest.raises(StateError, match=r"'s' is declared as .* and again as"):
            ask[second]()


def test_time_to_live_of_operator_state_is_refused():
    descriptor = ListStateDescriptor("l", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(StateError, match="'l' has a time to live: only keyed state can have one"):
        OperatorStateStore().get_list_state(descriptor)
