"""Floats as Java 17 writes them (jdk.internal.math.FloatingDecimal): what ``Double.toString`` returns.

The rules this module lives by:

- The digits are not always the fewest that mean the same float. A whole number beyond the precision of its
  type loses the digits that its bits do not hold, ``1.69999995E10``; other numbers may have a digit too many.
  Java 19 and later write the fewest; Flink's recorded results come from Java 17.
- Digits are developed as there, step by step: which steps are taken decides about the last digit. Java
  has some of the numbers in 32 or 64 bits, and takes a sum that overflows for a small one.
"""

from __future__ import annotations

import math
from struct import Struct
from typing import Final

from onceproof.engine.table.values import to_float32

_DOUBLE: Final = Struct("<d")
_DOUBLE_BITS: Final = Struct("<q")
_FLOAT: Final = Struct("<f")
_FLOAT_BITS: Final = Struct("<i")
_FRACTION_BITS: Final = 52
_HIDDEN: Final = 1 << _FRACTION_BITS
_MOST_WHOLE_BITS: Final = 62
_BITS_OF_FIVES: Final = tuple((5**power).bit_length() if power else 0 for power in range(27))
"""By power, the bits of 5 to that power, as Java counts them: none of 1."""
_PLAIN_POWERS: Final = range(-3, 7)
"""The powers of ten of the first digits of numbers that are written without an exponent."""


def double_text(value: float) -> str:
    """Return a float of 64 bits as Java has it (Double.toString)."""
    (bits,) = _DOUBLE_BITS.unpack(_DOUBLE.pack(abs(value)))
    return _text(value, bits, _FRACTION_BITS, 1023)


def float_text(value: float) -> str:
    """Return a float of 32 bits as Java has it (Float.toString); another one is rounded to the next."""
    rounded = to_float32(value)
    (bits,) = _FLOAT_BITS.unpack(_FLOAT.pack(abs(rounded)))
    return _text(rounded, bits, 23, 127)


def _text(value: float, bits: int, fraction_bits: int, bias: int) -> str:
    """Return a float as text.

    Args:
        value: the float.
        bits: those of its amount.
        fraction_bits: how many of these are its fraction.
        bias: what its exponent is greater by.
    """
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value != value:
        return "NaN"
    if not value or value - value:
        return f"{sign}{'Infinity' if value else '0.0'}"
    power, fraction = bits >> fraction_bits, bits & ((1 << fraction_bits) - 1)
    if power:
        fraction |= 1 << fraction_bits
    size = fraction.bit_length()
    # One below the normal ones has fewer bits.
    power = power - bias if power else size - bias - fraction_bits
    digits, exponent = _digits(power, fraction << (_FRACTION_BITS + 1 - size), size)
    if exponent in _PLAIN_POWERS:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        whole = digits[: exponent + 1].ljust(exponent + 1, "0")
        return f"{sign}{whole}.{digits[exponent + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(power: int, fraction: int, significant_bits: int) -> tuple[str, int]:
    """Return the digits of a float, and the power of ten of the first (FloatingDecimal.dtoa).

    Args:
        power: the power of two of its first bit.
        fraction: its bits, the first of them at place 52.
        significant_bits: how many of these it has.
    """
    zeros = (fraction & -fraction).bit_length() - 1
    size = _FRACTION_BITS + 1 - zeros
    behind_point = max(0, size - power - 1)
    if not behind_point and power <= _MOST_WHOLE_BITS:
        shift = power - _FRACTION_BITS
        whole = fraction << shift if shift >= 0 else fraction >> -shift
        return _whole_digits(whole, power - significant_bits - 1)
    exponent = _estimated_exponent(power, fraction)
    fives, scale_fives = max(0, -exponent), max(0, exponent)
    twos, scale_twos = fives + behind_point + power, scale_fives + behind_point
    half_twos = twos - significant_bits
    twos -= size - 1
    common = min(twos, scale_twos)
    twos, scale_twos, half_twos = twos - common, scale_twos - common, half_twos - common
    if size == 1:
        # Below a power of two the next number is half as far away.
        half_twos -= 1
    if half_twos < 0:
        twos, scale_twos, half_twos = twos - half_twos, scale_twos - half_twos, 0
    largest = max(size + twos + _bits_of_fives(fives), scale_twos + 1 + _bits_of_fives(scale_fives + 1))
    bits = next((each for each in (32, 64) if largest < each), 0)
    rest, scale, half = (
        (fraction >> zeros) * 5**fives << twos,
        5**scale_fives << scale_twos,
        5**fives << half_twos,
    )
    return _developed(rest, scale, half, exponent, bits)


def _developed(rest: int, scale: int, half: int, exponent: int, bits: int) -> tuple[str, int]:
    """Return digits until no other number has them.

    Args:
        rest: what digits are developed of, in units of ``scale``.
        scale: that of the first digit.
        half: how far away numbers are that have another text.
        exponent: the power of ten of the first digit, which may be too large by one.
        bits: the size of the numbers in which Java has all of these; 0: any. It compares in another way then.
    """
    tens, digits = 10 * scale, ""
    # What overflows in Java is negative.
    largest = (1 << bits - 1) - 1 if bits else math.inf
    is_first = True
    while True:
        digit, rest = divmod(rest, scale)
        rest, half = 10 * rest, 10 * half
        is_low = rest < half
        is_high = half > largest or tens < rest + half <= largest or (not bits and rest + half == tens)
        if is_first and not digit and not is_high:
            exponent -= 1
        else:
            digits += chr(48 + digit)
        if is_first and not -3 <= exponent < 8:
            # A number with an exponent has a digit behind its point.
            is_low = is_high = False
        is_first = False
        if is_low or is_high:
            break
    if is_high and (not is_low or 2 * rest > tens or (2 * rest == tens and int(digits[-1]) & 1)):
        size, digits = len(digits), str(int(digits) + 1)
        exponent += len(digits) - size
        digits = digits[:size]
    return digits, exponent


def _whole_digits(whole: int, lost_bits: int) -> tuple[str, int]:
    """Return the digits of a whole number, without those that the bits of its type do not hold."""
    lost = len(str(1 << lost_bits)) - 1 if lost_bits > 1 else 0
    digits, rest = divmod(whole, 10**lost)
    if lost and 2 * rest >= 10**lost:
        digits += 1
    text = str(digits)
    return text.rstrip("0"), len(text) - 1 + lost


def _bits_of_fives(power: int) -> int:
    return _BITS_OF_FIVES[power] if power < len(_BITS_OF_FIVES) else 3 * power


def _estimated_exponent(power: int, fraction: int) -> int:
    """Return the power of ten of the first digit, which may be too large by one."""
    (near_one,) = _DOUBLE.unpack(_DOUBLE_BITS.pack(1023 << _FRACTION_BITS | fraction & (_HIDDEN - 1)))
    estimate: float = (near_one - 1.5) * 0.289529654 + 0.176091259 + power * 0.301029995663981
    return math.floor(estimate)
