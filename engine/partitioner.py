"""The partitioner of a user's, for ``partition_custom``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from onceproof.engine.functions import Function


class Partitioner(Function, ABC):
    """Chooses the subtask that gets a record, by a key of it (PyFlink: Partitioner)."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the index of the subtask, from 0 to below ``num_partitions``: always the same for a key."""
