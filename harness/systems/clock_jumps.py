"""How far the faults of a scenario set the wall clock.

The rules this module lives by:

- The wall clock belongs to the machine: what a fault has set stays set when the process of the job dies.
- Before any fault it is so far ahead that no jump back takes it below zero, since no clock of a machine shows
  a time before the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable

from onceproof.engine.runtime.clocks import Clocks
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.fault_clock import ClockState


def jump_ms(fault: Fault) -> int:
    """Return by how many milliseconds a fault sets the wall clock forward; 0 for faults of other kinds."""
    return FAULTS[fault.kind].turns_clock * fault.delay


class ShiftedClocks(Clocks):
    """The clocks of the machine as one process of the job sees them: the wall clock can be set."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self._ahead_ms = ahead_ms

    def wall_ms(self) -> int:
        """Return the time since the epoch by the wall clock, as far as faults have set it."""
        return super().wall_ms() + self._ahead_ms

    def jump(self, fault: Fault) -> None:
        """Set the wall clock of this process forward or back."""
        self._ahead_ms += jump_ms(fault)


def ahead_after_ms(faults: Iterable[Fault], state: ClockState) -> int:
    """Return how far the faults that have struck in earlier processes of a run have set the wall clock."""
    still_to_strike = {number for number, _, _ in state.striking}
    return sum(
        jump_ms(fault)
        for number, fault in enumerate(faults)
        if not state.waits_for(number) and number not in still_to_strike
    )


def first_ahead_ms(faults: Iterable[Fault]) -> int:
    """Return how far the simulated wall clock is ahead before the first fault of a scenario."""
    return sum(max(0, -jump_ms(fault)) for fault in faults)
