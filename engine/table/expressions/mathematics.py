"""Mathematical functions (Flink: MathFunctions of the code generator, SqlFunctionUtils, DecimalDataUtils).

Java's functions return NaN or an infinity where Python's raise; ``as_java`` makes up for that.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any, Final

from onceproof.engine.table.expressions import java_mathematics
from onceproof.engine.table.expressions.arithmetic import float_quotient
from onceproof.engine.table.expressions.java_floats import double_text
from onceproof.engine.table.expressions.java_strings import not_a_decimal
from onceproof.engine.table.expressions.registry import Evaluate, FunctionFailed, Scope, builder, strict
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.expressions.times import round_time
from onceproof.engine.table.types import INTEGERS, LogicalType
from onceproof.engine.table.values import DECIMALS, Row, to_decimal, to_float32, wrap

OnFloats = Callable[..., float]


def as_java(function: OnFloats, overflow: float = math.inf) -> OnFloats:
    """Return a function of floats that returns NaN outside its domain and an infinity at an overflow."""

    def call(*values: float) -> float:
        try:
            return function(*map(float, values))
        except ValueError:
            return math.nan
        except OverflowError:
            return overflow

    return call


def _logarithm(function: OnFloats) -> OnFloats:
    def call(value: float) -> float:
        value = float(value)
        if value <= 0:
            return -math.inf if not value else math.nan
        return function(value)

    return call


LN: Final = _logarithm(math.log)


def power(base: float, exponent: float) -> float:
    """Return what ``Math.pow`` returns."""
    base, exponent = float(base), float(exponent)
    if abs(base) == 1 and (math.isinf(exponent) or exponent != exponent):
        return math.nan
    try:
        return math.pow(base, exponent)
    except ValueError:
        if base:
            return math.nan
        odd = exponent == int(exponent) and int(exponent) % 2 == 1
        return math.copysign(math.inf, base) if odd else math.inf
    except OverflowError:
        return -math.inf if base < 0 and int(exponent) % 2 == 1 else math.inf


def _cotangent(value: float) -> float:
    return float_quotient(1.0, math.tan(value))


def _hyperbolic_sine(value: float) -> float:
    try:
        return java_mathematics.hyperbolic_sine(value)
    except OverflowError:
        return math.copysign(math.inf, value)


_FUNCTIONS: Final[dict[str, OnFloats]] = {
    "EXP": as_java(math.exp),
    "LN": LN,
    "LOG10": _logarithm(math.log10),
    "LOG2": lambda value: LN(value) / math.log(2),
    "SQRT": lambda value: power(value, 0.5),
    "SIN": as_java(java_mathematics.sine),
    "COS": as_java(java_mathematics.cosine),
    "TAN": as_java(math.tan),
    "COT": as_java(_cotangent),
    "ASIN": as_java(math.asin),
    "ACOS": as_java(math.acos),
    "ATAN": as_java(java_mathematics.arc_tangent),
    "ATAN2": as_java(java_mathematics.arc_tangent_of),
    "SINH": as_java(_hyperbolic_sine),
    "COSH": as_java(java_mathematics.hyperbolic_cosine),
    "TANH": as_java(java_mathematics.hyperbolic_tangent),
    "DEGREES": lambda value: float(value) * (180.0 / math.pi),
    "RADIANS": lambda value: float(value) * (math.pi / 180.0),
    "POWER": power,
}


@strict(*[f"${name}$1" for name in _FUNCTIONS])
def _function(call: Call, scope: Scope) -> OnFloats:
    return _FUNCTIONS[call.name[1:-2]]


@strict("$LOG$1")
def _log(call: Call, scope: Scope) -> OnFloats:
    if len(call.operands) == 1:
        return LN
    return lambda base, value: float_quotient(LN(value), LN(base))


@builder("$PI$1", "$E$1")
def _constant(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    value = math.pi if call.name == "$PI$1" else math.e
    return lambda row: value


@builder("$RAND$1", "$RAND_INTEGER$1")
def _rand(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """Random numbers; a seed gives the same ones in every attempt, but not those of Java."""
    whole = call.name == "$RAND_INTEGER$1"
    seeds = operands[:-1] if whole else operands
    seed = seeds[0](()) if seeds else None
    source = random.Random(seed)
    if not whole:
        return lambda row: source.random()
    bound = operands[-1]

    def evaluate(row: Row) -> int | None:
        limit = bound(row)
        if limit is None:
            return None
        if limit <= 0:
            raise FunctionFailed("bound must be positive", "java.lang.IllegalArgumentException")
        return source.randrange(limit)

    return evaluate


# ---- sign and rounding


@strict("$ABS$1")
def _abs(call: Call, scope: Scope) -> Callable[..., Any]:
    bits = INTEGERS.get(call.type.root)
    if call.type.root == "DECIMAL":
        # Unlike abs, exact whatever the context of the thread is.
        return Decimal.copy_abs
    return abs if bits is None else lambda value: wrap(abs(value), bits)


@strict("$SIGN$1")
def _sign(call: Call, scope: Scope) -> Callable[..., Any]:
    kind = call.type
    if kind.root == "DECIMAL":
        return lambda value: to_decimal(Decimal((value > 0) - (value < 0)), kind.precision, kind.scale)
    if kind.root in INTEGERS:
        return lambda value: (value > 0) - (value < 0)
    return lambda value: value if not value or value != value else math.copysign(1.0, value)


@strict("$FLOOR$1", "$CEIL$1")
def _floor(call: Call, scope: Scope) -> Callable[..., Any]:
    """Round a number, or a time to a unit."""
    if len(call.operands) == 2:
        return round_time(call, scope)
    rounding, whole = (ROUND_FLOOR, math.floor) if call.name == "$FLOOR$1" else (ROUND_CEILING, math.ceil)
    kind = call.type
    if kind.root == "DECIMAL":
        return lambda value: to_decimal(
            value.to_integral_value(rounding=rounding), kind.precision, kind.scale
        )
    if kind.root in INTEGERS:
        return lambda value: value

    def rounded(value: float) -> float:
        if not math.isfinite(value):
            return value
        return math.copysign(float(whole(value)), value)

    return rounded


def _exact(value: Any, kind: LogicalType) -> Decimal:
    """Return a number as ``BigDecimal.valueOf`` does: a float by its shortest text."""
    if kind.root in INTEGERS or kind.root == "DECIMAL":
        return Decimal(value)
    if not math.isfinite(value):
        raise FunctionFailed(not_a_decimal(value), "java.lang.NumberFormatException")
    return Decimal(double_text(value))


def _at(value: Decimal, digits: int, rounding: str) -> Decimal:
    """Round at a digit, which may be in front of the point."""
    whole = value.scaleb(digits, DECIMALS).to_integral_value(rounding=rounding)
    return whole.scaleb(-digits, DECIMALS) if whole else whole


def _round_decimal(given: LogicalType, rounding: str) -> Callable[..., Decimal | None]:
    """Return the rounding of decimals: a result has the digits of the call, also where its type does not."""
    precision, scale = given.precision, given.scale

    def round_at(value: Decimal, digits: int = 0) -> Decimal | None:
        if digits >= scale:
            return value
        kept = max(digits, 0)
        return to_decimal(_at(value, digits, rounding), min(1 + precision - scale + kept, 38), kept)

    return round_at


@strict("$ROUND$1", "$TRUNCATE$1")
def _round(call: Call, scope: Scope) -> Callable[..., Any]:
    given, kind = call.operands[0].type, call.type
    rounding = ROUND_HALF_UP if call.name == "$ROUND$1" else ROUND_DOWN
    if kind.root == "DECIMAL":
        return _round_decimal(given, rounding)
    if (bits := INTEGERS.get(kind.root)) is not None:
        return lambda value, digits=0: wrap(int(_at(Decimal(value), digits, rounding)), bits)
    # A BigDecimal has no negative zero.
    if kind.root == "FLOAT":
        return lambda value, digits=0: to_float32(float(_at(_exact(value, given), digits, rounding)) + 0.0)
    return lambda value, digits=0: float(_at(_exact(value, given), digits, rounding)) + 0.0


# ---- bits and bases


@strict("$BIN$1")
def _bin(call: Call, scope: Scope) -> Callable[[int], str]:
    return lambda value: f"{value & 0xFFFF_FFFF_FFFF_FFFF:b}"


_BITS: Final[dict[str, Callable[[int, int], int]]] = {
    "$BITAND$1": operator.and_,
    "$BITOR$1": operator.or_,
    "$BITXOR$1": operator.xor,
}


@strict(*_BITS)
def _bits(call: Call, scope: Scope) -> Callable[[int, int], int]:
    return _BITS[call.name]


@strict("$BITNOT$1")
def _bit_not(call: Call, scope: Scope) -> Callable[[int], int]:
    return operator.invert
