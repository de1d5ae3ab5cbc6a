"""Keyed state of every kind: what an access gives, for whom, and that a snapshot has all of it."""

from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceproof.engine.functions import AggregateFunction, ReduceFunction, RuntimeContext
from onceproof.engine.protocol_points import no_probe
from onceproof.engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.types import Types

WINDOW = Types.TUPLE([Types.LONG(), Types.LONG()])
EARLY, LATE = (0, 10), (10, 20)


class Mean(AggregateFunction):
    """The accumulator is changed in place, which a snapshot must not see."""

    def create_accumulator(self):
        return [0, 0]

    def add(self, value, accumulator):
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2, key=len)


VALUE = ValueStateDescriptor("value", Types.LONG())
LIST = ListStateDescriptor("list", Types.STRING())
MAP = MapStateDescriptor("map", Types.STRING(), Types.LONG())
SUM = ReducingStateDescriptor("sum", lambda one, other: one + other, Types.LONG())
MEAN = AggregatingStateDescriptor("mean", Mean(), Types.LIST(Types.LONG()))
KINDS = [VALUE, LIST, MAP, SUM, MEAN]
by_kind = pytest.mark.parametrize("descriptor", KINDS, ids=lambda descriptor: descriptor.kind)


def write(state, number):
    """Put something into a state of any kind that differs with the number."""
    if hasattr(state, "put"):
        state.put(f"k{number}", number)
    elif hasattr(state, "value"):
        state.update(number)
    else:
        state.add(str(number) if hasattr(state, "add_all") else number)


def read(state):
    """Everything that a state of any kind holds for the current key; [] or None where there is nothing."""
    if hasattr(state, "put"):
        return sorted(state.items())
    return state.value() if hasattr(state, "value") else state.get()


NOTHING = {"value": None, "list": [], "map": [], "reducing": None, "aggregating": None}


@by_kind
def test_state_belongs_to_its_key(backends, at, descriptor):
    backend = backends.make()
    state = backend.state(descriptor)
    at(backend, "a")
    write(state, 1)
    at(backend, "b")
    assert read(state) == NOTHING[descriptor.kind]
    write(state, 2)
    of_b = read(state)
    at(backend, "a")
    assert read(state) != of_b
    assert sorted(backend.keys(descriptor)) == ["a", "b"]


@by_kind
def test_state_belongs_to_its_namespace(backends, at, descriptor):
    backend = backends.make()
    state = backend.state(descriptor, WINDOW)
    at(backend, "a")
    state.set_current_namespace(EARLY)
    write(state, 1)
    early = read(state)
    state.set_current_namespace(LATE)
    assert read(state) == NOTHING[descriptor.kind]
    write(state, 2)
    state.set_current_namespace(EARLY)
    assert read(state) == early
    state.clear()
    assert backend.keys(descriptor, EARLY) == []
    assert backend.keys(descriptor, LATE) == ["a"]


@by_kind
def test_cleared_state_is_gone_and_clearing_again_is_harmless(backends, at, descriptor):
    backend = backends.make()
    state = backend.state(descriptor)
    at(backend, "a")
    write(state, 1)
    state.clear()
    state.clear()
    assert read(state) == NOTHING[descriptor.kind]
    assert backend.keys(descriptor) == []


@by_kind
def test_state_without_a_current_key_is_refused(backends, descriptor):
    state = backends.make().state(descriptor)
    for use in (lambda: read(state), lambda: write(state, 1), state.clear):
        with pytest.raises(StateError, match="no current key"):
            use()


@by_kind
def test_state_without_a_current_namespace_is_refused(backends, at, descriptor):
    backend = backends.make()
    state = backend.state(descriptor, WINDOW)
    at(backend, "a")
    for use in (lambda: read(state), lambda: write(state, 1), state.clear):
        with pytest.raises(StateError, match="no current namespace"):
            use()


