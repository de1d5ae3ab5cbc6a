"""Functions of Flink that DuckDB has in another form.

Rules:

- Each has exactly the value that it has in Flink, or is Untranslatable.
- What decides the form, such as the pattern of a time, must be a constant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from sqlglot import exp

from onceproof.harness.scripts.sql.windows import Untranslatable

Arguments: TypeAlias = Sequence[exp.Expr]

_US_OF_DIGITS: Final = {"0": 1_000_000, "3": 1_000}
_FIELDS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_FIELD: Final = re.compile("|".join(_FIELDS))
_FLAT: Final = re.compile(r"(?:[^()|\\]|\([^()\\]*\)(?![?*{]))*")
"""A regular expression each of whose groups takes part in each match."""


def translated_function(name: str, arguments: Arguments) -> exp.Expr:
    """Return a call in the words of DuckDB. Raises Untranslatable."""
    try:
        return FUNCTIONS[name.upper()](*arguments)
    except TypeError:
        raise Untranslatable(f"the function {name} with {len(arguments)} arguments") from None


def _to_timestamp_ltz(number: exp.Expr, digits: exp.Expr | None = None) -> exp.Expr:
    """Return the time of a number of seconds or milliseconds."""
    precision = "3" if digits is None else digits.name
    if precision not in _US_OF_DIGITS:
        raise Untranslatable(f"TO_TIMESTAMP_LTZ with the precision {precision}")
    scale = exp.Literal.number(_US_OF_DIGITS[precision])
    return _call("make_timestamp", exp.Mul(this=exp.Paren(this=number), expression=scale))


def _date_format(time: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    """Return the text of a time whose fields have leading zeros."""
    form = _constant(pattern)
    if re.search("[A-Za-z%']", _FIELD.sub("", form)):
        raise Untranslatable(f"the form {form} of a time")
    form = _FIELD.sub(lambda field: _FIELDS[field[0]], form)
    return _call("strftime", time, exp.Literal.string(form))


def _split_index(text: exp.Expr, separator: exp.Expr, index: exp.Expr) -> exp.Expr:
    """Return a part of a text: NULL beyond the last one, and of an empty text."""
    if not _constant(separator) or not index.is_int or index.is_string:
        raise Untranslatable("SPLIT_INDEX with an index that is not constant")
    parts = _call("string_split", _call("nullif", text, exp.Literal.string("")), separator)
    return _call("list_extract", parts, exp.Literal.number(int(index.name) + 1))


def _regexp_extract(text: exp.Expr, pattern: exp.Expr, group: exp.Expr | None = None) -> exp.Expr:
    """Return a group of the first match: NULL where there is none."""
    if _FLAT.fullmatch(_constant(pattern)) is None or (group is not None and not group.is_int):
        raise Untranslatable(f"the regular expression {pattern.name}")
    found = _call("regexp_extract", text, pattern, group or exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=_call("regexp_matches", text.copy(), pattern.copy()), true=found)])


FUNCTIONS: Final[Mapping[str, Callable[..., exp.Expr]]] = {
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
    "DATE_FORMAT": _date_format,
    "SPLIT_INDEX": _split_index,
    "REGEXP_EXTRACT": _regexp_extract,
}


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _constant(node: exp.Expr) -> str:
    if not node.is_string:
        raise Untranslatable(f"{node.sql()[:40]!r} where a constant text is expected")
    return str(node.this)
