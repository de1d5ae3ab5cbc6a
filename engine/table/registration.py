"""How what serves a name of plans is registered: by a decorator, in the table of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Key = TypeVar("Key")
Made = TypeVar("Made")


def registering(table: dict[Key, Made], keys: Iterable[Key]) -> Callable[[Made], Made]:
    """Return a decorator that puts what it decorates into a table, under each of the keys."""

    def register(made: Made) -> Made:
        for key in keys:
            assert key not in table, f"{key} is registered twice"
            table[key] = made
        return made

    return register