@by_kind
def test_namespace_for_a_state_that_has_none_is_refused(backends, descriptor):
    state = backends.make().state(descriptor)
    with pytest.raises(StateError, match="has no namespaces"):
        state.set_current_namespace(EARLY)


@by_kind
def test_restored_state_equals_the_stored_one(backends, at, descriptor):
    source = backends.make()
    for key in ("a", "b"):
        at(source, key)
        write(source.state(descriptor), 1)
        write(source.state(descriptor), 2)
    target = backends.restored(source)
    for key in ("a", "b"):
        at(source, key)
        at(target, key)
        assert read(target.state(descriptor)) == read(source.state(descriptor)) != NOTHING[descriptor.kind]


@by_kind
def test_restored_state_of_a_namespace_equals_the_stored_one(backends, at, descriptor):
    source = backends.make()
    state = source.state(descriptor, WINDOW)
    at(source, "a")
    for number, window in enumerate((EARLY, LATE)):
        state.set_current_namespace(window)
        write(state, number)
    target = backends.restored(source)
    at(target, "a")
    copy = target.state(descriptor, WINDOW)
    for window in (EARLY, LATE):
        state.set_current_namespace(window)
        copy.set_current_namespace(window)
        assert read(copy) == read(state) != NOTHING[descriptor.kind]


@by_kind
def test_snapshot_does_not_see_later_changes(backends, at, descriptor):
    source = backends.make()
    state = source.state(descriptor)
    at(source, "kept")
    write(state, 1)
    before = read(state)
    at(source, "cleared")
    write(state, 2)
    snapshot = source.snapshot()
    state.clear()
    at(source, "kept")
    write(state, 3)
    write(state, 4)
    at(source, "new")
    write(state, 5)
    target = backends.restored_from(snapshot)
    copy = target.state(descriptor)
    at(target, "kept")
    assert read(copy) == before
    at(target, "cleared")
    assert read(copy) != NOTHING[descriptor.kind]
    assert sorted(target.keys(descriptor)) == ["cleared", "kept"]


@by_kind
def test_two_snapshots_before_the_first_is_written_are_apart(backends, at, descriptor):
    source = backends.make()
    state = source.state(descriptor)
    at(source, "a")
    held = []
    snapshots = []
    for number in range(3):
        write(state, number)
        held.append(read(state))
        snapshots.append(source.snapshot())
    write(state, 9)
    for expected, snapshot in zip(held, snapshots, strict=True):
        target = backends.restored_from(snapshot)
        at(target, "a")
        assert read(target.state(descriptor)) == expected


@by_kind
def test_asking_again_with_or_without_namespaces_is_refused(backends, descriptor):
    backend = backends.make()
    backend.state(descriptor)
    backend.state(descriptor)
    with pytest.raises(StateError, match=f"{descriptor.name!r} is declared as .* and again as .* by TUPLE"):
        backend.state(descriptor, WINDOW)


@by_kind
def test_restoring_state_without_namespaces_as_namespaced_is_refused(backends, at, descriptor):
    source = backends.make()
    at(source, "a")
    write(source.state(descriptor), 1)
    with pytest.raises(StateError, match=r"stored without namespaces but the job declares it by TUPLE"):
        backends.restored(source).state(descriptor, WINDOW)


def test_list_is_a_copy_and_never_none(backends, at):
    backend = backends.make()
    state = backend.list_state(LIST)
    at(backend, "a")
    state.get().append("not in the state")
    assert state.get() == []
    state.add("x")
    state.get().append("not in the state")
    assert list(state) == ["x"]


def test_list_is_extended_replaced_and_emptied(backends, at):
    backend = backends.make()
    state = backend.list_state(LIST)
    at(backend, "a")
    state.add_all([])
    assert backend.keys(LIST) == []
    state.add_all(iter(["x", "y"]))
    state.add("z")
    assert state.get() == ["x", "y", "z"]
    given_away = ["p"]
    state.update(given_away)
    given_away.append("not in the state")
    assert state.get() == ["p"]
    state.update([])
    assert state.get() == []
    assert backend.keys(LIST) == []


