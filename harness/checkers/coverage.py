"""coverage: a large campaign meets every planned kind of fault at every point it can happen at.

A fault that is planned and never strikes is a hole that looks like safety, so a campaign of CAMPAIGN
scenarios or more fails for it. Smaller ones are not asked: chance alone leaves gaps in them.

Anomalies:

- fault never fired: a (kind, point) of the fault table did not strike once.
- point never passed: no task passed a protocol point.
- mode never taken: no checkpoint completed in a mode that every family may draw; at-least-once not all may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from onceproof.harness.checkers.base import Violation
from onceproof.harness.model.faults import FAULT_KINDS, FAULTS, POINTS, FaultKind, Point
from onceproof.harness.model.scenario import Barriers

PROPERTY = "coverage"
FAULT_NEVER_FIRED = "fault never fired"
POINT_NEVER_PASSED = "point never passed"
MODE_NEVER_TAKEN = "mode never taken"
MODES: Final[tuple[Barriers, ...]] = ("aligned", "unaligned")

CAMPAIGN = 10_000


def check_coverage(
    scenarios: int,
    fired: Mapping[tuple[str, str], int] | Mapping[tuple[FaultKind, Point], int],
    passed: Mapping[str, int],
    kinds: Sequence[FaultKind] = FAULT_KINDS,
) -> Sequence[Violation]:
    """Return what a campaign has missed, of the fault kinds that the system on trial can take."""
    if scenarios < CAMPAIGN:
        return ()
    violations = [
        Violation(PROPERTY, FAULT_NEVER_FIRED, f"{kind} at {point}", {"kind": kind, "point": point})
        for kind in kinds
        for point in FAULTS[kind].points
        if not fired.get((kind, point))
    ]
    violations += [
        Violation(PROPERTY, POINT_NEVER_PASSED, point, {"point": point})
        for point in POINTS
        if not passed.get(point)
    ]
    violations += [
        Violation(PROPERTY, MODE_NEVER_TAKEN, mode, {"mode": mode})
        for mode in MODES
        if not passed.get(mode_point(mode))
    ]
    return violations


def mode_point(barriers: Barriers) -> str:
    """Return under which name completed checkpoints of a mode are counted beside passed points."""
    return f"completed {barriers}"
