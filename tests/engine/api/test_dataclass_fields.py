"""Keys and aggregations of dataclasses and named rows, by name and by index."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from onceproof.engine import Row, StreamExecutionEnvironment, Types
from onceproof.engine.graph import InvalidJob
from onceproof.engine.runtime.job_result import JobExecutionFailed


@dataclass
class Sale:
    shop: str
    cents: int
    till: int = 1


@dataclass(frozen=True, slots=True)
class FrozenSale:
    shop: str
    cents: int
    till: int = 1

    def __post_init__(self) -> None:
        assert self.cents < 8, "an aggregation makes no new object by calling the class"


@dataclass
class Place:
    shop: str


@dataclass(frozen=True)
class FrozenPlace:
    shop: str


@dataclass(frozen=True)
class Listing:
    shops: list[str] = field(default_factory=list)


ROW = Types.ROW_NAMED(["shop", "cents", "till"], [Types.STRING(), Types.LONG(), Types.LONG()])
SALES = [("a", 3, 1), ("b", 4, 2), ("a", 5, 3), ("a", 2, 4)]


def stream_of(kind, declared: bool = True, parallelism: int = 2):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    if kind is Row:
        return env.from_collection([Row(*each) for each in SALES], ROW)
    return env.from_collection([kind(*each) for each in SALES], Types.DATACLASS(kind) if declared else None)


def fields(value):
    return tuple(value) if isinstance(value, Row) else (value.shop, value.cents, value.till)


def results(stream):
    """Return the results of shop a in their order, as tuples."""
    return [row for row in map(fields, stream.execute_and_collect()) if row[0] == "a"]


KINDS = pytest.mark.parametrize("kind", [Sale, FrozenSale, Row])
POSITIONS = pytest.mark.parametrize("position", ["cents", 1])


@KINDS
@POSITIONS
def test_fields_are_summed_by_name_and_by_index(kind, position):
    keyed = stream_of(kind).key_by(lambda sale: sale.shop)
    assert results(keyed.sum(position)) == [("a", 3, 1), ("a", 8, 1), ("a", 10, 1)]


@KINDS
@POSITIONS
def test_extremes_keep_the_first_element_or_the_whole_one(kind, position):
    def of(aggregated):
        return results(getattr(stream_of(kind).key_by(lambda sale: sale.shop), aggregated)(position))

    assert of("max") == [("a", 3, 1), ("a", 5, 1), ("a", 5, 1)]
    assert of("min_by") == [("a", 3, 1), ("a", 3, 1), ("a", 2, 4)]
    assert of("max_by") == [("a", 3, 1), ("a", 5, 3), ("a", 5, 3)]


def test_windows_sum_fields_of_dataclasses_without_a_declared_type():
    windowed = stream_of(Sale, declared=False).key_by(lambda sale: sale.shop).count_window(3)
    assert results(windowed.sum("cents")) == [("a", 10, 1)]


@pytest.mark.parametrize("key", ["shop", 0])
@KINDS
def test_older_key_names_a_field_of_a_dataclass(kind, key):
    with pytest.warns(DeprecationWarning, match="of the field of a dataclass"):
        keyed = stream_of(kind).key_by(key)
    assert results(keyed.max_by("cents"))[-1] == ("a", 5, 3)


@pytest.mark.parametrize("kind", [Sale, Row])
@pytest.mark.parametrize("position", ["euros", 3, -1])
def test_field_that_the_declared_type_lacks_is_refused_at_once(kind, position):
    with pytest.raises(InvalidJob, match=r"has no field .*its fields are shop, cents, till"):
        stream_of(kind).key_by(lambda sale: sale.shop).sum(position)


def test_field_that_an_undeclared_dataclass_lacks_ends_the_job_with_its_fields():
    summed = stream_of(Sale, declared=False).key_by(lambda sale: sale.shop).sum("euros")
    with pytest.raises(JobExecutionFailed, match="Sale has no field 'euros': its fields are shop, cents"):
        results(summed)


def test_frozen_dataclass_is_a_key():
    keyed = stream_of(Sale).key_by(lambda sale: FrozenPlace(sale.shop), Types.DATACLASS(FrozenPlace))
    assert results(keyed.sum("cents"))[-1] == ("a", 10, 1)


def test_frozen_dataclass_without_a_declared_key_type_is_refused_with_the_mend():
    keyed = stream_of(Sale).key_by(lambda sale: FrozenPlace(sale.shop))
    with pytest.raises(JobExecutionFailed, match=r"declare the type of the key: Types.DATACLASS\(Fro"):
        results(keyed.sum("cents"))


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    ("make", "mend"),
    [
        (Place, r"of type Place cannot be a key: declare its class with @dataclass\(frozen=True\)"),
        (lambda shop: [shop], "of type list cannot be a key: it may change: give a tuple"),
        (lambda shop: Listing([shop]), r"declare the type of the key: Types.DATACLASS\(Listing\)"),
    ],
    ids=["dataclass", "list", "frozen dataclass with a list"],
)
def test_key_that_may_change_is_named_with_the_mend(make, mend, parallelism):
    keyed = stream_of(Sale, parallelism=parallelism).key_by(lambda sale: make(sale.shop))
    with pytest.raises(JobExecutionFailed, match=mend) as caught:
        results(keyed.sum("cents"))
    assert "\n" not in str(caught.value)


def test_unhashable_value_in_user_code_is_no_key_of_the_engine():
    def broken(sale):
        return {sale: 1}

    with pytest.raises(JobExecutionFailed, match="unhashable type: 'Sale'") as caught:
        list(stream_of(Sale).map(broken).execute_and_collect())
    assert "frozen" not in str(caught.value)