@pytest.mark.parametrize(
    "put",
    [lambda s: s.add(None), lambda s: s.add_all(["x", None]), lambda s: s.update([None])],
    ids=["add", "add_all", "update"],
)
def test_none_is_no_element(backends, at, put):
    backend = backends.make()
    state = backend.list_state(LIST)
    at(backend, "a")
    with pytest.raises(StateError, match="'list': None cannot be an element"):
        put(state)
    assert state.get() == []


def test_map_gives_entries_and_forgets_them(backends, at):
    backend = backends.make()
    state = backend.map_state(MAP)
    at(backend, "a")
    assert state.is_empty()
    state.put("x", 1)
    state.put_all({"y": 2, "z": 3})
    state["w"] = 4
    assert state.get("x") == state["x"] == 1
    assert state.get("missing") is None
    assert "y" in state
    assert not state.contains("missing")
    assert sorted(state) == sorted(state.keys()) == ["w", "x", "y", "z"]
    assert sorted(state.values()) == [1, 2, 3, 4]
    assert not state.is_empty()
    state.remove("missing")
    for key in state.keys():  # noqa: SIM118 (a state, not a dict)
        del state[key]
    assert state.is_empty()
    assert backend.keys(MAP) == []


def test_map_accepts_none_as_a_value_and_as_a_key_of_a_type_that_admits_it(backends, at):
    backend = backends.make()
    state = backend.map_state(MAP)
    at(backend, "a")
    state.put("x", None)
    state.put(None, 1)
    state.put_all({None: 2})
    target = backends.restored(backend)
    at(target, "a")
    for each in (state, target.map_state(MAP)):
        assert each.contains("x")
        assert each.get("x") is None
        assert each.contains(None)
        assert sorted(each.items(), key=repr) == [("x", None), (None, 2)]
    by_number = backend.map_state(MapStateDescriptor("numbered", Types.LONG(), Types.LONG()))
    for put in (lambda: by_number.put(None, 1), lambda: by_number.put_all({None: 1})):
        with pytest.raises(StateError, match="'numbered': None cannot be a key"):
            put()


def test_put_all_takes_a_mapping_or_pairs_on_every_backend(backends, at):
    backend = backends.make()
    state = backend.map_state(MAP)
    at(backend, "a")
    state.put_all({"x": 1, "y": None})
    state.put_all([("y", 2), ("z", 3)])
    state.put_all({"z": 4}.items())
    state.put_all(MappingProxyType({"x": 5}))
    state.put_all({})
    state.put_all(iter([]))
    assert sorted(state.items()) == [("x", 5), ("y", 2), ("z", 4)]
    for wrong in (1, ["x"], [("x", 1, 2)]):
        with pytest.raises(StateError, match=r"'map': put_all takes a dict or \(key, value\) pairs"):
            state.put_all(wrong)
    assert sorted(state.items()) == [("x", 5), ("y", 2), ("z", 4)]


def test_reducing_folds_by_a_function_object_or_a_callable(backends, at):
    backend = backends.make()
    longest = backend.reducing_state(ReducingStateDescriptor("longest", Longest(), Types.STRING()))
    total = backend.reducing_state(SUM)
    at(backend, "a")
    for word in ("on", "upon", "at"):
        longest.add(word)
        total.add(len(word))
    assert (longest.get(), total.get()) == ("upon", 8)
    total.add(None)
    assert total.get() is None


