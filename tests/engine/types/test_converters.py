"""Converters: what a function returns becomes a value of the declared type, as in Flink."""

import math
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceproof.engine.types import Row, Types, WrongValue, from_descriptor
from onceproof.engine.types.fitting import quick_check

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
NAMED = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])


class Colour(IntEnum):
    RED = 1


class Name(str):
    __slots__ = ()


class Celsius(float):
    __slots__ = ()


@dataclass
class Reading:
    sensor: str
    celsius: float
    note: str | None = None


@dataclass(slots=True)
class Person:
    name: str
    id: int


class Plain:
    def __init__(self):
        self.id, self.name, self.other = 7, "g", object()


def convert(kind, value):
    converter = kind.converter()
    return value if converter is None else converter(value)


FITTING = [
    (Types.STRING(), "a"),
    (Types.BOOLEAN(), False),
    (Types.BYTE(), -128),
    (Types.SHORT(), 32767),
    (Types.INT(), -(1 << 31)),
    (Types.LONG(), (1 << 63) - 1),
    (Types.BIG_INT(), 1 << 70),
    (Types.FLOAT(), 0.5),
    (Types.DOUBLE(), 0.1),
    (Types.CHAR(), "ä"),
    (Types.BIG_DEC(), Decimal("1.10")),
    (Types.SQL_DATE(), date(2013, 2, 28)),
    (Types.SQL_TIME(), time(1, 2, 3, 4)),
    (Types.SQL_TIMESTAMP(), datetime(2013, 1, 1, 5, 15, 0, 1)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"x"),
    (Types.VOID(), None),
    (Types.PICKLED_BYTE_ARRAY(), {1}),
    (Types.DYNAMIC(), object()),
    (PAIR, ("a", 1)),
    (Types.TUPLE([PAIR, Types.TUPLE([])]), (("a", 1), ())),
    (Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY()]), ("a", {1})),
    (Types.LIST(Types.LONG()), [1, 2]),
    (Types.STRING(), None),
    (Types.BIG_INT(), None),
    (Types.BIG_DEC(), None),
    (Types.SQL_DATE(), None),
    (Types.SQL_TIME(), None),
    (Types.SQL_TIMESTAMP(), None),
    (Types.TUPLE([Types.STRING(), Types.SQL_TIMESTAMP()]), (None, None)),
    (Types.LIST(Types.STRING()), ["a", None]),
    (Types.MAP(Types.STRING(), Types.LONG()), {None: None}),
    (Types.BASIC_ARRAY(Types.STRING()), ["a", None]),
    (Types.BASIC_ARRAY(Types.LONG()), [1, None]),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1, "b": None}),
    (NAMED, Row(id=1, name=None)),
    (Types.ROW([Types.LONG(), Types.STRING()]), Row(1, "a")),
    (Types.DATACLASS(Reading), Reading("s", 1.5)),
]


@pytest.mark.parametrize(
    ("kind", "value"), FITTING, ids=[f"{kind} {place}" for place, (kind, _) in enumerate(FITTING)]
)
def test_a_value_that_fits_is_passed_on_as_the_same_object(kind, value):
    assert convert(kind, value) is value


CONVERTED = [
    (Types.STRING(), Name("a"), "a"),
    (Types.INT(), Colour.RED, 1),
    (Types.DOUBLE(), Celsius(1.5), 1.5),
    (Types.FLOAT(), 0.1, struct.unpack("f", struct.pack("f", 0.1))[0]),
    (Types.FLOAT(), math.inf, math.inf),
    (Types.BIG_DEC(), 2, Decimal(2)),
    (Types.BIG_DEC(), 0.1, Decimal("0.1")),
    (Types.SQL_DATE(), datetime(2013, 2, 28, 12), date(2013, 2, 28)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"x"), b"x"),
    (PAIR, ["a", 1], ("a", 1)),
    (PAIR, Row("a", 1), ("a", 1)),
    (Types.TUPLE([PAIR]), (["a", 1],), (("a", 1),)),
    (Types.LIST(Types.DOUBLE()), (1.0, 2.5), [1.0, 2.5]),
    (Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": Celsius(1)}, {"a": 1.0}),
    (NAMED, (7, "g"), Row(id=7, name="g")),
    (NAMED, [7, None], Row(id=7, name=None)),
    (NAMED, Row(7, "g"), Row(id=7, name="g")),
    (NAMED, Row(name="g", other=1, id=7), Row(id=7, name="g")),
    (NAMED, {"name": "g", "id": 7, "other": 1}, Row(id=7, name="g")),
    (NAMED, {"id": 7}, Row(id=7, name=None)),
    (NAMED, Person("g", 7), Row(id=7, name="g")),
    (NAMED, Plain(), Row(id=7, name="g")),
    (Types.ROW([Types.LONG(), PAIR]), (7, ["a", 1]), Row(7, ("a", 1))),
    (Types.DATACLASS(Reading), Reading("s", Celsius(1)), Reading("s", 1.0)),
]


@pytest.mark.parametrize(("kind", "value", "expected"), CONVERTED)
def test_a_value_of_a_near_class_is_converted(kind, value, expected):
    result = convert(kind, value)
    assert result == expected
    assert type(result) is type(expected)
    assert convert(kind, result) is result


def test_a_row_of_the_type_is_read_by_name_and_by_index():
    row = convert(NAMED, (7, "g"))
    assert (row.id, row["name"], row[0], list(row)) == (7, "g", 7, [7, "g"])


