"""What values look like when they are printed as they are, by the type that is declared for them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from onceproof.engine import Row, StreamExecutionEnvironment, Types

PARALLELISMS = (1,)
IN_ORDER = False
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
VALUES: list[tuple[Any, Any]] = [
    (Types.LONG(), 2**62),
    (Types.INT(), -7),
    (Types.BOOLEAN(), True),
    (Types.DOUBLE(), 0.1),
    (Types.DOUBLE(), 1e300),
    (Types.DOUBLE(), 1e7),
    (Types.DOUBLE(), 9999999.0),
    (Types.DOUBLE(), 0.001),
    (Types.DOUBLE(), 0.00099),
    (Types.DOUBLE(), -0.0),
    (Types.DOUBLE(), float("inf")),
    (Types.DOUBLE(), float("nan")),
    (Types.DOUBLE(), 2e-3),
    (Types.DOUBLE(), 123456789012.5),
    (Types.FLOAT(), 0.1),
    (Types.FLOAT(), 1e10),
    (Types.STRING(), "it's"),
    (Types.BIG_DEC(), Decimal("1.50")),
    (Types.BIG_DEC(), Decimal("1E+3")),
    (PAIR, ("a", 1)),
    (Types.TUPLE([PAIR, Types.BOOLEAN()]), (("a", 1), False)),
    (Types.TUPLE([Types.STRING()]), ("alone",)),
    (Types.ROW([Types.STRING(), Types.LONG()]), Row("a", 1)),
    (Types.ROW([Types.STRING(), Types.LONG()]), Row(None, 1)),
    (Types.ROW_NAMED(["name", "value"], [Types.STRING(), Types.DOUBLE()]), Row(name="a", value=5.0)),
    (Types.ROW([PAIR, Types.LIST(Types.STRING())]), Row(("a", 1), ["x", "y"])),
    (Types.LIST(Types.DOUBLE()), [1.0, 2.5]),
    (Types.LIST(PAIR), [("a", 1), ("b", 2)]),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}),
    (Types.SQL_DATE(), datetime.date(2024, 2, 29)),
    (Types.SQL_TIME(), datetime.time(1, 2, 3)),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 29, 1, 2, 3, 4000)),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 29, 1, 2, 3)),
    (Types.PICKLED_BYTE_ARRAY(), ("a", 1, None, True)),
    (Types.BYTE(), -3),
    (Types.SHORT(), 300),
]


def build(env: StreamExecutionEnvironment) -> None:
    """Print each value by itself, with its place before it."""
    for place, (value_type, value) in enumerate(VALUES):
        one = env.from_collection([place], Types.LONG())
        one.map(lambda _, value=value: value, value_type).print(f"value {place:02}")
