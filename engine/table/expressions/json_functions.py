"""The functions of JSON (Flink: SqlJsonUtils and the generators of its calls).

A path without ``lax`` or ``strict`` is strict: what it does not find is an error, which ON ERROR decides.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from onceproof.engine.table.expressions.java_floats import double_text
from onceproof.engine.table.expressions.java_strings import (
    time_text,
    timestamp_text,
    trim,
    units,
)
from onceproof.engine.table.expressions.json_path import (
    JsonError,
    json_path,
    parse_json,
    print_json,
    quoted,
    scalar_text,
)
from onceproof.engine.table.expressions.registry import Evaluate, FunctionFailed, Scope, builder, strict
from onceproof.engine.table.expressions.rex import Call, Symbol
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import INTEGERS, LogicalType
from onceproof.engine.table.values import Row, date_text

_FAILURE: Final = "org.apache.flink.table.api.TableRuntimeException"
_MODE: Final = re.compile(r"\s*(strict|lax)\s+(.+)", re.IGNORECASE | re.DOTALL)


def _found(text: str, path: str) -> tuple[bool, Any]:
    """Return whether the path is lax, and what it finds. Raises JsonError."""
    match = _MODE.fullmatch(path)
    lax = match is not None and match[1].lower() == "lax"
    compiled = json_path(match[2] if match else path)
    try:
        value = compiled.read(parse_json(text))
        if value is None and not lax:
            raise JsonError("Strict jsonpath mode requires a non empty returned value, but is null")
        return lax, value
    except JsonError:
        if lax:
            return True, None if compiled.definite else []
        raise


def _scalar(value: Any) -> bool:
    return not isinstance(value, (dict, list))


# ---- IS JSON


def _kind_test(name: str) -> Callable[[Any], bool]:
    return {
        "OBJECT": lambda value: isinstance(value, dict),
        "ARRAY": lambda value: isinstance(value, list),
        "SCALAR": _scalar,
    }.get(name, lambda value: True)


@builder(
    *[f"$IS {word}JSON {kind}$1" for word in ("", "NOT ") for kind in ("VALUE", "OBJECT", "ARRAY", "SCALAR")]
)
def _is_json(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """NULL is no JSON: the test is never NULL."""
    (operand,) = operands
    test = _kind_test(call.name.removesuffix("$1").rpartition(" ")[2])
    wanted = "NOT" not in call.name

    def evaluate(row: Row) -> bool:
        text = operand(row)
        if text is None:
            return not wanted
        try:
            return test(parse_json(text)) is wanted
        except JsonError:
            return not wanted

    return evaluate


# ---- access


@strict("$JSON_EXISTS$1")
def _json_exists(call: Call, scope: Scope) -> Callable[..., bool | None]:
    symbols = [operand.value for operand in call.operands if isinstance(operand, Symbol)]
    on_error = symbols[0] if symbols else "FALSE"

    def exists(text: str, path: str, *_: Any) -> bool | None:
        try:
            return _found(text, path)[1] is not None
        except JsonError as error:
            if on_error == "ERROR":
                raise FunctionFailed(str(error), _FAILURE) from None
            return {"TRUE": True, "FALSE": False}.get(on_error)

    return exists


def _behaviors(call: Call, operands: Sequence[Evaluate]) -> dict[str, tuple[str, Evaluate | None]]:
    """Return what ON EMPTY and ON ERROR say: NULL, ERROR or DEFAULT with its value."""
    found: dict[str, tuple[str, Evaluate | None]] = {}
    given = list(zip(call.operands, operands, strict=True))[2:]
    given = [pair for pair in given if not (isinstance(pair[0], Symbol) and pair[0].value == "DEFAULT")]
    for (behavior, value), (mode, _) in zip(given[::2], given[1::2], strict=False):
        assert isinstance(mode, Symbol)
        found[mode.value] = (behavior.value, None) if isinstance(behavior, Symbol) else ("DEFAULT", value)
    return found


@builder("$JSON_VALUE$1")
def _json_value(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    text, path = operands[:2]
    behaviors = _behaviors(call, operands)
    on_empty, on_error = (behaviors.get(mode, ("NULL", None)) for mode in ("EMPTY", "ERROR"))
    convert = _value_in_type(call.type, scope)

    def chosen(behavior: tuple[str, Evaluate | None], row: Row, message: str) -> Any:
        if behavior[0] == "ERROR":
            raise FunctionFailed(message, _FAILURE)
        return None if behavior[1] is None else behavior[1](row)

    def evaluate(row: Row) -> Any:
        document, place = text(row), path(row)
        if document is None or place is None:
            return None
        try:
            lax, value = _found(document, place)
        except JsonError as error:
            return chosen(on_error, row, str(error))
        if value is None or (lax and not _scalar(value)):
            return chosen(on_empty, row, "Empty result of JSON_VALUE function is not allowed")
        if not _scalar(value):
            return chosen(
                on_error,
                row,
                "Strict jsonpath mode requires scalar value, and the actual value is: "
                f"''{print_json(value)}''",
            )
        return convert(value)

    return evaluate


def _value_in_type(kind: LogicalType, scope: Scope) -> Callable[[Any], Any]:
    """Return the function from a scalar of JSON to a value of RETURNING."""
    if kind.root == "VARCHAR":
        return scalar_text
    wanted = {"BOOLEAN": "java.lang.Boolean", "INT": "java.lang.Integer", "DOUBLE": "java.math.BigDecimal"}
    if kind.root not in wanted:
        raise UnsupportedPlan(f"JSON_VALUE that returns {kind}")

    def convert(value: Any) -> Any:
        given = _java_class(value)
        if given != wanted[kind.root]:
            modules = f"({given} and {wanted[kind.root]} are in module java.base of loader 'bootstrap')"
            raise FunctionFailed(
                f"class {given} cannot be cast to class {wanted[kind.root]} {modules}",
                "java.lang.ClassCastException",
            )
        return float(value) if kind.root == "DOUBLE" else value

    return convert


def _java_class(value: Any) -> str:
    """Return the class in which Jackson reads a scalar."""
    match value:
        case bool():
            return "java.lang.Boolean"
        case str():
            return "java.lang.String"
        case int():
            narrow = -(1 << 31) <= value < 1 << 31
            wide = -(1 << 63) <= value < 1 << 63
            return "java.lang.Integer" if narrow else "java.lang.Long" if wide else "java.math.BigInteger"
    return "java.math.BigDecimal"


_QUERY_DEFAULTS: Final = ("WITHOUT_ARRAY", "NULL", "NULL")


@builder("$JSON_QUERY$1")
def _json_query(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    text, path = operands[:2]
    words = [operand.value for operand in call.operands if isinstance(operand, Symbol)]
    wrapper, on_empty, on_error = [*words, *_QUERY_DEFAULTS[len(words) :]]
    as_array = call.type.root == "ARRAY"
    empty_values = {"EMPTY_ARRAY": () if as_array else "[]", "EMPTY_OBJECT": "{}"}

    def chosen(behavior: str, message: str) -> Any:
        if behavior == "ERROR":
            raise FunctionFailed(message, _FAILURE)
        return empty_values.get(behavior)

    def evaluate(row: Row) -> Any:
        document, place = text(row), path(row)
        if document is None or place is None:
            return None
        try:
            lax, value = _found(document, place)
        except JsonError as error:
            return chosen(on_error, str(error))
        if value is not None and wrapper != "WITHOUT_ARRAY":
            value = value if wrapper == "CONDITIONAL_ARRAY" and isinstance(value, list) else [value]
        if value is None or (lax and _scalar(value)):
            return chosen(on_empty, "Empty result of JSON_QUERY function is not allowed")
        if _scalar(value):
            return chosen(
                on_error,
                "Strict jsonpath mode requires array or object value, and the actual value is: "
                f"''{scalar_text(value)}''",
            )
        if not as_array:
            return print_json(value)
        if not isinstance(value, list):
            return chosen(on_error, "class java.util.LinkedHashMap cannot be cast to class java.util.List")
        return tuple([_element_text(each) for each in value])

    return evaluate


def _element_text(value: Any) -> str | None:
    return None if value is None else scalar_text(value) if _scalar(value) else print_json(value)


# ---- construction


def json_printer(kind: LogicalType, scope: Scope) -> Callable[[Any], str]:
    """Return the function from a value, or NULL, to its JSON (Flink: JsonGenerateUtils)."""
    print_value = _printer(kind, scope)
    return lambda value: "null" if value is None else print_value(value)


def _printer(kind: LogicalType, scope: Scope) -> Callable[[Any], str]:
    root = kind.root
    if root in INTEGERS or root in ("INTERVAL_MONTHS", "INTERVAL_MS"):
        return str
    match root:
        case "BOOLEAN":
            return lambda value: "true" if value else "false"
        case "FLOAT" | "DOUBLE":
            # Jackson reads the number as a double and prints it as a BigDecimal.
            return lambda value: (
                str(Decimal(double_text(value))) if math.isfinite(value) else quoted(double_text(value))
            )
        case "DECIMAL":
            return str
        case "CHAR" | "VARCHAR":
            return quoted
        case "BINARY" | "VARBINARY":
            return lambda value: quoted(base64.b64encode(value).decode())
        case "DATE":
            return lambda value: quoted(date_text(value))
        case "TIME":
            return lambda value: quoted(time_text(value, kind.precision))
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            end = "Z" if root == "TIMESTAMP_LTZ" else ""
            return lambda value: quoted(_iso_text(value) + end)
        case "ARRAY":
            item = json_printer(kind.element, scope)
            return lambda value: f"[{','.join(map(item, value))}]"
        case "MAP" | "MULTISET":
            return _map_printer(kind, scope)
        case "ROW" | "STRUCTURED":
            fields = sorted(zip(kind.names, range(len(kind.names)), kind.types, strict=True))
            parts = [(quoted(name), at, json_printer(each, scope)) for name, at, each in fields]
            return lambda row: f"{{{','.join([f'{name}:{show(row[at])}' for name, at, show in parts])}}}"
    raise UnsupportedPlan(f"JSON of {kind}")


def _iso_text(nanos: int) -> str:
    """Return a timestamp of ISO with the digits of fraction that it needs (Java: ISO_LOCAL_DATE_TIME)."""
    whole, _, fraction = timestamp_text(nanos, 9).replace(" ", "T").partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _map_printer(kind: LogicalType, scope: Scope) -> Callable[[Any], str]:
    if kind.arguments[0].root not in ("CHAR", "VARCHAR"):
        raise UnsupportedPlan(f"JSON of {kind}")
    show = str if kind.root == "MULTISET" else json_printer(kind.arguments[1], scope)
    return lambda pairs: (
        f"{{{','.join([f'{quoted(key)}:{show(value)}' for key, value in sorted(pairs, key=_key_of)])}}}"
    )


def _key_of(pair: tuple[Any, Any]) -> Any:
    return pair[0]


_RAW: Final = frozenset({"$JSON_OBJECT$1", "$JSON_ARRAY$1", "$JSON$1"})


def _is_raw(operand: Any) -> bool:
    """Return whether an operand is JSON already, which is put in as it is."""
    return isinstance(operand, Call) and (
        operand.name in _RAW or operand.name.startswith(("$JSON_OBJECTAGG", "$JSON_ARRAYAGG"))
    )


def _value_printer(operand: Any, scope: Scope) -> Callable[[Any], str]:
    if _is_raw(operand):
        return lambda value: "null" if value is None else print_json(parse_json(value))
    return json_printer(operand.type, scope)


@builder("$JSON_OBJECT$1")
def _json_object(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """Operands are what becomes of NULL, then key, value, key, value."""
    assert isinstance(call.operands[0], Symbol)
    absent = call.operands[0].value == "ABSENT"
    printers = [_value_printer(operand, scope) for operand in call.operands[2::2]]
    pairs = list(zip(operands[1::2], operands[2::2], printers, strict=True))

    def evaluate(row: Row) -> str:
        found: dict[str, str] = {}
        for key, value, show in pairs:
            item = value(row)
            if item is not None or not absent:
                found[key(row)] = show(item)
        return f"{{{','.join([f'{quoted(key)}:{found[key]}' for key in sorted(found)])}}}"

    return evaluate


@builder("$JSON_ARRAY$1")
def _json_array(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    assert isinstance(call.operands[0], Symbol)
    absent = call.operands[0].value == "ABSENT"
    printers = [_value_printer(operand, scope) for operand in call.operands[1:]]
    items = list(zip(operands[1:], printers, strict=True))

    def evaluate(row: Row) -> str:
        found = [(item(row), show) for item, show in items]
        return f"[{','.join([show(value) for value, show in found if value is not None or not absent])}]"

    return evaluate


@strict("$JSON_STRING$1")
def _json_string(call: Call, scope: Scope) -> Callable[[Any], str]:
    return json_printer(call.operands[0].type, scope)


@strict("$JSON$1")
def _json(call: Call, scope: Scope) -> Callable[[str], str | None]:
    def normal(text: str) -> str | None:
        trimmed = trim(text)
        if not trimmed:
            return None
        try:
            return print_json(parse_json(trimmed))
        except JsonError as error:
            raise FunctionFailed(
                f'Invalid JSON string in JSON(value) function: "{text}". Error: {error}', _FAILURE
            ) from None

    return normal


def _escaped(each: str) -> str:
    """Return a character in ASCII; one beyond U+FFFF as Flink writes it, as code point and second unit."""
    if each < "\x7f":
        return each
    return "".join([f"\\u{ord(part):04x}" for part in (each, *units(each)[1:])])


@strict("$JSON_QUOTE$1")
def _json_quote(call: Call, scope: Scope) -> Callable[[str], str]:
    def quote(text: str) -> str:
        return "".join([_escaped(each) for each in quoted(text).replace("/", "\\/")])

    return quote


@strict("$JSON_UNQUOTE$1")
def _json_unquote(call: Call, scope: Scope) -> Callable[[str], str]:
    def unquote(text: str) -> str:
        if len(text) > 1 and text[0] == text[-1] == '"':
            try:
                value = parse_json(text)
            except JsonError:
                return text
            return value if isinstance(value, str) else text
        return text

    return unquote
