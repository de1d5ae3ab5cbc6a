"""CAST, TRY_CAST and REINTERPRET (Flink: the CastRules of table.planner.functions.casting).

``CASTS`` maps pairs of roots to what makes the conversion. A conversion never sees NULL, may return it, and
raises ``CastFailed`` where Flink's rule does; whatever else it raises is an error of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

from onceproof.engine.table.expressions import java_floats, java_strings, text_casts
from onceproof.engine.table.expressions.calendar import session_zone, toward_zero
from onceproof.engine.table.expressions.java_strings import integer_of
from onceproof.engine.table.expressions.registry import (
    Evaluate,
    FunctionFailed,
    Scope,
    builder,
    strict,
    strictly,
)
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.expressions.text_casts import CastFailed
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import (
    BINARIES,
    INTEGERS,
    LONGEST,
    NUMBERS,
    TEXTS,
    TIMESTAMPS,
    LogicalType,
)
from onceproof.engine.table.values import (
    MS_PER_DAY,
    NANOS_PER_DAY,
    NANOS_PER_MS,
    Row,
    to_decimal,
    to_float32,
    wrap,
)

Convert: TypeAlias = Callable[[Any], Any]
MakeCast: TypeAlias = "Callable[[LogicalType, LogicalType, Scope], Convert]"
CASTS: Final[dict[tuple[str, str], MakeCast]] = {}
"""What makes the conversion from one root to another: ``(given, wanted, scope) -> (value -> value)``."""

_INTEGERS: Final = tuple(INTEGERS)
_FLOATS: Final = ("FLOAT", "DOUBLE")
_TEXTS: Final = tuple(TEXTS)
_BINARIES: Final = tuple(BINARIES)
_ALL: Final = (*NUMBERS, *TEXTS, *BINARIES, *TIMESTAMPS, "BOOLEAN", "DATE", "TIME", "INTERVAL_MONTHS")
_ALL_AND_MORE: Final = (*_ALL, "INTERVAL_MS", "ARRAY", "MULTISET", "MAP", "ROW", "STRUCTURED", "NULL")


def cast(given: Sequence[str], wanted: Sequence[str]) -> Callable[[MakeCast], MakeCast]:
    """Register a conversion between roots."""

    def register(make: MakeCast) -> MakeCast:
        CASTS.update({(first, second): make for first in given for second in wanted})
        return make

    return register


def conversion(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    """Return the function from a value (never NULL) to its value in another type.

    Raises:
        UnsupportedPlan: the cast is not known.
    """
    if given.as_nullable() == wanted.as_nullable():
        return lambda value: value
    make = CASTS.get((given.root, wanted.root))
    if make is None:
        raise UnsupportedPlan(f"a cast from {given.root} to {wanted.root}")
    return make(given, wanted, scope)


@builder("$CAST$1")
def _cast(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    return strictly(conversion(call.operands[0].type, call.type, scope), operands)


@builder("$TRY_CAST$1")
def _try_cast(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    convert = conversion(call.operands[0].type, call.type, scope)
    (operand,) = operands

    def evaluate(row: Row) -> Any:
        value = operand(row)
        if value is None:
            return None
        try:
            return convert(value)
        except FunctionFailed:
            return None

    return evaluate


@strict("$REINTERPRET$1", "$REINTERPRET_CAST$1")
def _reinterpret(call: Call, scope: Scope) -> Convert:
    """Times as numbers: milliseconds, as watermarks are."""
    given, wanted = call.operands[0].type.root, call.type.root
    if given in TIMESTAMPS and wanted == "BIGINT":
        return lambda value: value // NANOS_PER_MS
    if given == "BIGINT" and wanted in TIMESTAMPS:
        return lambda value: value * NANOS_PER_MS
    return lambda value: value


# ---- numbers and booleans


@cast(_ALL_AND_MORE[-1:], (*_ALL_AND_MORE, "RAW", "VARIANT", "BITMAP"))
def _null(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    return lambda value: None


@cast((*_INTEGERS, "INTERVAL_MONTHS", "INTERVAL_MS"), _INTEGERS)
def _integers(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    bits = INTEGERS[wanted.root]
    if INTEGERS.get(given.root, 64) <= bits:
        return lambda value: value
    return lambda value: wrap(value, bits)


@cast(_INTEGERS, ("INTERVAL_MONTHS", "INTERVAL_MS"))
@cast(("INTERVAL_MONTHS",), ("INTERVAL_MONTHS",))
@cast(("INTERVAL_MS",), ("INTERVAL_MS",))
def _as_it_is(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    return lambda value: value


@cast(_FLOATS, _INTEGERS)
def _floats_as_integers(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    """Java converts to 32 bits first where fewer are wanted."""
    bits = INTEGERS[wanted.root]
    if bits >= 32:
        return lambda value: integer_of(value, bits)
    return lambda value: wrap(integer_of(value, 32), bits)


@cast((*NUMBERS,), _FLOATS)
def _as_floats(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    if wanted.root == "DOUBLE":
        return float
    return lambda value: to_float32(float(value))


@cast((*_INTEGERS, "DECIMAL"), ("DECIMAL",))
def _exact_as_decimals(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    precision, scale = wanted.precision, wanted.scale
    return lambda value: to_decimal(Decimal(value), precision, scale)


@cast(_FLOATS, ("DECIMAL",))
def _floats_as_decimals(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    precision, scale = wanted.precision, wanted.scale

    def convert(value: float) -> Decimal | None:
        exact = Decimal(repr(value))
        if not exact.is_finite():
            raise CastFailed(java_strings.not_a_decimal(value), "java.lang.NumberFormatException")
        return to_decimal(exact, precision, scale)

    return convert


@cast(("DECIMAL",), _INTEGERS)
def _decimals_as_integers(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    bits = INTEGERS[wanted.root]
    return lambda value: wrap(int(value), bits)


@cast((*NUMBERS,), ("BOOLEAN",))
def _as_boolean(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    return lambda value: value != 0


@cast(("BOOLEAN",), (*NUMBERS,))
def _booleans_as_numbers(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    if wanted.root == "DECIMAL":
        return lambda value: to_decimal(Decimal(int(value)), wanted.precision, wanted.scale)
    return float if wanted.root in _FLOATS else int


# ---- from texts


@cast(_TEXTS, ("BOOLEAN", *NUMBERS, "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"))
def _from_text(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    root, precision, scale = wanted.root, wanted.precision, wanted.scale
    if root in INTEGERS:
        return lambda text: text_casts.integer_of_text(text, root)
    match root:
        case "BOOLEAN":
            return text_casts.boolean_of
        case "DOUBLE":
            return text_casts.double_of
        case "FLOAT":
            return text_casts.float_of
        case "DECIMAL":
            return lambda text: text_casts.decimal_of(text, precision, scale)
        case "DATE":
            return text_casts.date_of_text
        case "TIME":
            return text_casts.time_of_text
        case "TIMESTAMP":
            return lambda text: text_casts.timestamp_of_text(text, precision)
    zone = session_zone(scope.zone)
    return lambda text: zone.to_utc(text_casts.timestamp_of_text(text, precision))


@cast(_TEXTS, _BINARIES)
def _text_as_bytes(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    sized = _sized(wanted, b"\0")
    return lambda text: sized(text.encode())


@cast(_BINARIES, _BINARIES)
def _bytes(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    return _sized(wanted, b"\0")


def _sized(kind: LogicalType, pad: Any) -> Convert:
    """Return what cuts to the length of a type; CHAR and BINARY are filled up."""
    length = kind.precision
    if kind.root in ("CHAR", "BINARY"):
        return lambda value: value[:length].ljust(length, pad)
    return (lambda value: value) if length == LONGEST else (lambda value: value[:length])


# ---- to texts


@cast(_ALL_AND_MORE[:-1], _TEXTS)
def _to_text(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    print_value = printer(given, scope)
    if wanted.root == "VARCHAR" and wanted.precision == LONGEST:
        return print_value
    sized = _sized(wanted, " ")
    return lambda value: sized(print_value(value))


def printer(kind: LogicalType, scope: Scope) -> Callable[[Any], str]:
    """Return the function from a value, never NULL, to its text. Raises UnsupportedPlan."""
    precision = kind.precision
    match kind.root:
        case "CHAR" | "VARCHAR":
            return lambda value: str(value)
        case "BINARY" | "VARBINARY":
            return lambda value: bytes(value).decode("utf-8", "replace")
        case "BOOLEAN":
            return java_strings.boolean_text
        case "FLOAT":
            return java_floats.float_text
        case "DOUBLE":
            return java_floats.double_text
        case "DECIMAL":
            return java_strings.decimal_text
        case "DATE":
            return java_strings.date_text
        case "TIME":
            return lambda value: java_strings.time_text(value, precision)
        case "TIMESTAMP":
            return lambda value: java_strings.timestamp_text(value, precision)
        case "TIMESTAMP_LTZ":
            zone = session_zone(scope.zone)
            return lambda value: java_strings.timestamp_text(zone.to_local(value), precision)
        case "INTERVAL_MONTHS":
            return java_strings.months_text
        case "INTERVAL_MS":
            return java_strings.interval_text
        case "ARRAY":
            item = nullable_printer(kind.element, scope)
            return lambda value: f"[{', '.join(map(item, value))}]"
        case "MAP" | "MULTISET":
            key = nullable_printer(kind.arguments[0], scope)
            value = nullable_printer(kind.arguments[1], scope) if kind.root == "MAP" else str
            return lambda pairs: f"{{{', '.join([f'{key(name)}={value(each)}' for name, each in pairs])}}}"
        case "ROW" | "STRUCTURED":
            return _row_printer(kind, scope)
    return str


def nullable_printer(kind: LogicalType, scope: Scope) -> Callable[[Any], str]:
    """Return the function from a value to its text; NULL is the word."""
    print_value = printer(kind, scope)
    return lambda value: "NULL" if value is None else print_value(value)


def _row_printer(kind: LogicalType, scope: Scope) -> Callable[[Any], str]:
    fields = [nullable_printer(each, scope) for each in kind.types]
    marks = [f"{name}=" if kind.root == "STRUCTURED" else "" for name in kind.names]
    return lambda row: (
        f"({', '.join([mark + field(value) for mark, field, value in zip(marks, fields, row, strict=True)])})"
    )


# ---- dates and times


@cast(("TIMESTAMP",), ("TIMESTAMP",))
@cast(("TIMESTAMP_LTZ",), ("TIMESTAMP_LTZ",))
def _timestamps(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    if given.precision <= wanted.precision:
        return lambda value: value
    return _truncation(wanted.precision)


def _truncation(precision: int) -> Convert:
    """Cut a fraction (Flink: DateTimeUtils.truncate): milliseconds toward zero, as Java's division does."""

    def cut(nanos: int) -> int:
        if len(str(nanos % 1_000_000_000)) <= precision:
            return nanos
        milliseconds, rest = divmod(nanos, NANOS_PER_MS)
        if precision <= 3:
            unit: int = 10 ** (3 - precision)
            whole = abs(milliseconds) // unit * unit
            return (whole if milliseconds >= 0 else -whole) * NANOS_PER_MS
        unit = 10 ** (9 - precision)
        return milliseconds * NANOS_PER_MS + rest // unit * unit

    return cut


