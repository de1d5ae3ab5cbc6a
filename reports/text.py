"""Formats values as text for the page, the command line and JUnit XML.

Data may contain any character. The templates escape markup. This module writes invisible characters, and
those that reorder their neighbours, as escapes in the style of Python's repr. XML and UTF-8 forbid some of
them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
# Zero-width joiners, which some scripts and emoji need.
HARMLESS = frozenset("\u200c\u200d")
WIDE = frozenset(("W", "F"))


def visible(text: str) -> str:
    """Return the text with invisible characters as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_character(character) for character in text)


def _visible_character(character: str) -> str:
    never_a_character = ord(character) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(character) <= 0xFDEF
    if character in HARMLESS or not (never_a_character or unicodedata.category(character) in UNSEEN):
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def cell(value: object) -> str:
    """Return one value of a record or row as text; 1, "1", 1.0 and None stay distinct."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = visible(value)
        # Quotes only if the bare text looks like another type.
        return f'"{text}"' if _needs_quotes(value) else text
    return str(value)


def _needs_quotes(value: str) -> bool:
    if not value or value != value.strip() or value in ("null", "true", "false"):
        return True
    try:
        float(value)
    except ValueError:
        return False
    return True


def number(value: float) -> str:
    """Return a number with thousands separators and about three significant digits."""
    if isinstance(value, int):
        return f"{value:,}"
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if magnitude >= 10 else f"{value:.2g}" if magnitude < 0.1 else f"{value:.2f}"


def compact(value: int) -> str:
    """Return a count in at most four characters, for small labels: `812`, `1.2k`, `34k`, `5.6M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            share = value / size
            return f"{share:.1f}".removesuffix(".0") + unit if share < 9.95 else f"{share:.0f}{unit}"
    return str(value)


def counted(value: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 record`, `2,000 records`."""
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Return a duration in milliseconds, seconds, minutes or hours."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def words(name: str) -> str:
    """Return an identifier as words: `exactly_once` becomes `exactly once`."""
    return name.replace("_", " ")


def joined(parts: Sequence[str]) -> str:
    """Return the parts as an enumeration: `a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def width(text: str, size: float) -> float:
    """Return an estimate of a text's width in pixels, rather too wide than too narrow."""
    ems = 0.0
    for character in text:
        if character in "iljtfrI.,:;'|!()[] ":
            ems += 0.36
        elif unicodedata.east_asian_width(character) in WIDE:
            ems += 1.05
        elif character in "mwMW@%":
            ems += 0.92
        else:
            ems += 0.62
    return ems * size


def shortened(text: str, longest: int) -> str:
    """Return the text with its middle cut out if it is longer than ``longest``."""
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"
