"""state_equivalence: what a checkpoint holds of each key group is what an undisturbed run holds at that cut.

Timers are state like any other. So is broadcast state, whose copies in all subtasks are compared as one.
Where event time decides what is in the state, two runs are compared only if it had come equally far in both:
a restored job begins from no watermark, and may be behind for a while. As long as it is behind what its state
saw before the restore, the state tells of that time, and is not compared either. What an operator with timers
has given out depends on its own event time, so whoever reads of it is compared only where it is: a barrier
that overtakes can find it at its end, and those behind it not. States that depend on the moments at which
watermarks came as well are named by the family, and left out.

- missing entry: the undisturbed run holds something for a key, and the checkpoint nothing.
- surplus entry: the checkpoint holds something for a key, and the undisturbed run nothing.
- other value: both hold something, and not the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from onceproof.harness.checkers.base import WITNESS_ROWS, Violation
from onceproof.harness.model.history import Cut

Place: TypeAlias = tuple[str, str, int]
"""Operator, state, key group; -1 stands for broadcast state, which every subtask has."""

PROPERTY = "state_equivalence"
MISSING_ENTRY = "missing entry"
SURPLUS_ENTRY = "surplus entry"
OTHER_VALUE = "other value"


@dataclass(frozen=True, slots=True)
class Holdings:
    """The keyed state of a checkpoint."""

    entries: Mapping[Place, Counter[str]]
    """In words that are equal where the state is."""
    progress: Mapping[str, Any]
    """By operator that can be compared, how far event time had come."""
    upstream: Mapping[str, frozenset[str]]
    """By operator, those with keyed state from which its input comes, however many are in between."""


def check_equivalence(
    checkpoint: int, cut: Cut, kept: Holdings, undisturbed: Holdings
) -> Sequence[Violation]:
    """Compare a checkpoint with that of an undisturbed run at the same cut."""
    equally_far = {
        operator
        for operator, progress in kept.progress.items()
        if operator in undisturbed.progress and undisturbed.progress[operator] == progress
    }
    comparable = {operator for operator in equally_far if kept.upstream[operator] <= equally_far}
    differing: dict[str, list[dict[str, Any]]] = {}
    for place in sorted(kept.entries.keys() | undisturbed.entries.keys()):
        if place[0] not in comparable:
            continue
        here, there = kept.entries.get(place, Counter()), undisturbed.entries.get(place, Counter())
        if here == there:
            continue
        missing, surplus = there - here, here - there
        anomaly = OTHER_VALUE if missing and surplus else MISSING_ENTRY if missing else SURPLUS_ENTRY
        operator, state, key_group = place
        differing.setdefault(anomaly, []).append(
            {
                "operator": operator,
                "state": state,
                "key group": key_group,
                "missing": sorted(missing.elements())[:WITNESS_ROWS],
                "surplus": sorted(surplus.elements())[:WITNESS_ROWS],
            }
        )
    where = f"checkpoint {checkpoint}"
    return [
        Violation(PROPERTY, anomaly, where, {"cut": dict(cut), "places": places[:WITNESS_ROWS]})
        for anomaly, places in differing.items()
    ]
