"""Elementary functions to the last bit as Java computes them.

Java's functions are those of fdlibm, whose results differ from those of other libraries in the last bit now
and then: sine, cosine, the arc tangents and the hyperbolic functions are its algorithms. What is left out
rounds alike in C and in Java for all that was compared.
"""

from __future__ import annotations

import math
from typing import Final

_SINES: Final = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
_COSINES: Final = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)
_ARC_TANGENTS: Final = (
    3.33333333333329318027e-01,
    -1.99999999998764832476e-01,
    1.42857142725034663711e-01,
    -1.11111104054623557880e-01,
    9.09088713343650656196e-02,
    -7.69187620504482999495e-02,
    6.66107313738753120669e-02,
    -5.83357013379057348645e-02,
    4.97687799461593236017e-02,
    -3.65315727442169155270e-02,
    1.62858201153657823623e-02,
)
_ANGLES: Final = (
    (4.63647609000806093515e-01, 2.26987774529616870924e-17),
    (7.85398163397448278999e-01, 3.06161699786838301793e-17),
    (9.82793723247329054082e-01, 1.39033110312309984516e-17),
    (1.57079632679489655800e00, 6.12323399573676603587e-17),
)
"""Each angle in two parts, the second of what the first lacks."""
_EXPONENTIALS: Final = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
_LOG_TWO: Final = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
_HALF_PI: Final = (1.57079632673412561417e00, 6.07710050650619224932e-11)
_PI_REST: Final = 1.2246467991473531772e-16
_SMALL: Final = 0.29999971389770508
_NEARLY_ONE: Final = 0.78125095367431641
_MEDIUM: Final = 823549.0
_LARGE: Final = 22.0


def _polynomial(value: float, coefficients: tuple[float, ...]) -> float:
    result = 0.0
    for coefficient in reversed(coefficients):
        result = coefficient + value * result
    return result


def _kernel_sine(value: float, rest: float) -> float:
    square = value * value
    cube = square * value
    higher = _polynomial(square, _SINES[1:])
    if not rest:
        return value + cube * (_SINES[0] + square * higher)
    return value - ((square * (0.5 * rest - cube * higher) - rest) - cube * _SINES[0])


def _kernel_cosine(value: float, rest: float) -> float:
    size = abs(value)
    square = value * value
    higher = square * (square * _polynomial(square, _COSINES))
    if size < _SMALL:
        return 1.0 - (0.5 * square - (higher - value * rest))
    mantissa, exponent = math.frexp(size)
    quarter = 0.28125 if size >= _NEARLY_ONE else math.ldexp(int(mantissa * 2**21), exponent - 23)
    return (1.0 - quarter) - ((0.5 * square - quarter) - (higher - value * rest))


def _quadrant(value: float) -> tuple[int, float, float]:
    """Return the quarter turns in an angle, and what is left in two parts."""
    if abs(value) <= math.pi / 4:
        return 0, value, 0.0
    turns = int(abs(value) * (2 / math.pi) + 0.5)
    left = abs(value) - turns * _HALF_PI[0]
    correction = turns * _HALF_PI[1]
    first = left - correction
    second = (left - first) - correction
    return (turns, first, second) if value > 0 else (-turns, -first, -second)


def sine(value: float) -> float:
    """Return the sine (Math.sin)."""
    if not abs(value) < _MEDIUM:
        return math.sin(value)
    turns, first, second = _quadrant(value)
    result = _kernel_cosine(first, second) if turns % 2 else _kernel_sine(first, second)
    return -result if turns % 4 >= 2 else result


def cosine(value: float) -> float:
    """Return the cosine (Math.cos)."""
    if not abs(value) < _MEDIUM:
        return math.cos(value)
    turns, first, second = _quadrant(value)
    result = _kernel_sine(first, second) if turns % 2 else _kernel_cosine(first, second)
    return -result if turns % 4 in (1, 2) else result


def arc_tangent(value: float) -> float:
    """Return the angle of a tangent (Math.atan)."""
    size = abs(value)
    if not size < 2.0**66 or size < 2.0**-29:
        return math.atan(value)
    if size < 0.4375:
        return value - value * _arc_tangent_rest(value)
    if size < 0.6875:
        reduced, (angle, rest) = (2.0 * size - 1.0) / (2.0 + size), _ANGLES[0]
    elif size < 1.1875:
        reduced, (angle, rest) = (size - 1.0) / (size + 1.0), _ANGLES[1]
    elif size < 2.4375:
        reduced, (angle, rest) = (size - 1.5) / (1.0 + 1.5 * size), _ANGLES[2]
    else:
        reduced, (angle, rest) = -1.0 / size, _ANGLES[3]
    result = angle - ((reduced * _arc_tangent_rest(reduced) - rest) - reduced)
    return -result if value < 0 else result


def _arc_tangent_rest(value: float) -> float:
    square = value * value
    fourth = square * square
    return square * _polynomial(fourth, _ARC_TANGENTS[::2]) + fourth * _polynomial(
        fourth, _ARC_TANGENTS[1::2]
    )


def arc_tangent_of(first: float, second: float) -> float:
    """Return the angle of a point (Math.atan2)."""
    if not (math.isfinite(first) and math.isfinite(second) and first and second):
        return math.atan2(first, second)
    if second == 1.0:
        return arc_tangent(first)
    ratio = abs(first / second)
    if not 2.0**-60 < ratio < 2.0**60:
        return math.atan2(first, second)
    angle = arc_tangent(ratio)
    if second < 0:
        angle = math.pi - (angle - _PI_REST)
    return -angle if first < 0 else angle


def hyperbolic_sine(value: float) -> float:
    """Return the hyperbolic sine (Math.sinh)."""
    size = abs(value)
    if not 2.0**-28 < size < _LARGE:
        return math.sinh(value)
    grown = math.expm1(size)
    half = math.copysign(0.5, value)
    if size < 1.0:
        return half * (2.0 * grown - grown * grown / (grown + 1.0))
    return half * (grown + grown / (grown + 1.0))


def _exponential(value: float) -> float:
    """Return what fdlibm returns for a positive number that is not large (StrictMath.exp)."""
    doublings = 0 if value <= 0.5 * math.log(2.0) else 1
    if value >= 1.5 * math.log(2.0):
        doublings = int(value / math.log(2.0) + 0.5)
    high, low = value - doublings * _LOG_TWO[0], doublings * _LOG_TWO[1]
    left = high - low
    square = left * left
    part = left - square * _polynomial(square, _EXPONENTIALS)
    if not doublings:
        return 1.0 - ((left * part) / (part - 2.0) - left)
    return math.ldexp(1.0 - ((low - (left * part) / (2.0 - part)) - high), doublings)


def hyperbolic_cosine(value: float) -> float:
    """Return the hyperbolic cosine (Math.cosh)."""
    size = abs(value)
    if not size < _LARGE:
        return math.cosh(value)
    if size < 0.5 * math.log(2.0):
        grown = math.expm1(size)
        return 1.0 + (grown * grown) / (2.0 * (1.0 + grown))
    grown = _exponential(size)
    return 0.5 * grown + 0.5 / grown


def hyperbolic_tangent(value: float) -> float:
    """Return the hyperbolic tangent (Math.tanh)."""
    size = abs(value)
    if not 2.0**-55 < size < _LARGE:
        return math.tanh(value)
    if size >= 1.0:
        result = 1.0 - 2.0 / (math.expm1(2.0 * size) + 2.0)
    else:
        grown = math.expm1(-2.0 * size)
        result = -grown / (grown + 2.0)
    return math.copysign(result, value)
