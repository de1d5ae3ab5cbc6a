"""Forms of values: each comes back equal and of its class, and data decides no more than values of fields."""

import enum
import pickle
import sys
import threading
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceproof.engine.types import NotDescribable, PickleForbidden, Row, Types, WrongValue, objects

ANY = Types.PICKLED_BYTE_ARRAY()
Ext = msgspec.msgpack.Ext
ENCODE = msgspec.msgpack.encode


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Point(typing.NamedTuple):
    x: int
    y: list[int]


@dataclass
class Visit:
    user: str
    pages: list[str]
    at: Point | None = None
    seen: set[int] = field(default_factory=set)

    def __post_init__(self):
        self.length = len(self.pages)


@dataclass(frozen=True, slots=True)
class Rate:
    value: Decimal


@dataclass
class Outer:
    @dataclass
    class Inner:
        n: int

    inner: Inner


class Opaque:
    """What only pickle can store."""

    def __eq__(self, other):
        return type(other) is Opaque

    __hash__ = None


VALUES = [
    None,
    True,
    7,
    1 << 80,
    -0.0,
    1.5 - 2j,
    "ä",
    b"bytes",
    bytearray(b"array"),
    [1, [None, "a", None]],
    (1, (2, [3]), ()),
    {"a": (1,), "b": None},
    {1: "x", (2, None): {3}},
    {1, "a", None, (2,)},
    frozenset({frozenset({1}), 2}),
    date(2024, 2, 29),
    time(1, 2, 3, 4, fold=1),
    datetime(2024, 1, 1, 12, 30, 0, 1),
    datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    datetime(2024, 1, 1, tzinfo=UTC),
    time(1, tzinfo=timezone(timedelta(hours=-3), "here")),
    timedelta(-1, 2, 3),
    Decimal("-1.10"),
    Fraction(2, 3),
    UUID(int=5),
    deque([1, [2]], 3),
    OrderedDict(b=1, a=2),
    Counter("abca"),
    defaultdict(list, {"a": [1]}),
    defaultdict(None, {1: 2}),
    Row(1, None),
    Row(a=1, b=[{2}]),
    Colour.BLUE,
    Level.LOW,
    Point(1, [2]),
    Visit("ann", ["/"], Point(3, []), {4}),
    Rate(Decimal("0.5")),
    Outer(Outer.Inner(1)),
]
IDS = [f"{type(value).__name__} {place}" for place, value in enumerate(VALUES)]


