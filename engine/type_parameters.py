"""Subscripts of the classes that are generic in PyFlink: ``ProcessWindowFunction[tuple, int, str, W]``.

The engine reads no type parameters: declared types are the ``output_type`` of a transformation. A subscript
tells something to the reader only, and a class takes any number of them.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any


class TypeParameters:
    """Base of the classes that take subscripts."""

    __slots__ = ()

    def __class_getitem__(cls, parameters: Any) -> GenericAlias:
        """Return the class with parameters, to inherit from or to annotate with."""
        return GenericAlias(cls, parameters)
