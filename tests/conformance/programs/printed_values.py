"""What values of declared types look like when they are printed."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from onceproof.engine import Row, StreamExecutionEnvironment, Types

PARALLELISMS = (1,)
IN_ORDER = False
NAMED = Types.ROW_NAMED(["name", "tags"], [Types.STRING(), Types.LIST(Types.STRING())])
VALUES: list[tuple[Any, list[Any]]] = [
    (Types.LONG(), [1, -1, 2**62]),
    (Types.BOOLEAN(), [True, False]),
    (Types.DOUBLE(), [0.1, 1e300, -0.0, float("inf"), 5.0]),
    (Types.STRING(), ["", "two words", "ß"]),
    (Types.BIG_DEC(), [Decimal("1.50"), Decimal("-3")]),
    (Types.TUPLE([Types.STRING(), Types.LONG()]), [("a", 1)]),
    (Types.ROW([Types.STRING(), Types.LONG()]), [Row("a", 1), Row(None, 2)]),
    (NAMED, [Row(name="a", tags=["x", "y"]), Row(name="b", tags=[])]),
    (Types.MAP(Types.STRING(), Types.LONG()), [{"a": 1}, {}]),
    (Types.LIST(Types.LONG()), [[1, 2], []]),
    (Types.BASIC_ARRAY(Types.LONG()), [[1, 2]]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [[3, 4]]),
    (Types.SQL_DATE(), [datetime.date(2024, 2, 29)]),
    (Types.SQL_TIME(), [datetime.time(1, 2, 3)]),
    (Types.SQL_TIMESTAMP(), [datetime.datetime(2024, 2, 29, 1, 2, 3, 4000)]),
    (Types.PICKLED_BYTE_ARRAY(), [{1}, (1, "a"), [None]]),
]


def build(env: StreamExecutionEnvironment) -> None:
    """Print the values of each type, as they come from a map function that is declared to return it."""
    for place, (value_type, values) in enumerate(VALUES):
        places = env.from_collection(list(range(len(values))), Types.LONG())
        mapped = places.map(lambda index, values=values: values[index], value_type)
        mapped.map(lambda value, place=place: f"{place} {value!r}", Types.STRING()).print()