def test_the_value_of_the_function_is_not_changed():
    numbers = [Celsius(1), Celsius(2)]
    reading = Reading("s", Celsius(1))
    assert list(map(type, convert(Types.LIST(Types.DOUBLE()), numbers))) == [float, float]
    assert type(convert(Types.DATACLASS(Reading), reading).celsius) is float
    assert {type(number) for number in (*numbers, reading.celsius)} == {Celsius}


REFUSED = [
    (Types.STRING(), 1, []),
    (Types.STRING(), b"a", []),
    (Types.BOOLEAN(), 1, []),
    (Types.BOOLEAN(), None, []),
    (Types.LONG(), "1", []),
    (Types.LONG(), 1.0, []),
    (Types.LONG(), True, []),
    (Types.TUPLE([Types.LONG()]), (True,), ["field 0"]),
    (Types.LONG(), None, []),
    (Types.LONG(), 1 << 63, []),
    (Types.INT(), 1 << 31, []),
    (Types.SHORT(), -32769, []),
    (Types.BYTE(), 128, []),
    (Types.DOUBLE(), "1.5", []),
    (Types.DOUBLE(), 10**400, []),
    (Types.DOUBLE(), 5, []),
    (Types.DOUBLE(), True, []),
    (Types.DOUBLE(), Decimal("1.5"), []),
    (Types.DOUBLE(), None, []),
    (Types.FLOAT(), 5, []),
    (Types.LIST(Types.DOUBLE()), [5], ["element 0"]),
    (Types.FLOAT(), 1e300, []),
    (Types.CHAR(), "ab", []),
    (Types.BIG_DEC(), "1.5", []),
    (Types.BIG_DEC(), True, []),
    (Types.SQL_DATE(), "2013-02-28", []),
    (Types.SQL_TIMESTAMP(), date(2013, 2, 28), []),
    (Types.SQL_TIMESTAMP(), datetime(2013, 2, 28, tzinfo=UTC), []),
    (Types.VOID(), 0, []),
    (PAIR, ("a", "b"), ["field 1"]),
    (PAIR, ("a", 1, 2), []),
    (PAIR, "ab", []),
    (PAIR, None, []),
    (Types.TUPLE([Types.LIST(PAIR)]), ([("a", 1), ("b", None)],), ["field 0", "element 1", "field 1"]),
    (Types.LIST(Types.LONG()), [1, None], ["element 1"]),
    (Types.LIST(Types.LONG()), {1}, []),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": "b"}, ["value of 'a'"]),
    (Types.MAP(Types.STRING(), Types.LONG()), {1: 1}, ["key 1"]),
    (Types.MAP(Types.STRING(), Types.LONG()), [("a", 1)], []),
    (NAMED, (1,), []),
    (NAMED, ("1", "a"), ["field 'id'"]),
    (NAMED, Row(id=1, nmae="a"), []),
    (NAMED, 1, []),
    (NAMED, Person, []),
    (NAMED, {"nmae": "a"}, []),
    (NAMED, len, []),
    (Types.ROW([Types.LONG()]), {"id": 1}, []),
    (Types.DATACLASS(Reading), {"sensor": "s", "celsius": 1.0}, []),
    (Types.DATACLASS(Reading), Reading("s", "1"), ["field 'celsius'"]),
]


@pytest.mark.parametrize(("kind", "value", "path"), REFUSED)
def test_what_does_not_fit_is_refused_with_its_place(kind, value, path):
    with pytest.raises(WrongValue) as refused:
        convert(kind, value)
    assert refused.value.path[::-1] == path


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 65), 1 << 65)
    | st.sampled_from([-129, -128, 127, 128, 1 << 15, 1 << 31, (1 << 63) - 1, 1 << 63, -(1 << 63) - 1])
    | st.floats()
    | st.text(max_size=2)
    | st.binary(max_size=2)
    | st.dates()
    | st.datetimes()
    | st.decimals(),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
SIMPLE = [
    kind
    for kind in [
        *[each for each, _ in FITTING if each.name not in ("DYNAMIC", "PICKLED_BYTE_ARRAY")],
        Types.TUPLE([Types.FLOAT()]),
        Types.TUPLE([Types.BYTE(), Types.TUPLE([Types.DOUBLE(), Types.CHAR()])]),
    ]
    if quick_check(kind) is not None
]
_BY_NAME = {kind.name: [value for each, value in FITTING if each is kind] for kind in SIMPLE}


@given(st.sampled_from(SIMPLE), st.data())
def test_the_quick_check_agrees_with_the_converter(kind, data):
    known = st.sampled_from(_BY_NAME[kind.name]) if _BY_NAME[kind.name] else st.nothing()
    values = data.draw(st.lists(known | ANYTHING | st.tuples(ANYTHING, ANYTHING), max_size=4))
    converter = kind.converter()

    def passes(value):
        try:
            return converter(value) is value
        except WrongValue:
            return False

    has_nan = any("nan" in repr(value).lower() for value in values)
    expected = all(map(passes, values))
    found = quick_check(kind)([(value, None) for value in values])
    assert found == expected or (has_nan and not found)


def test_types_that_need_conversion_have_no_quick_check():
    assert len(SIMPLE) == 28
    for kind in (NAMED, Types.LIST(Types.LONG()), Types.TUPLE([NAMED]), Types.DYNAMIC()):
        assert quick_check(kind) is None


def test_void_is_described_and_read_back():
    assert from_descriptor(Types.VOID().to_descriptor()) is Types.VOID()
    assert Types.VOID().decode(Types.VOID().encode(None)) is None