@cast(("TIMESTAMP",), ("TIMESTAMP_LTZ",))
def _as_moment(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    zone, cut = session_zone(scope.zone), _truncation(wanted.precision)
    if given.precision <= wanted.precision:
        return zone.to_utc
    return lambda value: zone.to_utc(cut(value))


@cast(("TIMESTAMP_LTZ",), ("TIMESTAMP",))
def _as_reading(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    zone, cut = session_zone(scope.zone), _truncation(wanted.precision)
    if given.precision <= wanted.precision:
        return zone.to_local
    return lambda value: cut(zone.to_local(value))


def days_of_timestamp(nanos: int) -> int:
    """Return the date of a timestamp as Flink does: a quotient toward zero, before 1970 a day too late."""
    return toward_zero(nanos // NANOS_PER_MS, MS_PER_DAY)


def _time_of_timestamp(nanos: int) -> int:
    milliseconds = nanos // NANOS_PER_MS
    return milliseconds - toward_zero(milliseconds, MS_PER_DAY) * MS_PER_DAY


@cast(tuple(TIMESTAMPS), ("DATE",))
def _as_date(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    if given.root == "TIMESTAMP":
        return days_of_timestamp
    zone = session_zone(scope.zone)
    return lambda value: zone.to_local(value) // NANOS_PER_DAY


@cast(tuple(TIMESTAMPS), ("TIME",))
def _as_time(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    """Cut the time toward zero: before 1970 that of a TIMESTAMP is negative."""
    unit = _unit_ms(wanted)
    if given.root == "TIMESTAMP":
        return lambda value: toward_zero(_time_of_timestamp(value), unit) * unit
    zone = session_zone(scope.zone)
    return lambda value: zone.to_local(value) % NANOS_PER_DAY // NANOS_PER_MS // unit * unit


@cast(("DATE",), tuple(TIMESTAMPS))
def _from_date(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    if wanted.root == "TIMESTAMP":
        return lambda value: value * NANOS_PER_DAY
    zone = session_zone(scope.zone)
    return lambda value: zone.to_utc(value * NANOS_PER_DAY)


@cast(("TIME",), tuple(TIMESTAMPS))
def _from_time(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    if wanted.root == "TIMESTAMP":
        return lambda value: value * NANOS_PER_MS
    zone = session_zone(scope.zone)
    return lambda value: zone.to_utc(value * NANOS_PER_MS)


@cast(("TIME",), ("TIME",))
def _times(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    if given.precision <= wanted.precision:
        return lambda value: value
    unit = _unit_ms(wanted)
    return lambda value: toward_zero(value, unit) * unit


def _unit_ms(kind: LogicalType) -> int:
    """Return the milliseconds of the last digit of a TIME."""
    unit_ms: int = 10 ** max(3 - kind.precision, 0)
    return unit_ms


# ---- what holds other values


def _nullable(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    convert = conversion(given, wanted, scope)
    return lambda value: None if value is None else convert(value)


@cast(("ARRAY",), ("ARRAY",))
def _arrays(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    item = _nullable(given.element, wanted.element, scope)
    return lambda value: tuple(map(item, value))


@cast(("MAP",), ("MAP",))
@cast(("MULTISET",), ("MULTISET",))
def _maps(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    key = _nullable(given.arguments[0], wanted.arguments[0], scope)
    if given.root == "MULTISET":
        return lambda value: tuple([(key(name), each) for name, each in value])
    item = _nullable(given.arguments[1], wanted.arguments[1], scope)
    return lambda value: tuple({key(name): item(each) for name, each in value}.items())


@cast(("ROW", "STRUCTURED"), ("ROW", "STRUCTURED"))
def _rows(given: LogicalType, wanted: LogicalType, scope: Scope) -> Convert:
    if len(given.fields) != len(wanted.fields):
        raise UnsupportedPlan(f"a cast from {given} to {wanted}")
    fields = [_nullable(*pair, scope) for pair in zip(given.types, wanted.types, strict=True)]
    return lambda value: tuple([field(each) for field, each in zip(fields, value, strict=True)])
