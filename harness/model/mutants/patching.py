"""Replacing a part of the engine, and putting back exactly what was there.

What stands in the owner's own dictionary is what is put back, a property or a static method as such; what
the owner had inherited is deleted again. So nothing of a mutant stays, also where the code under it raised.
Classes with ``__slots__`` take replaced methods like any other: slots are about instances.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_INHERITED = object()


@contextmanager
def replaced(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Let ``owner.name``, of a class or a module, be ``replacement`` for as long as the context lasts."""
    if not hasattr(owner, name):
        raise AttributeError(f"{getattr(owner, '__name__', owner)!s} has no {name!r} to replace")
    before = vars(owner).get(name, _INHERITED)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if before is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
