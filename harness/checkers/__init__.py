"""The checkers, one for each property that a run is judged by.

The order of CHECKERS decides signatures: a failure is named by its first violation, so causes come before
consequences. An exception in a machine comes first, because it can spoil everything after it. Wrong output
comes before the commits and attempts that produced it. Leaks come last: a stuck job leaks as a consequence.
"""

from __future__ import annotations

from typing import Final

from onceproof.harness.checkers import restore_anywhere, state_equivalence
from onceproof.harness.checkers.checker import Checker, Signature, Violation
from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.fencing import Fencing
from onceproof.harness.checkers.liveness import Liveness
from onceproof.harness.checkers.mode import Mode
from onceproof.harness.checkers.no_error import NoError
from onceproof.harness.checkers.no_leaks import NoLeaks
from onceproof.harness.checkers.timeliness import Timeliness

CHECKERS: Final[tuple[Checker, ...]] = (
    NoError(),
    ExactlyOnce(),
    Mode(),
    ConsistentCut(),
    Fencing(),
    Liveness(),
    Timeliness(),
    NoLeaks(),
)

PROPERTIES: Final = tuple(checker.property for checker in CHECKERS)

OF_CHECKPOINTS: Final = (ConsistentCut.property, Timeliness.property)
"""Properties that can only be asked where the history has the checkpoints of the job."""

CONTINUATIONS: Final = (restore_anywhere.PROPERTY, state_equivalence.PROPERTY)
"""Properties that are checked for a sample of the scenarios only: each check needs further runs, which
continue the job from one of its checkpoints."""

__all__ = [
    "CHECKERS",
    "CONTINUATIONS",
    "OF_CHECKPOINTS",
    "PROPERTIES",
    "Checker",
    "Signature",
    "Violation",
]
