"""Expressions over columns, under PyFlink's names (pyflink.table.expression, pyflink.table.expressions).

Every method, property and function records a call (``recorded.py``); what they mean is PyFlink's to say.
The tables of names are those of PyFlink 2.3.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from onceproof.engine.table.api.recorded import Recorded

PROPERTIES: Final = frozenset(
    """exp log10 log2 ln cosh sinh sin cos tan cot asin acos atan tanh degrees radians sqrt abs sign is_null
    is_not_null is_true is_false is_not_true is_not_false distinct sum sum0 min max count avg first_value
    last_value stddev_pop stddev_samp var_pop var_samp collect array_agg asc desc start end bin hex unhex
    char_length upper_case lower_case init_cap from_base64 to_base64 ascii chr reverse to_date to_time
    to_timestamp flatten cardinality element map_keys map_values map_entries rowtime proctime year years
    quarter quarters month months week weeks day days hour hours minute minutes second seconds milli millis
    md5 sha1 sha224 sha256 sha384 sha512""".split()  # noqa: SIM905
)
METHODS: Final = frozenset(
    """log round concat between not_between then if_null list_agg alias as_argument cast try_cast in_ truncate
    percentile starts_with ends_with substring substr trim_leading trim_trailing trim replace translate like
    similar position lpad rpad overlay regexp regexp_count regexp_replace regexp_extract regexp_extract_all
    regexp_instr regexp_substr decode encode left right instr locate url_decode url_encode inet_aton inet_ntoa
    parse_url printf ltrim rtrim btrim repeat over split_index str_to_map elt extract floor ceil get at
    array_append array_contains array_distinct array_position array_prepend array_remove array_reverse
    array_slice array_sort array_union array_concat array_max array_join array_min array_except
    array_intersect split map_union sha2 is_json json_exists json_value json_query json_quote json_unquote
    object_update bitmap_and bitmap_andnot bitmap_and_agg bitmap_and_cardinality_agg bitmap_build
    bitmap_build_agg bitmap_build_cardinality_agg bitmap_cardinality bitmap_from_bytes bitmap_or bitmap_or_agg
    bitmap_or_cardinality_agg bitmap_to_array bitmap_to_bytes bitmap_to_string bitmap_xor bitmap_xor_agg
    bitmap_xor_cardinality_agg""".split()  # noqa: SIM905
)
FUNCTIONS: Final = (  # noqa: SIM905
    """lit range_ and_ or_ not_ current_database current_date current_time current_timestamp
    current_watermark local_time local_timestamp to_date to_timestamp to_timestamp_ltz temporal_overlaps
    date_format timestamp_diff convert_tz from_unixtime unix_timestamp array row map_ map_from_arrays
    descriptor row_interval pi e rand rand_integer atan2 negative concat concat_ws uuid null_of log
    source_watermark if_then_else coalesce with_all_columns with_columns without_columns json json_string
    json_object json_object_agg json_array json_array_agg lag lead call_sql"""
).split()
CONSTANTS: Final = ("UNBOUNDED_ROW", "UNBOUNDED_RANGE", "CURRENT_ROW", "CURRENT_RANGE")


class Expression(Recorded):
    """A tree of calls over columns (PyFlink: Expression)."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'Expression' object has no attribute {name!r}")
        if name in PROPERTIES:
            return Expression({"on": self, "property": name})
        if name in METHODS:
            return lambda *arguments, **named: Expression({"on": self, "name": name}, arguments, named)
        # As in PyFlink, any other name is a field of a composite value.
        return Expression({"on": self, "name": "get"}, (name,))

    def __getitem__(self, index: Any) -> Expression:
        return Expression({"on": self, "name": "at"}, (index,))

    def __iter__(self) -> Any:
        raise TypeError("an expression is not a list")

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: combine conditions by &, | and ~")

    __hash__ = Recorded.__hash__

    def _operator(self, name: str, *arguments: Any) -> Expression:
        return Expression({"operator": name}, arguments)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._operator("eq", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._operator("ne", self, other)

    def __lt__(self, other: Any) -> Expression:
        return self._operator("lt", self, other)

    def __le__(self, other: Any) -> Expression:
        return self._operator("le", self, other)

    def __gt__(self, other: Any) -> Expression:
        return self._operator("gt", self, other)

    def __ge__(self, other: Any) -> Expression:
        return self._operator("ge", self, other)

    def __and__(self, other: Any) -> Expression:
        return self._operator("and_", self, other)

    def __or__(self, other: Any) -> Expression:
        return self._operator("or_", self, other)

    def __rand__(self, other: Any) -> Expression:
        return self._operator("and_", other, self)

    def __ror__(self, other: Any) -> Expression:
        return self._operator("or_", other, self)

    def __invert__(self) -> Expression:
        return self._operator("invert", self)

    def __neg__(self) -> Expression:
        return self._operator("neg", self)

    def __abs__(self) -> Expression:
        return self._operator("abs", self)

    def __add__(self, other: Any) -> Expression:
        return self._operator("add", self, other)

    def __radd__(self, other: Any) -> Expression:
        return self._operator("add", other, self)

    def __sub__(self, other: Any) -> Expression:
        return self._operator("sub", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return self._operator("sub", other, self)

    def __mul__(self, other: Any) -> Expression:
        return self._operator("mul", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return self._operator("mul", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return self._operator("truediv", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return self._operator("truediv", other, self)

    def __mod__(self, other: Any) -> Expression:
        return self._operator("mod", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return self._operator("mod", other, self)

    def __pow__(self, other: Any) -> Expression:
        return self._operator("pow", self, other)

    def __rpow__(self, other: Any) -> Expression:
        return self._operator("pow", other, self)


def col(name: str) -> Expression:
    """Return the column of a name."""
    return Expression({"function": "col"}, (name,))


def call(function: Any, *arguments: Any) -> Expression:
    """Return a call of a registered function by its path, or of a function of the program."""
    if isinstance(function, str):
        return Expression({"function": "call"}, (function, *arguments))
    found: Expression = function(*arguments)
    return found


def _function(name: str) -> Callable[..., Expression]:
    def record(*arguments: Any, **named: Any) -> Expression:
        return Expression({"function": name}, arguments, named)

    record.__name__ = record.__qualname__ = name
    record.__doc__ = f"Record a call of PyFlink's ``{name}``."
    return record


NAMES: Final[dict[str, Any]] = {
    "col": col,
    "call": call,
    **{name: _function(name) for name in FUNCTIONS},
    **{name: Expression({"constant": name}) for name in CONSTANTS},
}
"""All names of pyflink.table.expressions."""


def _enum(name: str, members: str) -> type[Enum]:
    return Enum(name, members)  # type: ignore[return-value]


TimeIntervalUnit = _enum(
    "TimeIntervalUnit",
    "YEAR YEAR_TO_MONTH QUARTER MONTH WEEK DAY DAY_TO_HOUR DAY_TO_MINUTE DAY_TO_SECOND HOUR SECOND"
    " HOUR_TO_MINUTE HOUR_TO_SECOND MINUTE MINUTE_TO_SECOND",
)
TimePointUnit = _enum(
    "TimePointUnit", "YEAR MONTH DAY HOUR MINUTE SECOND QUARTER WEEK MILLISECOND MICROSECOND"
)
JsonType = _enum("JsonType", "VALUE SCALAR ARRAY OBJECT")
JsonExistsOnError = _enum("JsonExistsOnError", "TRUE FALSE UNKNOWN ERROR")
JsonValueOnEmptyOrError = _enum("JsonValueOnEmptyOrError", "NULL ERROR DEFAULT")
JsonQueryWrapper = _enum("JsonQueryWrapper", "WITHOUT_ARRAY CONDITIONAL_ARRAY UNCONDITIONAL_ARRAY")
JsonQueryOnEmptyOrError = _enum("JsonQueryOnEmptyOrError", "NULL EMPTY_ARRAY EMPTY_OBJECT ERROR")
JsonOnNull = _enum("JsonOnNull", "NULL ABSENT")
