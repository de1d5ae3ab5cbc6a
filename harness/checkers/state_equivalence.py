"""state_equivalence: each key group in a checkpoint equals that of an undisturbed run at the same cut.

And everything in it equals the same checkpoint of the same run on the other state backend: the same schedule
and the same faults, so time and the order of arrival are the same. Left out are only what has expired, and
operators behind one whose backend chooses an order.

Timers are compared like other state. Broadcast state is compared once, as the union of all subtasks' copies.

An operator's state depends on event time as well, so these cases are not compared with an undisturbed run:

- The event time of the operator differs between the two runs. A restored job starts without a watermark, so
  it can lag behind the undisturbed run, and behind what its own state saw before the restore.
- The operator reads, directly or not, from an operator with timers whose event time differs. A barrier that
  overtakes records can find the upstream operator at its end of time and the operator itself not.
- The family lists the state as dependent on the moments at which watermarks arrived.

Anomalies:

- missing entry: the undisturbed run has an entry for a key, and the checkpoint has none.
- surplus entry: the checkpoint has an entry for a key, and the undisturbed run has none.
- other value: both have entries, and they differ.
- unreadable: a file of the checkpoint is gone or damaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from onceproof.harness.checkers.checker import WITNESS_ROWS, Violation
from onceproof.harness.model.history import Cut

StateAddress: TypeAlias = tuple[str, str, int]
"""(operator, state, key group); the key group of state that belongs to no key is -1."""
Entries: TypeAlias = Mapping[StateAddress, Counter[str]]
"""By place, the entries as text; equal state gives equal text."""

PROPERTY = "state_equivalence"
MISSING_ENTRY = "missing entry"
SURPLUS_ENTRY = "surplus entry"
OTHER_VALUE = "other value"
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The keyed and broadcast state of a checkpoint, in a form that can be compared."""

    entries: Entries
    progress: Mapping[str, Any]
    """By comparable operator, its event time."""
    upstream: Mapping[str, frozenset[str]]
    """By operator, all operators with keyed state upstream of it, directly or not."""


@dataclass(frozen=True, slots=True)
class WholeContent:
    """All that a checkpoint holds, in a form that can be compared."""

    entries: Entries
    behind: frozenset[str] = frozenset()
    """The operators behind one whose backend chooses in which order it emits."""


def check_equivalence(
    checkpoint: int, cut: Cut, disturbed: CheckpointState, undisturbed: CheckpointState
) -> Sequence[Violation]:
    """Compare the state of a checkpoint with that of an undisturbed run at the same cut.

    Args:
        checkpoint: the checkpoint's id, for the violations.
        cut: the next offset of each split.
        disturbed: the state in the checkpoint of the run under test.
        undisturbed: the state of a run without faults.

    Returns:
        At most one violation for each anomaly; it shows the first WITNESS_ROWS places.
    """
    equal_progress = {
        operator
        for operator, progress in disturbed.progress.items()
        if operator in undisturbed.progress and undisturbed.progress[operator] == progress
    }
    comparable = {operator for operator in equal_progress if disturbed.upstream[operator] <= equal_progress}
    both = _addresses(disturbed.entries, undisturbed.entries)
    places = {address for address in both if address[0] in comparable}
    return _differences(checkpoint, cut, disturbed.entries, undisturbed.entries, places, "")


def check_backends(
    checkpoint: int,
    cut: Cut,
    stored: WholeContent,
    other: WholeContent,
    backend: str,
    by_chance: Collection[tuple[str, str]] = (),
) -> Sequence[Violation]:
    """Compare all that a checkpoint holds with the same checkpoint of the same run on another backend.

    Args:
        checkpoint: the checkpoint's id, for the violations.
        cut: the next offset of each split.
        stored: what the checkpoint of the run under test holds.
        other: what that of the other run holds.
        backend: where the other run has its keyed state.
        by_chance: the states, by operator, whose content the job draws at random.

    Returns:
        As those of ``check_equivalence``.
    """
    behind = stored.behind | other.behind
    places = {
        address
        for address in _addresses(stored.entries, other.entries)
        if address[0] not in behind and address[:2] not in by_chance
    }
    return _differences(checkpoint, cut, stored.entries, other.entries, places, backend)


def unreadable(checkpoint: int, cut: Cut, path: str, what: str) -> Violation:
    """Return the violation of a checkpoint that lacks a file, or has a damaged one."""
    witness = {"cut": dict(cut), "path": path, "what": what}
    return Violation(PROPERTY, UNREADABLE, f"checkpoint {checkpoint}", witness)


def _addresses(one: Entries, other: Entries) -> set[StateAddress]:
    return {*one, *other}


def _differences(
    checkpoint: int,
    cut: Cut,
    stored: Entries,
    expected: Entries,
    places: Iterable[StateAddress],
    backend: str,
) -> Sequence[Violation]:
    """Return a violation for each anomaly at the given places; ``backend`` is that of the other run."""
    differing: dict[str, list[dict[str, Any]]] = {}
    for address in sorted(places):
        here, there = stored.get(address, Counter()), expected.get(address, Counter())
        if here == there:
            continue
        missing, surplus = there - here, here - there
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
    beside = {"backend": backend} if backend else {}
    return [
        Violation(
            PROPERTY,
            anomaly,
            f"checkpoint {checkpoint}",
            {"cut": dict(cut), "places": found[:WITNESS_ROWS], **beside},
        )
        for anomaly, found in differing.items()
    ]
