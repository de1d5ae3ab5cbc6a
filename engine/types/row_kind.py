"""The kinds of changes that a row can be, under PyFlink's name."""

from __future__ import annotations

from enum import Enum
from typing import Final

_SIGNS: Final = ("+I", "-U", "+U", "-D")


class RowKind(Enum):
    """What a row says of a table (PyFlink: RowKind)."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _SIGNS[self.value]
