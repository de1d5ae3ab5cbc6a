"""Where the watches of a simulated run say what deviates from its specification."""

from __future__ import annotations

from typing import Any, Protocol


class Deviations(Protocol):
    """Where watched operators say what deviates."""

    @property
    def has_deviated(self) -> bool:
        """Whether nothing more is judged."""

    @property
    def step(self) -> int:
        """The number of the current step."""

    def deviate(self, machine: str, event: Any, expected: Any, got: Any) -> None:
        """Note the first deviation."""
