"""Values have the JSON form of the vectors, and back."""

from decimal import Decimal

import pytest

from onceproof.engine.table.types import parse_type
from onceproof.engine.table.values import decoder, encoder, identity, to_decimal, wrap
from onceproof.engine.types import Types


@pytest.mark.parametrize(
    ("kind", "form", "value"),
    [
        ("BOOLEAN", True, True),
        ("FLOAT", 0.1, 0.10000000149011612),
        ("DOUBLE", "-Infinity", float("-inf")),
        ("DECIMAL(10, 2)", "1.50", Decimal("1.50")),
        ("BYTES", "00ff", b"\x00\xff"),
        ("DATE", "1969-12-31", -1),
        ("TIME(3)", "00:00:01.500", 1500),
        ("TIMESTAMP(3)", "1969-12-31T23:59:59.999", -1_000_000),
        ("TIMESTAMP(9)", "9999-12-31T23:59:59.999999999", 253402300799999999999),
        ("TIMESTAMP(0)", "0001-01-01T00:00:00", -62135596800 * 10**9),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-01-01T00:00:00.000Z", 1704067200 * 10**9),
        ("ARRAY<INT>", [1, None], (1, None)),
        ("MAP<STRING, INT>", [["a", 1], ["b", None]], (("a", 1), ("b", None))),
        ("ROW<`a` INT, `b` ROW<`c` DATE>>", [1, ["1970-01-02"]], (1, (1,))),
    ],
)
def test_value_is_decoded_and_encoded(kind, form, value):
    parsed = parse_type(kind)
    assert decoder(parsed)(form) == value
    assert encoder(parsed)(value) == form
    assert Types.DYNAMIC().decode(Types.DYNAMIC().encode(value)) == value


def test_null_is_none_in_every_type():
    assert decoder(parse_type("DECIMAL(10, 2)"))(None) is None
    assert encoder(parse_type("TIMESTAMP(3)"))(None) is None


def test_integers_wrap_and_decimals_round_half_up_or_become_null():
    assert wrap(2147483648, 32) == -2147483648
    assert to_decimal(Decimal("-2.345"), 5, 2) == Decimal("-2.35")
    assert to_decimal(Decimal("999.995"), 5, 2) is None


def test_identity_of_a_row_tells_floats_apart():
    nan = float("nan")
    assert identity((nan, 1)) == identity((float("nan"), 1))
    assert identity((0.0,)) != identity((-0.0,))
