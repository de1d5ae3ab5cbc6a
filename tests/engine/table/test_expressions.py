"""Functions of SQL where the vectors do not reach; the expected values are those of Flink 2.3 on Java 17."""

from __future__ import annotations

import json
import math

import pytest

from onceproof.engine.table.expressions.bitmaps import from_bytes, to_bytes
from onceproof.engine.table.expressions.calendar import session_zone
from onceproof.engine.table.expressions.comparisons import order_key
from onceproof.engine.table.expressions.date_patterns import format_new, format_old, parse_new, parse_old
from onceproof.engine.table.expressions.java_floats import double_text, float_text
from onceproof.engine.table.expressions.java_regex import InvalidPattern, java_pattern
from onceproof.engine.table.expressions.java_strings import from_units, units
from onceproof.engine.table.expressions.json_path import JsonError, json_path, parse_json, print_json
from onceproof.engine.table.expressions.registry import load_functions
from onceproof.engine.table.expressions.text_casts import CastFailed, decimal_of, integer_of_text
from onceproof.engine.table.types import parse_type
from onceproof.engine.table.values import timestamp_of, to_float32
from tests.conformance.record_functions import TABLE, made


def test_published_functions_are_those_of_the_registry() -> None:
    published = json.loads(TABLE.read_text(encoding="utf-8"))
    assert published == made(set(published)), "run python -m tests.conformance.record_functions"
    assert {name[1:-2] for name in load_functions()} <= set(published)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e7, "1.0E7"),
        (123456.789, "123456.789"),
        (0.001, "0.001"),
        (-2.5e-5, "-2.5E-5"),
        (-0.0, "-0.0"),
        (math.nan, "NaN"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert double_text(value) == text


def test_a_float_has_the_digits_of_its_own_precision() -> None:
    assert float_text(to_float32(123456.789)) == "123456.79"


def test_text_beyond_the_first_plane_has_two_units() -> None:
    assert len(units("a😀")) == 3
    assert from_units(units("a😀")) == "a😀"
    assert from_units(units("a😀")[:2]) == "a?"


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"[a-z&&[^o]]+", "oxo", "x"),
        (r"[a[0-9]]+", "-a1-", "a1"),
        (r"(?i)FOO(?-i)b", "xfoob", "foob"),
        (r"(?<n>a)\k<n>", "caa", "aa"),
        (r"\p{Punct}\w", "a.b", ".b"),
        (r"\Qa.b\E", "axb a.b", "a.b"),
        (r"a.b", "a\rb", None),
        (r"(?s)a.b", "a\rb", "a\rb"),
        (r"\w+", "é", None),
    ],
)
def test_patterns_of_java_find_what_java_finds(pattern: str, text: str, found: str | None) -> None:
    match = java_pattern(pattern).search(text)
    assert (None if match is None else match[0]) == found


@pytest.mark.parametrize("pattern", ["[", "(", ")", r"\y"])
def test_what_is_no_pattern_of_java_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        java_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("EEEE, d. MMM yy", "Thursday, 29. Feb 24"),
        ("h:mm a 'o''clock'", "3:04 PM o'clock"),
        ("D Q w SSSSSS", "60 1 9 067000"),
    ],
)
def test_timestamps_are_formatted_with_patterns_of_java_time(pattern: str, text: str) -> None:
    assert format_new(timestamp_of("2024-02-29 15:04:05.067"), pattern) == text


def test_a_moment_is_formatted_in_the_zone_of_the_session() -> None:
    zone = session_zone("Europe/Berlin")
    assert format_old(1_711_846_800_000, "yyyy-MM-dd HH:mm Z XXX", zone) == "2024-03-31 03:00 +0200 +02:00"


def test_only_the_old_parser_lets_values_run_on() -> None:
    zone = session_zone("UTC")
    assert parse_new("2024-13-01", "yyyy-MM-dd") is None
    assert parse_new("2023-02-29", "yyyy-MM-dd") == timestamp_of("2023-02-28")
    assert parse_old("2024-13-01 rest", "yyyy-MM-dd", zone) == timestamp_of("2025-01-01") // 1_000_000


def test_a_reading_in_a_gap_moves_on_and_a_double_one_is_the_first() -> None:
    zone = session_zone("Europe/Berlin")
    assert zone.to_utc(timestamp_of("2024-03-31 02:30:00")) == timestamp_of("2024-03-31 01:30:00")
    assert zone.to_utc(timestamp_of("2024-10-27 02:30:00")) == timestamp_of("2024-10-27 00:30:00")


@pytest.mark.parametrize(
    ("text", "number"),
    [("1.5x", "1.50"), (".", "0.00"), ("1e", "1.00"), ("-.5", "-0.50"), (" 12.345 ", "12.35")],
)
def test_short_texts_are_read_as_decimals_leniently(text: str, number: str) -> None:
    assert str(decimal_of(text, 5, 2)) == number


@pytest.mark.parametrize("text", ["", "abc", "1.5x", "300", "-"])
def test_texts_that_are_no_tinyint_fail_the_cast(text: str) -> None:
    with pytest.raises(CastFailed):
        integer_of_text(text, "TINYINT")


DOCUMENT = '{"b":[{"x":1},{"x":2.50},3],"a":{"k":null}}'


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.b[1].x", "2.50"),
        ("$.b[-1]", "3"),
        ("$.b[*].x", "[1,2.50]"),
        ("$..x", "[1,2.50]"),
        ("$.b[?(@.x > 1)]", '[{"x":2.50}]'),
        ("$['a']['k']", "null"),
        ("$.b[0:2]", '[{"x":1},{"x":2.50}]'),
        ("$.b.length()", "3"),
        ("$", '{"a":{"k":null},"b":[{"x":1},{"x":2.50},3]}'),
    ],
)
def test_json_paths_find_values(path: str, found: str) -> None:
    assert print_json(json_path(path).read(parse_json(DOCUMENT))) == found


@pytest.mark.parametrize("path", ["$.q", "$.b[9]", "$.a[0,1]", "$.q[*]", "$.b["])
def test_json_paths_that_lead_nowhere_are_errors(path: str) -> None:
    with pytest.raises(JsonError):
        json_path(path).read(parse_json(DOCUMENT))


@pytest.mark.parametrize("values", [(), (1, 5, 70000, -1), tuple(range(5000))])
def test_a_bitmap_is_the_same_after_its_bytes(values: tuple[int, ...]) -> None:
    assert from_bytes(to_bytes(values)) == values


def test_boxed_floats_are_ordered_with_nan_last_and_minus_zero_first() -> None:
    key = order_key(parse_type("DOUBLE"))
    assert key is not None
    values = [math.nan, 0.0, math.inf, -0.0, -math.inf]
    assert [str(each) for each in sorted(values, key=key)] == ["-inf", "-0.0", "0.0", "inf", "nan"]