def test_aggregating_gives_the_result_of_its_accumulator(backends, at):
    backend = backends.make()
    state = backend.aggregating_state(MEAN)
    at(backend, "a")
    state.add(1)
    state.add(4)
    assert state.get() == 2.5
    assert backend.table(MEAN).get("a") == [5, 2]
    state.add(None)
    assert state.get() is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ReducingStateDescriptor("s", 7), "'s' reduces by 7"),
        (lambda: AggregatingStateDescriptor("s", Longest()), "'s' aggregates by"),
        (lambda: ValueStateDescriptor(""), "needs a name"),
    ],
)
def test_incomplete_descriptor_is_refused(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()


@pytest.mark.parametrize("descriptor", [LIST, SUM, MEAN], ids=lambda descriptor: descriptor.kind)
def test_merged_namespaces_are_one(backends, at, descriptor):
    backend = backends.make()
    state = backend.state(descriptor, WINDOW)
    whole = backend.state(type(descriptor)(*_renamed(descriptor)))
    at(backend, "a")
    numbers = {(0, 1): [1, 2], (1, 2): [3], (2, 3): [], (3, 4): [4]}
    for window, own in numbers.items():
        state.set_current_namespace(window)
        for number in own:
            write(state, number)
    for number in (1, 2, 3, 4):
        write(whole, number)
    state.merge_namespaces((0, 1), [(1, 2), (2, 3), (3, 4)])
    state.set_current_namespace((0, 1))
    assert read(state) == read(whole)
    assert backend.keys(descriptor, (0, 1)) == ["a"]
    assert backend.keys(descriptor, (1, 2)) == backend.keys(descriptor, (3, 4)) == []


def _renamed(descriptor):
    if descriptor is LIST:
        return "other", Types.STRING()
    function = descriptor.agg_function if descriptor is MEAN else descriptor.reduce_function
    return "other", function, descriptor.type_info


KEYS = st.sampled_from([f"key-{number}" for number in range(12)])
OPERATIONS = st.lists(st.tuples(st.sampled_from(KINDS), KEYS, st.integers(0, 9), st.booleans()), max_size=40)


@settings(max_examples=30, deadline=None)
@given(
    operations=OPERATIONS,
    cuts=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 5)), max_size=4),
    first=st.integers(1, 4),
)
def test_state_that_was_rescaled_on_the_way_is_as_if_it_never_had_been(
    backends_of_each, operations, cuts, first
):
    """From p to q and back to p, at any points of any operations, over every kind of state at once."""
    backends = backends_of_each()
    undisturbed, current = [backends.make()], backends.rescaled([backends.make()], first)
    at_operation = dict(cuts)
    for place, (descriptor, key, number, clears) in enumerate(operations):
        if place in at_operation:
            current = backends.rescaled(current, at_operation[place])
        for owners in (undisturbed, current):
            backend = backends.owner(owners, key)
            backend.current_key = key
            state = backend.state(descriptor)
            if clears:
                state.clear()
            else:
                write(state, number)
    current = backends.rescaled(current, first)
    for descriptor in KINDS:
        held = {}
        for backend in current:
            own = _all_of(backend, descriptor)
            assert not held.keys() & own.keys()
            assert all(backends.owner(current, key) is backend for key in own)
            held |= own
        assert held == _all_of(undisturbed[0], descriptor)


def _all_of(backend, descriptor):
    state = backend.state(descriptor)
    held = {}
    for key in backend.keys(descriptor):
        backend.current_key = key
        held[key] = read(state)
    return held


class Rich(ReduceFunction):
    """A function that waits to be opened."""

    def open(self, runtime_context):
        self.factor = 2

    def reduce(self, value1, value2):
        return value1 * self.factor + value2


class Plain(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


def test_a_rich_function_of_a_state_is_refused_and_a_plain_one_taken(heap):
    context = RuntimeContext(
        task_name="sum",
        subtask=0,
        parallelism=1,
        max_parallelism=1,
        attempt="1.1",
        clock=lambda: 0,
        pass_point=no_probe,
        backend=heap.make(),
    )
    with pytest.raises(TypeError, match=r"state 'r': the state never calls open\(\) of Rich"):
        context.get_reducing_state(ReducingStateDescriptor("r", Rich(), Types.LONG()))
    for function in (Plain(), min):
        context.get_reducing_state(ReducingStateDescriptor("r", function, Types.LONG()))
