"""One checker for each property that a run is judged by.

Their order is that of signatures: a failure is known by its first violation, so what explains the others
comes first. A machine that raised may spoil everything after it; wrong output outranks the commits and
attempts it came through; a job that is stuck has its leaks from that.
"""

from __future__ import annotations

from typing import Final

from onceproof.harness.checkers import restore_anywhere, state_equivalence
from onceproof.harness.checkers.base import Checker, Signature, Violation
from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.fencing import Fencing
from onceproof.harness.checkers.liveness import Liveness
from onceproof.harness.checkers.mode import Mode
from onceproof.harness.checkers.no_error import NoError
from onceproof.harness.checkers.no_leaks import NoLeaks

CHECKERS: Final[tuple[Checker, ...]] = (
    NoError(),
    ExactlyOnce(),
    Mode(),
    ConsistentCut(),
    Fencing(),
    Liveness(),
    NoLeaks(),
)

PROPERTIES: Final = tuple(checker.property for checker in CHECKERS)

CONTINUATIONS: Final = (restore_anywhere.PROPERTY, state_equivalence.PROPERTY)
"""What is asked of a share of the scenarios: it takes more runs than the one that a history tells of."""

__all__ = ["CHECKERS", "CONTINUATIONS", "PROPERTIES", "Checker", "Signature", "Violation"]
