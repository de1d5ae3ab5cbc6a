"""The checkers, one for each property that a run is judged by.

The order of CHECKERS decides signatures: a failure is named by its first violation, so causes come before
consequences. An exception in a machine comes first, because it can spoil everything after it. Wrong output
comes before the commits and attempts that produced it,
and before the claim that all of it is there. Leaks come late: a stuck job leaks as a consequence. Conformance
comes last: an answer of a machine names a failure only where nothing outside shows one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceproof.harness.checkers import restore_anywhere, state_equivalence
from onceproof.harness.checkers.checker import Checker, Signature, Violation
from onceproof.harness.checkers.completeness import Completeness
from onceproof.harness.checkers.conformance import Conformance
from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.fencing import Fencing
from onceproof.harness.checkers.liveness import Liveness
from onceproof.harness.checkers.mode import Mode
from onceproof.harness.checkers.no_error import NoError
from onceproof.harness.checkers.no_leaks import NoLeaks
from onceproof.harness.checkers.timeliness import Timeliness
from onceproof.harness.model.capabilities import Capability

CHECKERS: Final[tuple[Checker, ...]] = (
    NoError(),
    ExactlyOnce(),
    Mode(),
    ConsistentCut(),
    Completeness(),
    Fencing(),
    Liveness(),
    Timeliness(),
    NoLeaks(),
    Conformance(),
)

PROPERTIES: Final = tuple(checker.property for checker in CHECKERS)

NEEDS: Final[Mapping[str, frozenset[Capability]]] = {
    ConsistentCut.property: frozenset((Capability.CHECKPOINTS_SEEN,)),
    Timeliness.property: frozenset((Capability.CHECKPOINTS_SEEN,)),
    Conformance.property: frozenset((Capability.MACHINES_SEEN,)),
    Completeness.property: frozenset((Capability.INPUT_SEEN, Capability.CHECKPOINTS_SEEN)),
}
"""Properties that can only be asked where the history has what they judge: one of these must be seen."""

CONTINUATIONS: Final = (restore_anywhere.PROPERTY, state_equivalence.PROPERTY)
"""Properties that are checked for a sample of the scenarios only: each check needs further runs, which
continue the job from one of its checkpoints."""


def properties_asked_of(capabilities: frozenset[Capability]) -> list[str]:
    """Return the properties that are asked of each run of a system with these capabilities."""
    return [each for each in PROPERTIES if each not in NEEDS or NEEDS[each] & capabilities]


__all__ = [
    "CHECKERS",
    "CONTINUATIONS",
    "PROPERTIES",
    "Checker",
    "Signature",
    "Violation",
    "properties_asked_of",
]
