"""What the planted bugs in nodes of tables share: their scripts, and what a function has met in its attempt.

A restored function is another object, so what is noted of one ends with its attempt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

_SCRIPTS: Final = Path(__file__).parents[3] / "scenarios" / "sql"


def script(name: str) -> str:
    """Return the address of a script by its name."""
    return str(_SCRIPTS / f"{name}.sql")


def meets_first(function: Any, key: Any) -> bool:
    """Return whether a function meets a key for the first time in its attempt."""
    met = function.__dict__.setdefault("met", set())
    is_first = key not in met
    met.add(key)
    return is_first


def made_here(function: Any) -> set[Any]:
    """Return what a function has noted in this attempt."""
    noted: set[Any] = function.__dict__.setdefault("made_here", set())
    return noted
