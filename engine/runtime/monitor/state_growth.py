"""Which states only grow: the leak of a job that keeps keys for ever.

Rules:

- After each completed checkpoint the size of each state of each operator is noted, over all subtasks: entries
  of keyed state and timers on the heap, elements of operator state. A database does not count its entries; of
  one the bytes of its tables are noted, for all states of the operator together.
- A state only grows if over the last ten checkpoints it never shrank, and grew in at least half of the steps.
  A state that still fills with a fixed set of keys grows as well, for a time.
- It reads the metadata of the checkpoint, which are there anyway.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from onceproof.engine.checkpoint.metadata import CheckpointMetadata, OperatorMetadata
from onceproof.engine.runtime.monitor.job_view import GrowingState

CHECKPOINTS: Final = 10
LEAST_RISES: Final = CHECKPOINTS // 2
ENTRIES: Final = "entries"
BYTES: Final = "bytes"
ALL_STATES: Final = "all states"


class StateGrowth:
    """The sizes of states at the last checkpoints."""

    __slots__ = ("_sizes",)

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, str, str], deque[int]] = {}
        """By operator, state and unit."""

    def completed(self, metadata: CheckpointMetadata) -> None:
        """Note the sizes at a completed checkpoint; a state that it does not have is forgotten."""
        sizes: Counter[tuple[str, str, str]] = Counter()
        for operator in metadata.operators:
            for state, unit, size in _sizes_of(operator):
                sizes[operator.name, state, unit] += size
        before = self._sizes
        self._sizes = {key: before.get(key, deque(maxlen=CHECKPOINTS)) for key in sizes}
        for key, size in sizes.items():
            self._sizes[key].append(size)

    def growing(self) -> tuple[GrowingState, ...]:
        """Return the states that only grow, the one that has grown most first."""
        found = [
            GrowingState(operator, state, unit, sizes[0], sizes[-1], len(sizes))
            for (operator, state, unit), sizes in self._sizes.items()
            if _only_grows(sizes)
        ]
        return tuple(sorted(found, key=lambda each: each.last - each.first, reverse=True))


def _only_grows(sizes: deque[int]) -> bool:
    steps = [later - earlier for earlier, later in pairwise(sizes)]
    return len(sizes) == CHECKPOINTS and min(steps) >= 0 and sum(step > 0 for step in steps) >= LEAST_RISES


def _sizes_of(operator: OperatorMetadata) -> Iterator[tuple[str, str, int]]:
    """Yield the name, the unit and the size of each state of each subtask."""
    for subtask in operator.subtasks:
        handle = subtask.handle
        index = None if handle is None else handle.index.get(operator.operator_id)
        if handle is None or index is None:
            continue
        for state, (_, elements) in index.operator.items():
            yield state, ENTRIES, elements
        if index.is_native:
            own = [file.length for file in handle.files if file.operator_id == operator.operator_id]
            yield ALL_STATES, BYTES, sum(own)
            continue
        for state, groups in index.keyed.items():
            yield state, ENTRIES, sum(groups.values())
