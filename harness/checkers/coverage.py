"""coverage: a large campaign injects every kind of fault at every protocol point where it is valid.

A fault that never fires proves nothing about the engine, so a campaign of CAMPAIGN scenarios or more fails
for it. Smaller campaigns are not checked, because chance alone leaves gaps in them.

Anomalies:

- fault never fired: a (kind, point) of the fault table never fired.
- point never passed: no task passed a protocol point.
- mode never taken: no checkpoint completed in a barrier mode. At-least-once is not checked, because some
  families do not support it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from onceproof.harness.checkers.checker import Violation
from onceproof.harness.model.fault_kinds import POINTS, FaultKind, Point
from onceproof.harness.model.faults import FAULTS, JOB_FAULTS
from onceproof.harness.model.job_settings import Barriers

PROPERTY = "coverage"
FAULT_NEVER_FIRED = "fault never fired"
POINT_NEVER_PASSED = "point never passed"
MODE_NEVER_TAKEN = "mode never taken"
MODES: Final[tuple[Barriers, ...]] = ("aligned", "unaligned")

CAMPAIGN = 10_000
"""The number of scenarios from which on coverage is checked."""


def check_coverage(
    scenarios: int,
    fired: Mapping[tuple[str, str], int] | Mapping[tuple[FaultKind, Point], int],
    passed: Mapping[str, int],
    kinds: Sequence[FaultKind] = JOB_FAULTS,
) -> Sequence[Violation]:
    """Return a violation for each fault, protocol point and barrier mode that a campaign missed.

    Args:
        scenarios: how many scenarios ran; fewer than CAMPAIGN give no violations.
        fired: how often each (kind, point) fired.
        passed: how often each protocol point was passed, and each name of :func:`mode_point` counted.
        kinds: the fault kinds that the system under test supports.
    """
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
    """Return the name under which an outcome's ``points`` counts completed checkpoints of a barrier mode."""
    return f"completed {barriers}"
