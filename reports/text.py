"""How values become words on the page.

Data from outside may hold anything. Markup is the template's concern (it escapes all); here characters that a
reader could not see, or that would reorder what stands beside them, are written as escapes, as Python's repr
does. They would also make SVG that is no XML, and text that is no UTF-8.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
# Joiners that scripts and emoji need, and that harm nobody.
HARMLESS = frozenset("\u200c\u200d")
WIDE = frozenset(("W", "F"))


def visible(text: str) -> str:
    """The text with everything unseen written as an escape; plain text comes back as it is."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_character(character) for character in text)


def _visible_character(character: str) -> str:
    never_a_character = ord(character) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(character) <= 0xFDEF
    if character in HARMLESS or not (never_a_character or unicodedata.category(character) in UNSEEN):
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def cell(value: object) -> str:
    """One value of a record or row, so that 1, "1", 1.0 and None stay different."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = visible(value)
        # Quotes only where bare text could be taken for something else.
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
    """A number for people: thousands set apart, no more digits than help."""
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
    """A count in four characters at the most, for labels without room: `812`, `1.2k`, `34k`, `5.6M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            share = value / size
            return f"{share:.1f}".removesuffix(".0") + unit if share < 9.95 else f"{share:.0f}{unit}"
    return str(value)


def counted(value: int, noun: str, plural: str = "") -> str:
    """`1 record`, `2,000 records`."""
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """A span of time in the unit that reads best."""
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
    """A name from the code as words: `exactly_once` is `exactly once`."""
    return name.replace("_", " ")


def listing(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def width(text: str, size: float) -> float:
    """About how wide a text is in pixels: no font is measured, so it errs on the wide side."""
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
    """The text cut in its middle, where beginning and end tell most."""
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"
