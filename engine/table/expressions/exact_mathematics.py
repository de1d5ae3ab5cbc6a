"""Elementary functions rounded to the nearest double.

The libraries of C and of Java's machine differ in the last bit now and then, each being off by slightly more
than half a unit. Java's is nearly always the nearest double, so that is what these compute, with 45 digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Final

EXACT: Final = Context(prec=45, Emin=-9999, Emax=9999)
_PI: Final = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803"
)
_HALF_PI: Final = Context(prec=80).divide(_PI, Decimal(2))
_LARGEST_ANGLE: Final = 1e15
_SMALLEST: Final = 1e-5


def _sine_and_cosine(value: float) -> tuple[Decimal, Decimal]:
    """Return both by their series, at an angle within a quarter of pi."""
    wide = Context(prec=70)
    turns = int(wide.divide(Decimal(value), _HALF_PI).to_integral_value())
    rest = wide.subtract(Decimal(value), wide.multiply(_HALF_PI, Decimal(turns)))
    square = EXACT.multiply(rest, rest)
    sine, cosine = _series(rest, square, 1), _series(Decimal(1), square, 0)
    return ((sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine))[turns % 4]


def _series(term: Decimal, square: Decimal, power: int) -> Decimal:
    total = term
    while abs(term) > Decimal("1e-48"):
        power += 2
        term = EXACT.divide(EXACT.multiply(-term, square), Decimal(power * (power - 1)))
        total = EXACT.add(total, term)
    return total


def _arc_tangent(value: Decimal) -> Decimal:
    """Return the angle by Newton's method, from the double that C computes."""
    angle = Decimal(math.atan(value))
    sine, cosine = _sine_and_cosine(float(angle))
    # tan(angle + d) = value gives d = (value * cos - sin) / (cos + value * sin), whose cube is negligible.
    part = EXACT.divide(
        EXACT.subtract(EXACT.multiply(value, cosine), sine),
        EXACT.add(cosine, EXACT.multiply(value, sine)),
    )
    return EXACT.add(angle, part)


def _angle(
    function: Callable[[Decimal, Decimal], Decimal], usual: Callable[[float], float]
) -> Callable[[float], float]:
    def call(value: float) -> float:
        if not _SMALLEST < abs(value) < _LARGEST_ANGLE:
            return usual(value)
        return float(function(*_sine_and_cosine(value)))

    return call


def _with(
    function: Callable[[Decimal], Decimal], usual: Callable[[float], float], limit: float
) -> Callable[[float], float]:
    def call(value: float) -> float:
        if not _SMALLEST < abs(value) < limit:
            return usual(value)
        return float(function(Decimal(value)))

    return call


def _root(value: Decimal) -> Decimal:
    return EXACT.sqrt(EXACT.subtract(Decimal(1), EXACT.multiply(value, value)))


def _hyperbolic(value: Decimal) -> tuple[Decimal, Decimal]:
    up = EXACT.exp(value)
    down = EXACT.divide(Decimal(1), up)
    return EXACT.subtract(up, down), EXACT.add(up, down)


sine: Final = _angle(lambda sin, cos: sin, math.sin)
cosine: Final = _angle(lambda sin, cos: cos, math.cos)
tangent: Final = _angle(EXACT.divide, math.tan)
arc_tangent: Final = _with(_arc_tangent, math.atan, 1e15)
arc_sine: Final = _with(lambda value: _arc_tangent(EXACT.divide(value, _root(value))), math.asin, 1.0)
arc_cosine: Final = _with(
    lambda value: EXACT.subtract(_HALF_PI, _arc_tangent(EXACT.divide(value, _root(value)))), math.acos, 1.0
)
hyperbolic_sine: Final = _with(lambda value: _hyperbolic(value)[0] / 2, math.sinh, 700.0)
hyperbolic_cosine: Final = _with(lambda value: _hyperbolic(value)[1] / 2, math.cosh, 700.0)
hyperbolic_tangent: Final = _with(lambda value: EXACT.divide(*_hyperbolic(value)), math.tanh, 20.0)


def arc_tangent_of(first: float, second: float) -> float:
    """Return the angle of a point (Math.atan2)."""
    if not (math.isfinite(first) and math.isfinite(second) and first and second > 0):
        return math.atan2(first, second)
    ratio = EXACT.divide(Decimal(first), Decimal(second))
    return (
        float(_arc_tangent(ratio))
        if Decimal("1e-5") < abs(ratio) < Decimal("1e15")
        else math.atan2(first, second)
    )
