"""Functions at the edges of their types, as Flink 2.3 answers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from onceproof.engine.table.expressions.registry import FunctionFailed, Scope, load_functions
from onceproof.engine.table.expressions.rex import Call, InputRef, Symbol
from onceproof.engine.table.types import parse_type
from onceproof.engine.table.values import timestamp_of

LONGEST = Decimal("99999999999999999999999999999999999999")


def value_of(name: str, result: str, *operands: tuple[Any, str], zone: str = "UTC") -> Any:
    """Return what a function gives for operands, each a value and its type."""
    inputs = tuple([InputRef(at, parse_type(kind)) for at, (_, kind) in enumerate(operands)])
    scope = Scope({"table.local-time-zone": zone}, None, {})  # type: ignore[arg-type]
    evaluates = [lambda row, at=at: row[at] for at in range(len(operands))]
    evaluate = load_functions()[name](Call(name, inputs, parse_type(result)), evaluates, scope)
    return evaluate(tuple([value for value, _ in operands]))


def test_the_sign_of_a_decimal_changes_without_a_loss_of_digits() -> None:
    assert value_of("$ABS$1", "DECIMAL(38, 0)", (LONGEST.copy_negate(), "DECIMAL(38, 0)")) == LONGEST
    assert value_of("$-/1$1", "DECIMAL(38, 0)", (LONGEST, "DECIMAL(38, 0)")) == LONGEST.copy_negate()


@pytest.mark.parametrize(("value", "rest"), [(LONGEST, 0), (Decimal("12345678901234567890"), -1)])
def test_a_remainder_by_an_integer_is_that_of_the_lower_64_bits(value: Decimal, rest: int) -> None:
    assert value_of("$%$1", "INT", (value, "DECIMAL(38, 0)"), (7, "INT")) == rest


def test_a_remainder_whose_quotient_is_longer_than_38_digits_fails() -> None:
    operands = ((LONGEST, "DECIMAL(38, 0)"), (Decimal("0.00100"), "DECIMAL(20, 5)"))
    with pytest.raises(FunctionFailed, match="Division impossible"):
        value_of("$MOD$1", "DECIMAL(20, 5)", *operands)


@pytest.mark.parametrize(("digits", "text"), [(-5, "0"), (0, "12"), (1, "12.3"), (7, "12.345")])
def test_a_decimal_rounded_to_digits_of_a_column_has_so_many(digits: int, text: str) -> None:
    operands = ((Decimal("12.345"), "DECIMAL(10, 3)"), (digits, "INT"))
    assert str(value_of("$ROUND$1", "DECIMAL(10, 3)", *operands)) == text


@pytest.mark.parametrize(
    ("value", "kind", "precision", "moment"),
    [
        (-1e-7, "DOUBLE", 0, -100),
        (1e10, "DOUBLE", 0, (1 << 63) - 1),
        (1e12, "DOUBLE", 0, None),
        (1_500_000, "BIGINT", 6, 1_500_000_000),
        (Decimal("-1.9"), "DECIMAL(3, 1)", 3, -1_000_000),
        (253_402_300_800, "BIGINT", 0, None),
    ],
)
def test_a_moment_is_made_of_any_unit_down_to_nanoseconds(
    value: Any, kind: str, precision: int, moment: int | None
) -> None:
    operands = ((value, kind), (precision, "INT"))
    assert value_of("$TO_TIMESTAMP_LTZ$1", "TIMESTAMP_LTZ(9)", *operands) == moment


def test_a_timestamp_is_compared_with_a_moment_in_the_zone_of_the_session() -> None:
    reading = (timestamp_of("2024-01-01 01:00:00"), "TIMESTAMP(3)")
    moment = (timestamp_of("2024-01-01 00:00:00"), "TIMESTAMP_LTZ(6)")
    assert value_of("$=$1", "BOOLEAN", reading, moment, zone="Europe/Berlin")
    assert not value_of("$>$1", "BOOLEAN", moment, reading, zone="Europe/Berlin")


def test_a_text_is_compared_with_a_date_as_the_date_that_it_is() -> None:
    day, text = (19_782, "DATE"), ("2024-02-29", "CHAR(10)")
    assert value_of("$=$1", "BOOLEAN", day, text)
    assert not value_of("$<>$1", "BOOLEAN", text, day)


def test_milliseconds_of_an_interval_are_those_of_its_second() -> None:
    unit, interval = Symbol("TIME_UNIT", "MILLISECOND"), parse_type("INTERVAL DAY TO SECOND(3)")
    call = Call("$EXTRACT$1", (unit, InputRef(0, interval)), parse_type("BIGINT"))
    evaluates = [lambda row: "MILLISECOND", lambda row: row[0]]
    scope = Scope({}, None, {})  # type: ignore[arg-type]
    assert load_functions()["$EXTRACT$1"](call, evaluates, scope)((-61_123,)) == -123


@pytest.mark.parametrize(
    ("kind", "text"), [("TIME", "00:00:00"), ("TIME(1)", "23:59:59.1"), ("TIME(3)", "23:59:59.001")]
)
def test_the_time_of_a_moment_before_1970_is_cut_toward_zero(kind: str, text: str) -> None:
    time = value_of("$CAST$1", kind, (-999_000_000, "TIMESTAMP(3)"))
    assert value_of("$CAST$1", "VARCHAR(20)", (time, kind)) == text


@pytest.mark.parametrize(
    ("name", "operands", "place"),
    [("INSTR", ("abc", "", 2, 1), 1), ("INSTR", ("abc", "", -2, 1), 4), ("LOCATE", ("", "abc", 100), 1)],
)
def test_nothing_is_found_at_the_begin_wherever_the_search_starts(
    name: str, operands: tuple[Any, ...], place: int
) -> None:
    typed = [(each, "INT" if isinstance(each, int) else "VARCHAR(9)") for each in operands]
    assert value_of(f"${name}$1", "INT", *typed) == place


def test_if_cuts_a_timestamp_to_the_type_of_its_first_value() -> None:
    operands = ((False, "BOOLEAN"), (0, "TIMESTAMP(0)"), (-999_000_000, "TIMESTAMP(3)"))
    assert value_of("$IF$1", "TIMESTAMP(0)", *operands) == 0


def test_json_has_the_digits_of_a_timestamp_that_are_not_zero() -> None:
    moment = (timestamp_of("2024-12-30 08:00:00.5"), "TIMESTAMP(6)")
    assert value_of("$JSON_STRING$1", "VARCHAR(99)", moment) == '"2024-12-30T08:00:00.5"'
    midnight = (timestamp_of("2024-12-30"), "TIMESTAMP_LTZ(3)")
    assert value_of("$JSON_STRING$1", "VARCHAR(99)", midnight) == '"2024-12-30T00:00:00Z"'


def test_json_value_fails_where_only_the_error_is_to_fail() -> None:
    words = [Symbol("JsonValueBehavior", word) for word in ("NULL", "EMPTY", "ERROR", "ERROR")]
    text, path = (InputRef(at, parse_type("VARCHAR(99)")) for at in (0, 1))
    call = Call("$JSON_VALUE$1", (text, path, *words), parse_type("VARCHAR(99)"))
    evaluates = [lambda row, at=at: row[at] if at < 2 else None for at in range(6)]
    scope = Scope({}, None, {})  # type: ignore[arg-type]
    evaluate = load_functions()["$JSON_VALUE$1"](call, evaluates, scope)
    assert evaluate(('{"a":1}', "lax $.b")) is None
    with pytest.raises(FunctionFailed):
        evaluate(('{"a":1}', "strict $.b"))


def test_a_map_of_arrays_keeps_a_key_that_occurs_twice() -> None:
    keys, values = ((1, 1), "ARRAY<INT>"), (("a", "b"), "ARRAY<VARCHAR(1)>")
    assert value_of("$MAP_FROM_ARRAYS$1", "MAP<INT, VARCHAR(1)>", keys, values) == ((1, "a"), (1, "b"))


def test_pairs_of_a_text_come_in_the_order_of_a_hash_map() -> None:
    pairs = value_of("$STR_TO_MAP$1", "MAP<VARCHAR(9), VARCHAR(9)>", ("z=1,y=2,x=3,abc", "VARCHAR(20)"))
    assert pairs == (("x", "3"), ("y", "2"), ("z", "1"), ("abc", None))
