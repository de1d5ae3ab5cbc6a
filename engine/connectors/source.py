"""What a replayable source answers to.

The rules a source keeps, without which nothing above it can be exactly-once:

- A split has a stable id: the same records lie behind it in every attempt, in the same order.
- A reader opened at a position that an earlier reader reported gives exactly the records that the earlier
  one had not given yet. A position is plain data (None, numbers, strings, bytes, tuples, lists): it is
  stored.
- A source is a description, shared by all subtasks and attempts; what changes while reading is in the
  readers.
- Sources are bounded in this version: every split ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from onceproof.engine.elements import Record


class SplitReader(ABC):
    """Reads one split."""

    @abstractmethod
    def read(self, limit: int) -> list[Record]:
        """The next records, ``limit`` at most; [] only at the end of the split."""

    @property
    @abstractmethod
    def position(self) -> Any:
        """From where ``open_split`` would go on, after the last record given."""

    @property
    @abstractmethod
    def exhausted(self) -> bool:
        """Whether all records have been given."""

    def close(self) -> None:
        """Let go of files and connections; called once, at the end or at cancellation."""


class Source(ABC):
    """Names splits and opens them."""

    @abstractmethod
    def splits(self) -> Sequence[str]:
        """The ids of all splits, in any order."""

    @abstractmethod
    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """A reader from ``position``, or from the beginning where it is None."""