def same(one, other):
    """Return whether two values are equal, and of one class throughout."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, list | tuple | deque):
        return all(map(same, one, other))
    if isinstance(one, dict):
        return list(map(type, one)) == list(map(type, other)) and all(map(same, one.values(), other.values()))
    return True


@pytest.mark.parametrize("kind", [ANY, Types.DYNAMIC()], ids=repr)
@pytest.mark.parametrize("value", VALUES, ids=IDS)
def test_a_plain_value_comes_back_equal_and_of_its_class(kind, value):
    assert same(kind.decode(kind.encode(value)), value)
    assert same(kind.copy(value), value)


@pytest.mark.parametrize("value", VALUES, ids=IDS)
def test_a_value_within_a_declared_type_comes_back(value):
    for kind, whole in (
        (Types.TUPLE([Types.LONG(), ANY]), (1, value)),
        (Types.LIST(ANY), [value, value]),
        (Types.ROW_NAMED(["v", "w"], [ANY, Types.STRING()]), Row(v=value, w=None)),
        (Types.MAP(Types.STRING(), ANY), {"a": value, "b": None}),
        (Types.BASIC_ARRAY(ANY), [None, value]),
    ):
        assert kind.decode(kind.encode(whole)) == whole


def test_what_a_dataclass_holds_besides_its_fields_comes_back():
    visit = Visit("ann", ["/", "/a"])
    visit.note = (1, 2)
    read = ANY.decode(ANY.encode(visit))
    assert vars(read) == vars(visit)
    assert (read.length, read.note) == (2, (1, 2))


def test_neither_init_nor_new_runs_when_a_value_is_read(monkeypatch):
    stored = [ANY.encode(value) for value in (Visit("ann", []), Point(1, []))]

    def run(*arguments, **settings):
        raise AssertionError

    for kind in (Visit, Point):
        for method in ("__init__", "__post_init__"):
            monkeypatch.setattr(kind, method, run, raising=False)
    monkeypatch.setattr(Point, "__new__", run)
    assert [type(ANY.decode(each)) for each in stored] == [Visit, Point]


def test_equal_sets_are_equal_bytes_in_any_order():
    numbers = [*range(50), "a", "b"]
    assert ANY.encode(set(numbers)) == ANY.encode({*numbers[25:], *numbers[:25]})


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    | st.binary(max_size=4)
    | st.dates()
    | st.times()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.sampled_from(Colour)
    | st.builds(Rate, st.decimals(allow_nan=False)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text("ab", max_size=2) | st.integers() | st.dates(), inner, max_size=3)
        | st.sets(st.integers() | st.text("ab", max_size=2), max_size=3)
        | st.builds(Point, st.integers(), st.lists(inner, max_size=2))
        | st.builds(Visit, st.text("ab"), st.lists(inner, max_size=2))
        | st.lists(inner, max_size=3).map(lambda items: Row(*items))
        | st.lists(inner, max_size=3).map(deque)
    ),
    max_leaves=10,
)


@given(PLAIN)
@settings(deadline=None)
def test_any_plain_value_comes_back_without_permission(value):
    for kind in (ANY, Types.DYNAMIC()):
        read = kind.decode(kind.encode(value))
        assert same(read, value)
        assert kind.encode(read) == kind.encode(value)


def cyclic():
    value = []
    value.append(value)
    return value


def local_class():
    @dataclass
    class Local:
        n: int

    return Local(1)


class Subclass(dict):
    """More than a dict: it may hold what no form knows."""


@dataclass
class Custom:
    n: int

    def __reduce__(self):
        return Custom, (self.n,)


class Tagged(Point):
    """A named tuple whose objects may hold more than its fields."""


def tagged():
    value = Tagged(1, [])
    value.tag = 2
    return value


OPAQUE = [
    (Opaque(), "type Opaque"),
    ([1, {"a": Opaque()}], "type Opaque"),
    (Visit("ann", [Opaque()]), "type Opaque"),
    (threading.Lock(), "type lock"),
    (local_class(), r"module tests.engine.types.test_objects has no class local_class.<locals>.Local"),
    (Subclass(a=1), "type Subclass"),
    (Custom(1), "type Custom"),
    (tagged(), r"type Tagged has no typed form \(it keeps more than its fields\)"),
    (defaultdict(lambda: 0), "type defaultdict"),
    (len, "type builtin_function_or_method"),
    (Opaque, "type type"),
    (cyclic(), "type list"),
]


@pytest.mark.parametrize(("value", "words"), OPAQUE, ids=range(len(OPAQUE)))
def test_an_opaque_value_is_refused_with_its_class_and_the_remedy(value, words):
    with pytest.raises(NotDescribable, match=rf"{words}.* pipeline\.allow-pickled-state") as refused:
        ANY.encode(value)
    assert "\n" not in str(refused.value)


def test_an_opaque_value_is_pickled_and_read_with_permission_only():
    for value in (Opaque(), [1, {"a": Opaque()}], Custom(1)):
        data = ANY.encode(value, allow_pickle=True)
        with pytest.raises(PickleForbidden):
            ANY.decode(data)
        assert ANY.decode(data, allow_pickle=True) == value
    with pytest.raises(WrongValue, match="pickle refuses it"):
        ANY.encode(threading.Lock(), allow_pickle=True)


def test_a_pickle_of_version_0_2_0_is_read_with_permission_only():
    data = ENCODE(pickle.dumps({"n": {1, 2}}, protocol=4))
    with pytest.raises(PickleForbidden):
        ANY.decode(data)
    assert ANY.decode(data, allow_pickle=True) == {"n": {1, 2}}


def test_no_pickle_runs_wherever_data_hides_it():
    attack = Ext(100, ENCODE(b"cpytest\nfail\n(S'a pickle ran'\ntR."))
    hidden = [
        attack,
        [attack],
        {"a": attack},
        Ext(1, ENCODE([attack])),
        Ext(9, ENCODE([attack])),
        Ext(22, ENCODE([__name__, "Visit", ["user"], [attack], {}])),
    ]
    for value in hidden:
        for kind in (ANY, Types.DYNAMIC()):
            with pytest.raises(PickleForbidden):
                kind.decode(ENCODE(value))


def of_class(module, name, *rest):
    return Ext(22, ENCODE([module, name, *rest]))


HOSTILE = {
    "a class that is not loaded": (of_class("never.loaded", "C", [], [], {}), "this program has not loaded"),
    "a function": (of_class("os", "system", [], [], {}), "which this program has not loaded"),
    "a class that is not a dataclass": (of_class("subprocess", "Popen", [], [], {}), "not the dataclass"),
    "an attribute of a class": (of_class(__name__, "Visit.__init__", [], [], {}), "has not loaded"),
    "names that are no texts": (of_class(1, [2], [], [], {}), "not text"),
    "too few parts": (Ext(22, ENCODE([__name__])), "cannot be made"),
    "fields without values": (of_class(__name__, "Visit", ["user", "pages"], ["a"], {}), "cannot be made"),
    "a missing field": (of_class(__name__, "Visit", ["user"], ["a"], {}), "field 'pages' of Visit is new"),
    "an enum that is none": (Ext(24, ENCODE([__name__, "Visit", "RED"])), "not the enum"),
    "an unknown member": (Ext(24, ENCODE([__name__, "Colour", "__class__"])), "no member '__class__'"),
    "a tuple that is none": (Ext(23, ENCODE([__name__, "Visit", [], []])), "not the named tuple"),
    "an unknown extension": (Ext(99, ENCODE([])), "unknown extension 99"),
    "an impossible date": (Ext(5, ENCODE([2024, 2, 31])), "extension 5 cannot be made"),
    "a set of lists": (Ext(9, ENCODE([[1]])), "extension 9 cannot be made"),
    "a huge delta": (Ext(11, ENCODE([10**18, 0, 0])), "extension 11 cannot be made"),
    "a zone beside the database": (Ext(13, ENCODE(["../../etc/passwd"])), "extension 13 cannot be made"),
    "a factory of the data's choice": (Ext(21, ENCODE(["eval"])), "extension 21 cannot be made"),
    "an odd number of parts": (Ext(19, ENCODE([1])), "extension 19 cannot be made"),
}


@pytest.mark.parametrize(("value", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_value_is_an_error_of_its_decoding(value, words):
    before = set(sys.modules)
    for kind in (ANY, Types.DYNAMIC()):
        with pytest.raises(ValueError, match=words):
            kind.decode(ENCODE(value))
    assert set(sys.modules) - before <= {"tzdata", "tzdata.zoneinfo"}


def test_looking_a_class_up_asks_a_module_for_nothing(monkeypatch):
    class Loading(ModuleType):
        def __getattribute__(self, name):
            raise AssertionError(name)

    monkeypatch.setitem(sys.modules, "lazy_module", Loading("lazy_module"))
    with pytest.raises(ValueError, match="has not loaded"):
        ANY.decode(ENCODE(of_class("lazy_module", "C", [], [], {})))


def test_fields_follow_the_class_of_today(monkeypatch):
    stored = ANY.encode(Visit("ann", ["/"]))

    @dataclass
    class Today:
        user: str
        country: str = "de"
        seen: set[int] = field(default_factory=set)

    Today.__module__, Today.__qualname__ = __name__, "Visit"
    monkeypatch.setattr(sys.modules[__name__], "Visit", Today)
    read = ANY.decode(stored)
    assert (type(read), read.user, read.country, read.seen) == (Today, "ann", "de", set())


def test_a_class_that_was_sent_along_is_found_under_its_name(monkeypatch):
    monkeypatch.setattr(objects, "_GIVEN", {})
    value = local_class()
    type(value).__module__, type(value).__qualname__ = "__main__", "Sent"
    with pytest.raises(NotDescribable):
        ANY.encode(value)
    objects.give_classes([type(value)])
    assert ANY.decode(ANY.encode(value)) == value


def test_classes_of_the_program_are_those_with_a_form(monkeypatch):
    main = ModuleType("__main__")
    for kind in (Visit, Point, Colour, Opaque, Outer):
        twin = type(kind.__name__, (), {}) if kind is Opaque else kind
        monkeypatch.setattr(twin, "__module__", "__main__")
        setattr(main, kind.__name__, twin)
    monkeypatch.setattr(Outer.Inner, "__module__", "__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert objects.classes_of_program() == [Visit, Point, Colour, Outer, Outer.Inner]
