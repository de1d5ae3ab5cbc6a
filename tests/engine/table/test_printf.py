"""PRINTF as Flink 2.3 writes it, with java.util.Formatter."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from onceproof.engine.table.expressions.printf import IllegalFormat, java_format
from onceproof.engine.table.types import parse_type
from onceproof.engine.table.values import timestamp_of, to_float32


@pytest.mark.parametrize(
    ("form", "kind", "value", "text"),
    [
        ("%05d", "INT", -7, "-0007"),
        ("%,d", "INT", 42000, "42,000"),
        ("%x", "INT", -7, "fffffff9"),
        ("%x", "SMALLINT", -5, "fffb"),
        ("%#x %#<o", "INT", 12, "0xc 014"),
        ("%.2f", "DOUBLE", 2.345, "2.35"),
        ("%g", "DOUBLE", 123456.789, "123457."),
        ("%g", "DOUBLE", 1e10, "1.00000e+10"),
        ("%g", "DOUBLE", 0.0, "0.00000"),
        ("%.2g", "DOUBLE", -0.5, "-0.50"),
        ("%a", "DOUBLE", 1.5, "0x1.8p0"),
        ("%a", "DOUBLE", 0.0, "0x0.0p0"),
        ("%s", "DECIMAL(20, 8)", Decimal("0E-8"), "0.00000000"),
        ("%s", "FLOAT", to_float32(-0.1), "-0.1"),
        ("%.2f", "DOUBLE", None, "nu"),
        ("%H", "VARCHAR(9)", "a", "58877852"),
        ("%h", "BIGINT", -42, "29"),
        ("%h", "BOOLEAN", True, "4cf"),
        ("%s", "TIMESTAMP(3)", timestamp_of("2024-12-30 08:00:00.5"), "2024-12-30T08:00:00.500"),
        ("%s", "TIMESTAMP(3)", timestamp_of("2023-01-01"), "2023-01-01T00:00"),
    ],
)
def test_values_are_written_as_the_formatter_of_java_does(
    form: str, kind: str, value: Any, text: str
) -> None:
    assert java_format(form, [value], [parse_type(kind)]) == text.removesuffix(".")


@pytest.mark.parametrize(
    "form", ["%-d", "%-05d", "%+ d", "%.2d", "%D", "%,x", "%+s", "%q", "%f", "%2$d", "%"]
)
def test_a_format_that_java_refuses_for_an_integer_is_refused(form: str) -> None:
    with pytest.raises(IllegalFormat):
        java_format(form, [7], [parse_type("INT")])


def test_a_bigint_is_no_character() -> None:
    assert java_format("%c", [65], [parse_type("INT")]) == "A"
    with pytest.raises(IllegalFormat):
        java_format("%c", [65], [parse_type("BIGINT")])
