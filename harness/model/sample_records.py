"""How many records of a source are taken, and the values that are drawn where there are none."""

from __future__ import annotations

from random import Random
from typing import Final

MOST_RECORDS: Final = 200
"""How many records of a source are read."""
MOST_BYTES: Final = 64 << 20
"""How large the file of a sample may be."""
DRAWN_RECORDS: Final = 40
_WORDS: Final = ("ada", "bob", "cy", "dora", "eve")


def drawn_value(kind: type, random: Random) -> str | bool | int | float | None:
    """Draw a value of a plain type; None: it is none."""
    if kind is str:
        return _WORDS[int(random.random() * len(_WORDS))]
    if kind is bool:
        return random.random() < 0.5
    if kind is int:
        return int(random.random() * 10)
    if kind is float:
        return int(random.random() * 400) / 4
    return None
