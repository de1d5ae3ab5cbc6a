"""Replacing an attribute of the engine, and restoring exactly the previous one.

The entry of the owner's own dictionary is restored, a property or a static method as such; an attribute that
the owner inherited is deleted again. So no patch remains, even if the patched code raised. Classes with
``__slots__`` can be patched like any other: slots concern instances.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_INHERITED = object()


@contextmanager
def replaced(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Replace ``owner.name``, of a class or a module, by ``replacement`` inside the ``with`` block."""
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
