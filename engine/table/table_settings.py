"""What all functions of a job share: the table options and the user's functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from onceproof.engine.table.expressions.registry import Scope
from onceproof.engine.table.operators import Moment

NO_OPTIONS: Final[Mapping[str, str]] = {}


class TableSettings(Struct, frozen=True):
    """The settings of a job of tables.

    Args: options: the options of the session by key (``table.local-time-zone`` and the like). A plan does
    not hold them, except those that it keeps with a node. functions: the user's functions by the names
    under which they were created.
    """

    options: Mapping[str, str] = NO_OPTIONS
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def scope(self, moment: Moment) -> Scope:
        """Return what the expressions of a function may use."""
        return Scope(self.options, moment, self.functions)
