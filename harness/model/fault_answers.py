"""What each system answers to each row of the fault table: the method that carries it out, or why it cannot.

Rules:

- A system answers every row. It names a method for what it can take, and a reason for each point that it
  never comes to. Why it cannot take the rest is known of the capability that it lacks. A row without a method
  is a KeyError as the system is imported.
- An answer is a value that a person can read: ``str`` gives the first line of what the method says of itself,
  or the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_kinds import FaultKind, Point
from onceproof.harness.model.faults import FAULTS, FaultRow

Method: TypeAlias = Callable[..., object]
MissingPoints: TypeAlias = Mapping[tuple[FaultKind, Point], str]
"""What a system could take by its kind, but never comes to, and why."""


class CarriedOut(NamedTuple):
    """A system carries a kind of fault out, at these points."""

    method: Method
    points: tuple[Point, ...]

    def __str__(self) -> str:
        return (self.method.__doc__ or self.method.__qualname__).partition("\n")[0]


class NotCarriedOut(NamedTuple):
    """A system cannot carry a kind of fault out."""

    reason: str

    def __str__(self) -> str:
        return self.reason


FaultAnswer: TypeAlias = CarriedOut | NotCarriedOut


def answers(
    capabilities: frozenset[Capability],
    methods: Mapping[str, Method],
    missing: MissingPoints | None = None,
    absences: Mapping[Capability, str] | None = None,
) -> Mapping[FaultKind, FaultAnswer]:
    """Return the answer to each row.

    Args:
        capabilities: of the system.
        methods: what carries faults out, by kind, or by target for all kinds that strike it.
        missing: the points that the system never comes to.
        absences: why the system lacks a capability, where the capability's own reason does not fit.

    Raises:
        KeyError: a row stays without a method.
    """
    return {
        row.kind: _answer(row, capabilities, methods, missing or {}, absences or {})
        for row in FAULTS.values()
    }


def _answer(
    row: FaultRow,
    capabilities: frozenset[Capability],
    methods: Mapping[str, Method],
    missing: MissingPoints,
    absences: Mapping[Capability, str],
) -> FaultAnswer:
    if row.needs not in capabilities:
        return NotCarriedOut(absences.get(row.needs, row.needs.absence))
    points = tuple([point for point in row.points if (row.kind, point) not in missing])
    if not points:
        return NotCarriedOut(missing[row.kind, row.points[0]])
    return CarriedOut(methods[row.kind if row.kind in methods else row.strikes], points)
