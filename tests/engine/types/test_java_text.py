"""The texts of values in files and lines, in cases that the recorded programs do not cover."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from onceproof.engine.types import Row, TypeInformation, Types
from onceproof.engine.types.java_text import printed_text_of, text_of

PAIR = Types.TUPLE([Types.STRING(), Types.DOUBLE()])


@pytest.mark.parametrize(
    ("value_type", "value", "text"),
    [
        (PAIR, ("a", None), "(a,null)"),
        (Types.ROW([Types.STRING(), PAIR]), Row("a", ("b", 1e7)), "+I[a, (b,1.0E7)]"),
        (Types.TUPLE([Types.ROW([Types.BOOLEAN()])]), (Row(True),), "(+I[true])"),
        (Types.MAP(Types.STRING(), Types.BOOLEAN()), {"a": True, "b": None}, "{a=true, b=null}"),
        (Types.FLOAT(), 1 / 3, "0.33333334"),
        (Types.FLOAT(), -float("inf"), "-Infinity"),
        (Types.DOUBLE(), -1.25e-7, "-1.25E-7"),
        (Types.DOUBLE(), 1e22, "1.0E22"),
        (None, ("a", True), "('a', True)"),
    ],
)
def test_a_value_of_a_type_has_the_text_of_java(
    value_type: TypeInformation | None, value: Any, text: str
) -> None:
    assert text_of(value_type)(value) == text


def test_print_has_python_write_the_fields_of_a_row() -> None:
    assert printed_text_of(Types.ROW([PAIR]))(Row(("a", 1.0))) == "+I[('a', 1.0)]"


@pytest.mark.parametrize("value", [("a",), ["a", 1.0], "text", None, Decimal(1)])
def test_a_value_that_is_none_of_its_type_is_written_by_str(value: Any) -> None:
    assert text_of(PAIR)(value) == str(value)
    assert text_of(Types.LIST(PAIR))(("a", 1)) == "('a', 1)"
    assert printed_text_of(Types.ROW([PAIR]))(value) == str(value)
