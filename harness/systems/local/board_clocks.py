"""The clocks of the machine as all processes of a job see them: a fault of one sets the wall clock of all."""

from __future__ import annotations

from onceproof.engine.runtime.clocks import Clocks
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.clock_jumps import ahead_after_ms
from onceproof.harness.systems.process.fault_board import FaultBoard


class BoardClocks(Clocks):
    """The wall clock is as far ahead as the faults have set it that the board has seen strike."""

    def __init__(self, faults: tuple[Fault, ...], board: FaultBoard) -> None:
        self._faults = faults
        self._board = board
        self._jumps = any(FAULTS[fault.kind].strikes == "clock" for fault in faults)

    def wall_ms(self) -> int:
        """Read the wall clock, set forward or back in every process of the job."""
        ahead_ms = ahead_after_ms(self._faults, self._board.state().waiting) if self._jumps else 0
        return super().wall_ms() + ahead_ms
