"""Keys of all types for property tests, with the type that a stream declares for them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from onceproof.engine import Row, Types

DATES = st.dates(date(1969, 12, 30), date(1970, 1, 2))
TIMES = st.sampled_from([time(1, 2), time(1, 2, microsecond=5), time(23, 59)])
TIMESTAMPS = st.sampled_from([datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999000)])
ZONED = st.sampled_from(
    [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))]
)
DECIMALS = st.sampled_from([Decimal("1"), Decimal("1.0"), Decimal("-0.5"), Decimal("-0.50"), Decimal("1E+2")])
FLOATS = st.sampled_from([0.0, -0.0, 1.0, 1.5, float("nan"), float("inf")])
NUMBERS = st.sampled_from([0, 1, -1, 1 << 40, True, False])
TEXTS = st.sampled_from(["", "a", "1", "ä"])
SCALARS = st.one_of(
    NUMBERS, FLOATS, TEXTS, DATES, TIMES, TIMESTAMPS, ZONED, DECIMALS, st.none(), st.just(b"a")
)
UNDECLARED = st.one_of(
    SCALARS,
    st.tuples(SCALARS, SCALARS),
    st.builds(Row, SCALARS, SCALARS),
    st.builds(Row, a=SCALARS),
    st.tuples(st.tuples(FLOATS), TEXTS),
)
REFUSED = st.sampled_from([[1], {1: 2}, {1}, bytearray(b"a"), 1j, object])
DECLARED = [
    (Types.STRING(), TEXTS),
    (Types.BOOLEAN(), st.booleans()),
    (Types.LONG(), st.integers(-2, 2)),
    (Types.INT(), st.integers(-(1 << 31), (1 << 31) - 1)),
    (Types.DOUBLE(), FLOATS),
    (Types.BIG_INT(), st.integers(-(1 << 70), 1 << 70)),
    (Types.BIG_DEC(), DECIMALS),
    (Types.SQL_DATE(), DATES),
    (Types.SQL_TIME(), TIMES),
    (Types.SQL_TIMESTAMP(), TIMESTAMPS),
    (Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.SQL_DATE()]), st.tuples(TEXTS, FLOATS, DATES)),
    (Types.TUPLE([Types.STRING(), Types.LONG()]), st.tuples(st.none() | TEXTS, st.integers(0, 1))),
    (
        Types.ROW([Types.STRING(), Types.BIG_DEC()]),
        st.builds(Row, st.none() | TEXTS, st.none() | DECIMALS),
    ),
]
KEYS_AND_TYPES = st.one_of(
    st.tuples(st.lists(UNDECLARED, min_size=1, max_size=12), st.none()),
    st.tuples(st.lists(UNDECLARED | REFUSED, min_size=1, max_size=12), st.none()),
    *[
        st.tuples(st.lists(st.none() | keys, min_size=1, max_size=12), st.just(key_type))
        for key_type, keys in DECLARED
    ],
    st.tuples(st.lists(UNDECLARED, min_size=1, max_size=4), st.sampled_from([each for each, _ in DECLARED])),
)


def shown(key: Any) -> str:
    """Return a text that tells keys apart as Flink does."""
    return f"{type(key).__name__} {key!r}"
