"""state_equivalence: each key group in a checkpoint equals that of an undisturbed run at the same cut.

Timers are compared like other state. Broadcast state is compared once, as the union of all subtasks' copies.

An operator's state depends on event time as well, so these cases are not compared:

- The event time of the operator differs between the two runs. A restored job starts without a watermark, so
  it can lag behind the undisturbed run, and behind what its own state saw before the restore.
- The operator reads, directly or not, from an operator with timers whose event time differs. A barrier that
  overtakes records can find the upstream operator at its end of time and the operator itself not.
- The family lists the state as dependent on the moments at which watermarks arrived.

Anomalies:

- missing entry: the undisturbed run has an entry for a key, and the checkpoint has none.
- surplus entry: the checkpoint has an entry for a key, and the undisturbed run has none.
- other value: both have entries, and they differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from onceproof.harness.checkers.checker import WITNESS_ROWS, Violation
from onceproof.harness.model.history import Cut

StateAddress: TypeAlias = tuple[str, str, int]
"""(operator, state, key group); the key group of broadcast state is -1."""

PROPERTY = "state_equivalence"
MISSING_ENTRY = "missing entry"
SURPLUS_ENTRY = "surplus entry"
OTHER_VALUE = "other value"


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The keyed and broadcast state of a checkpoint, in a form that can be compared."""

    entries: Mapping[StateAddress, Counter[str]]
    """The entries as text; equal state gives equal text."""
    progress: Mapping[str, Any]
    """By comparable operator, its event time."""
    upstream: Mapping[str, frozenset[str]]
    """By operator, all operators with keyed state upstream of it, directly or not."""


def check_equivalence(
    checkpoint: int, cut: Cut, disturbed: CheckpointState, undisturbed: CheckpointState
) -> Sequence[Violation]:
    """Compare the state of a checkpoint with that of an undisturbed run at the same cut.

    :param checkpoint: the checkpoint's id, for the violations
    :param cut: the next offset of each split
    :param disturbed: the state in the checkpoint of the run under test
    :param undisturbed: the state of a run without faults
    :return: at most one violation for each anomaly; it shows the first WITNESS_ROWS places
    """
    equal_progress = {
        operator
        for operator, progress in disturbed.progress.items()
        if operator in undisturbed.progress and undisturbed.progress[operator] == progress
    }
    comparable = {operator for operator in equal_progress if disturbed.upstream[operator] <= equal_progress}
    differing: dict[str, list[dict[str, Any]]] = {}
    for address in sorted(disturbed.entries.keys() | undisturbed.entries.keys()):
        if address[0] not in comparable:
            continue
        actual = disturbed.entries.get(address, Counter())
        expected = undisturbed.entries.get(address, Counter())
        if actual == expected:
            continue
        missing, surplus = expected - actual, actual - expected
        anomaly = OTHER_VALUE if missing and surplus else MISSING_ENTRY if missing else SURPLUS_ENTRY
        operator, state, key_group = address
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
