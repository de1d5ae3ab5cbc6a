"""Types: what goes through a snapshot comes back equal and of the same Python type, or is refused."""

import copy
import pickle
from datetime import UTC, date, datetime, time
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceproof.engine.types import NotDescribable, Row, Types, WrongValue, from_descriptor

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 200), 1 << 200)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(
            st.text("ab", max_size=2) | st.integers() | st.tuples(st.integers()), inner, max_size=4
        )
    ),
    max_leaves=12,
)

EXAMPLES = [
    (Types.STRING(), "ä\U0001f600"),
    (Types.BOOLEAN(), True),
    (Types.BYTE(), -128),
    (Types.SHORT(), 32767),
    (Types.INT(), -(1 << 31)),
    (Types.LONG(), (1 << 63) - 1),
    (Types.BIG_INT(), -(1 << 100)),
    (Types.FLOAT(), 0.1),
    (Types.DOUBLE(), -0.0),
    (Types.CHAR(), "x"),
    (Types.BIG_DEC(), Decimal("1.10")),
    (Types.SQL_DATE(), date(2013, 2, 28)),
    (Types.SQL_TIME(), time(1, 2, 3, 4)),
    (Types.SQL_TIMESTAMP(), datetime(2013, 1, 1, 5, 15, 0, 1)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
    (Types.PRIMITIVE_ARRAY(Types.LONG()), [1, 2]),
    (Types.BASIC_ARRAY(Types.STRING()), ["a"]),
    (Types.OBJECT_ARRAY(Types.BIG_INT()), [1 << 70]),
    (Types.STRING(), None),
    (Types.BIG_INT(), None),
    (Types.BIG_DEC(), None),
    (Types.SQL_DATE(), None),
    (Types.SQL_TIME(), None),
    (Types.SQL_TIMESTAMP(), None),
    (Types.TUPLE([Types.STRING(), Types.BIG_INT(), Types.SQL_TIMESTAMP()]), (None, None, None)),
    (Types.LIST(Types.STRING()), [None, "a", None]),
    (Types.LIST(Types.BIG_INT()), [None, 1 << 70]),
    (Types.BASIC_ARRAY(Types.LONG()), [1, None]),
    (Types.OBJECT_ARRAY(Types.LIST(Types.LONG())), [[1], None]),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": None, None: 1}),
    (Types.MAP(Types.STRING(), Types.LIST(Types.BIG_INT())), {"a": None, "b": [None]}),
    (Types.TUPLE([Types.STRING(), Types.BIG_INT()]), ("a", 1 << 90)),
    (Types.TUPLE([Types.TUPLE([Types.LONG()]), Types.LIST(Types.DOUBLE())]), ((1,), [0.5])),
    (Types.LIST(Types.TUPLE([Types.LONG(), Types.STRING()])), [(1, "a"), (2, "b")]),
    (Types.MAP(Types.TUPLE([Types.STRING(), Types.LONG()]), Types.LIST(Types.LONG())), {("a", 1): [2]}),
    (Types.MAP(Types.STRING(), Types.BIG_INT()), {"a": 1 << 70}),
    (Types.ROW([Types.STRING(), Types.LONG()]), Row("a", None)),
    (Types.ROW_NAMED(["n", "big"], [Types.STRING(), Types.BIG_INT()]), Row(n=None, big=1 << 70)),
    (Types.PICKLED_BYTE_ARRAY(), {1, 2}),
    (Types.DYNAMIC(), {"a": (1, [2, (3, None)]), "b": {1: b"x"}}),
    (Types.LIST(Types.DYNAMIC()), [(1,), [1], 1 << 80]),
]
IDS = [f"{kind} {place}" for place, (kind, _) in enumerate(EXAMPLES)]


@pytest.mark.parametrize(("kind", "value"), EXAMPLES, ids=IDS)
def test_value_comes_back_equal_and_of_the_same_type(kind, value):
    restored = kind.decode(kind.encode(value))
    assert restored == value
    assert type(restored) is type(value)
    assert repr(restored) == repr(value)


@pytest.mark.parametrize(("kind", "value"), EXAMPLES, ids=IDS)
def test_copy_equals_the_value_and_shares_nothing_that_can_change(kind, value):
    copied = kind.copy(value)
    assert copied == value
    if not kind.immutable and isinstance(value, list | dict | set | Row):
        assert copied is not value


@pytest.mark.parametrize(("kind", "value"), EXAMPLES, ids=IDS)
def test_type_survives_its_description_and_is_one_object(kind, value):
    assert from_descriptor(kind.to_descriptor()) is kind
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert copy.deepcopy(kind) is kind


@settings(max_examples=300, deadline=None)
@given(PLAIN)
def test_dynamic_values_come_back_as_they_were(value):
    kind = Types.DYNAMIC()
    restored = kind.decode(kind.encode(value))
    assert repr(restored) == repr(value)
    assert repr(kind.copy(value)) == repr(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.DOUBLE(), 3),
        (Types.LONG(), 3.0),
        (Types.LONG(), True),
        (Types.LONG(), 1 << 63),
        (Types.INT(), 1 << 31),
        (Types.STRING(), b"a"),
        (Types.STRING(), "\ud800"),
        (Types.BOOLEAN(), 1),
        (Types.CHAR(), "ab"),
        (Types.SQL_TIMESTAMP(), datetime(2013, 1, 1, tzinfo=UTC)),
        (Types.SQL_DATE(), datetime(2013, 1, 1)),
        (Types.TUPLE([Types.LONG()]), [1]),
        (Types.TUPLE([Types.LONG()]), (1, 2)),
        (Types.TUPLE([Types.LONG()]), ("a",)),
        (Types.LIST(Types.LONG()), (1,)),
        (Types.LIST(Types.LONG()), ["a"]),
        (Types.MAP(Types.STRING(), Types.LONG()), {"a": "b"}),
        (Types.MAP(Types.STRING(), Types.LONG()), [("a", 1)]),
        (Types.ROW([Types.LONG()]), Row(1, 2)),
        (Types.ROW([Types.LONG()]), Row(n=1)),
        (Types.ROW([Types.LONG()]), Row("a")),
    ],
)
def test_value_of_another_type_is_refused_in_one_line(kind, value):
    with pytest.raises(WrongValue) as raised:
        kind.encode(value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("value", [object(), [1, {object()}], {"a": len}, type("Number", (int,), {})(1)])
def test_value_without_a_self_describing_form_is_refused_and_pickle_offered(value):
    with pytest.raises(NotDescribable, match="PICKLED_BYTE_ARRAY"):
        Types.DYNAMIC().encode(value)


def test_copy_of_nested_lists_is_isolated_from_the_original():
    for kind, value in (
        (Types.DYNAMIC(), {"a": [1]}),
        (Types.MAP(Types.STRING(), Types.LIST(Types.LONG())), {"a": [1]}),
        (Types.PICKLED_BYTE_ARRAY(), {"a": [1]}),
    ):
        copied = kind.copy(value)
        value["a"].append(2)
        assert copied == {"a": [1]}, kind
    held = ([1],)
    copied = Types.TUPLE([Types.LIST(Types.LONG())]).copy(held)
    held[0].append(2)
    assert copied == ([1],)
    row = Row([1])
    copied = Types.ROW([Types.LIST(Types.LONG())]).copy(row)
    row[0].append(2)
    assert copied == Row([1])


def test_only_types_with_pickle_are_marked():
    assert Types.TUPLE([Types.LIST(Types.PICKLED_BYTE_ARRAY())]).contains_pickle
    assert Types.ROW([Types.PICKLED_BYTE_ARRAY()]).contains_pickle
    assert not Types.DYNAMIC().contains_pickle


@pytest.mark.parametrize("descriptor", ["NUMBER", ["TUPLE"], ["SET", "LONG"], ["TUPLE", ["NUMBER"]]])
def test_unknown_description_is_refused_by_name(descriptor):
    with pytest.raises(ValueError, match="unknown type"):
        from_descriptor(descriptor)


def test_row_answers_by_position_name_and_attribute():
    row = Row(id=1, name="a")
    assert (row[0], row["name"], row.name, len(row), list(row)) == (1, "a", "a", 2, [1, "a"])
    assert row.as_dict() == {"id": 1, "name": "a"}
    assert row.get_fields_by_names(["name"]) == ["a"]
    assert row != Row(1, "a")
    assert pickle.loads(pickle.dumps(row)) == row
    row["id"] = 2
    assert repr(row) == "Row(id=2, name='a')"
    with pytest.raises(KeyError, match="names are id, name"):
        row["nmae"]
    with pytest.raises(AttributeError, match="names are id, name"):
        _ = row.nmae
    with pytest.raises(TypeError, match="without names"):
        Row(1).as_dict()


def test_a_row_without_a_declared_type_comes_back_and_its_copy_is_isolated():
    kind, row = Types.DYNAMIC(), Row(name="a", parts=[1, Row(2)])
    assert kind.decode(kind.encode(row)) == row
    copy = kind.copy(row)
    row["parts"].append(3)
    assert copy == Row(name="a", parts=[1, Row(2)])


@pytest.mark.parametrize("parts", [[], [["a"]], [1, 2]])
def test_a_stored_row_whose_names_do_not_fit_its_values_is_refused(parts):
    forged = msgspec.msgpack.encode(msgspec.msgpack.Ext(4, msgspec.msgpack.encode(parts)))
    with pytest.raises((msgspec.DecodeError, ValueError, TypeError)):
        Types.DYNAMIC().decode(forged)


class Unwilling:
    def __deepcopy__(self, memo):
        raise StopIteration


@pytest.mark.parametrize(
    "copied",
    [
        Types.PICKLED_BYTE_ARRAY().copy_column,
        Types.LIST(Types.PICKLED_BYTE_ARRAY()).copy,
        lambda values: Types.TUPLE([Types.PICKLED_BYTE_ARRAY()]).copy_column([(each,) for each in values]),
    ],
)
def test_no_value_is_cut_off_where_one_raises_stop_iteration(copied):
    with pytest.raises(StopIteration):
        copied([{1}, Unwilling(), {2}])
