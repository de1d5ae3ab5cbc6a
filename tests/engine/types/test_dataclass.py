"""Dataclasses: fields by their annotations, there and back, without running the class's code."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from onceproof.engine.java_hashes import InvalidKey
from onceproof.engine.types import Row, Types, WrongValue, from_descriptor


@dataclass
class Address:
    street: str
    number: int


@dataclass
class Person:
    species: ClassVar[str] = "human"
    name: str
    height: float | None
    homes: list[Address] = field(default_factory=list)
    scores: dict[str, int] = field(default_factory=dict)
    pair: tuple[int, str] = (1, "a")
    either: int | str = 0
    anything: Any = None


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int


@dataclass(frozen=True)
class Path:
    points: list[Point]


@dataclass
class Everything:
    a: str
    b: int
    c: float
    d: bool
    e: bytes
    f: Decimal
    g: date
    h: time
    i: datetime
    j: list[int]
    k: tuple[int, ...]


EVERYTHING = Everything(
    a="a",
    b=1,
    c=0.5,
    d=True,
    e=b"e",
    f=Decimal("1.10"),
    g=date(2013, 1, 2),
    h=time(3, 4),
    i=datetime(2013, 1, 2),
    j=[1],
    k=(1, 2),
)


@dataclass
class Guarded:
    value: int

    def __post_init__(self):
        raise AssertionError("reading state runs no code of the class")


@dataclass
class Unknown:
    thing: object


@dataclass
class Tree:
    left: Tree | None


PERSON = Person("ann", None, [Address("high", 1)], {"go": 3}, (2, "b"), "x", {"y": (1, 2)})

EXAMPLES = [
    (Address, Address("high", 1)),
    (Person, PERSON),
    (Point, Point(1, -2)),
    (Path, Path([Point(0, 0), Point(1, 1)])),
    (Everything, EVERYTHING),
]


@pytest.mark.parametrize(("cls", "value"), EXAMPLES, ids=lambda each: getattr(each, "__name__", ""))
def test_object_comes_back_as_it_was(cls, value):
    kind = Types.DATACLASS(cls)
    assert kind.decode(kind.encode(value)) == value
    assert Types.LIST(kind).decode(Types.LIST(kind).encode([value])) == [value]


def test_every_field_may_be_none():
    kind = Types.DATACLASS(Address)
    assert kind.decode(kind.encode(Address(None, None))) == Address(None, None)


def test_type_of_a_class_is_one_and_survives_pickling_and_copying():
    kind = Types.DATACLASS(Person)
    assert Types.DATACLASS(Person) is kind
    assert pickle.loads(pickle.dumps(Types.LIST(kind))) is Types.LIST(kind)
    assert copy.deepcopy(kind) is kind


def test_descriptor_names_the_class_but_never_imports_it():
    kind = Types.DATACLASS(Point)
    assert kind.to_descriptor() == ["DATACLASS", "Point", ["x", "y"], ["LONG", "LONG"]]
    read = from_descriptor(kind.to_descriptor())
    assert read is not kind
    assert read.name == kind.name == "Point(x: LONG, y: LONG)"
    assert read.decode(kind.encode(Point(1, 2))) == Row(x=1, y=2)
    assert pickle.loads(pickle.dumps(read)) is read


def test_copy_of_a_mutable_value_is_independent():
    kind = Types.DATACLASS(Person)
    copied = kind.copy(PERSON)
    assert copied == PERSON
    copied.homes[0].number = 7
    copied.scores["go"] = 7
    assert (PERSON.homes[0].number, PERSON.scores["go"]) == (1, 3)
    frozen = Point(1, 2)
    assert Types.DATACLASS(Point).immutable
    assert Types.DATACLASS(Point).copy(frozen) is frozen
    assert not Types.DATACLASS(Path).immutable


def test_reading_runs_no_code_of_the_class():
    value = Guarded.__new__(Guarded)
    value.value = 3
    kind = Types.DATACLASS(Guarded)
    assert kind.decode(kind.encode(value)).value == 3
    assert kind.copy(value).value == 3


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Address("high", "1"), r"'1' \(str\) is no LONG"),
        (Point(1, 2), r"is no Address"),
        ({"street": "high", "number": 1}, r"is no Address"),
        (Address("high", 1 << 63), r"is no LONG: it holds"),
    ],
    ids=["field", "other class", "dict", "too large"],
)
def test_wrong_value_is_refused(value, words):
    with pytest.raises(WrongValue, match=words):
        Types.DATACLASS(Address).encode(value)


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (int, "is not a dataclass"),
        (Point(1, 2), "is not a dataclass"),
        (Unknown, "field 'thing' of Unknown is annotated .*object.*, which has no typed form"),
        (Tree, "Tree holds itself"),
    ],
    ids=["class", "object", "annotation", "recursive"],
)
def test_annotation_without_type_is_refused(cls, words):
    with pytest.raises(TypeError, match=words):
        Types.DATACLASS(cls)


def test_dataclass_that_is_not_frozen_is_no_key():
    with pytest.raises(InvalidKey, match=r"cannot be a key type: declare the class with @dataclass\(frozen"):
        Types.DATACLASS(Address).java_hash(Address("Main", 1))


def test_frozen_dataclass_is_a_key_like_the_tuple_of_its_fields():
    hash_of = Types.DATACLASS(Point).java_hash
    assert hash_of(Point(1, 2)) == Types.TUPLE([Types.LONG(), Types.LONG()]).java_hash((1, 2))
    with pytest.raises(InvalidKey, match="does not fit the key type"):
        hash_of((1, 2))
