"""What the control run of a program has measured, and how long everything may take that follows from it.

Rules:

- The control run is a run without faults, once for each program and run of scenarios. If program, oracle and
  reader disagree in it, the set-up is wrong and not the program under faults: ``SetUpProblem``. So it is
  where the program is stuck later, before any fault.
- No time is fixed. How long a run waits for rows derives from how long they took without faults on the same
  machine, so a machine ten times slower waits ten times longer.
- What a run without faults cannot show has a least value: the clients of servers take their time to come
  back, and a broker waits for a consumer that was killed.
- A start that has not yet used the processor time that the first row took is still on its way, as long as it
  works: the machine may be busier than it was during the control run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from onceproof.harness.model.family import KAFKA, FamilyError
from onceproof.harness.model.history import History

_LEAST_SECONDS_TO_SETTLE: Final = 0.4
_TIMES_TO_SETTLE: Final = 2.0
"""How much longer than the longest pause between rows a complete output must stay as it is."""
_TIMES_TO_REPEAT: Final = 1.5
"""How much longer than the first row took a start has to repeat some."""
_MOST_TIMES_TO_REPEAT: Final = 5.0
"""The same for a start that uses less processor time than the first row took."""
_WORK_TO_REPEAT: Final = 0.8
"""How much of the processor time up to the first row a start uses before it is believed to have nothing to
repeat. On a busy machine seconds say little."""
_TIMES_TO_MISS: Final = 10.0
_LEAST_SECONDS_TO_MISS: Final = 3.0
_LEAST_SECONDS_TO_COME_BACK: Final = 15.0
"""Clients of servers wait between their attempts to connect."""
_SECONDS_OF_A_SESSION: Final = 45.0
"""A broker may keep the partitions of a consumer that was killed for so long, which is the default."""
_TIMES_OF_A_RUN: Final = 20.0
_LEAST_SECONDS_OF_A_RUN: Final = 60.0
_LEAST_SECONDS_TO_STOP: Final = 10.0
_TIMES_TO_STOP: Final = 10.0
_BUSY_SHARE: Final = 0.04


class Measured(msgspec.Struct, frozen=True):
    """The measures of a control run. Times are in seconds, and a start begins with the command."""

    ready_seconds: float
    """From the start to the line that says that the program is ready; 0.0 if it says none."""
    first_row_seconds: float
    """From the start to the first row."""
    latency_seconds: float
    """From a record to the next row, at most; of records that were given after the first row."""
    pause_seconds: float
    """Between two looks that found new rows, at most."""
    work_seconds: float
    """The processor time that was used up to the first row."""
    answer_work_seconds: float
    """The part of it from the moment when the program was ready."""
    stop_seconds: float
    """From the signal that ends the program, or its last row if it ends by itself, to its end."""
    seconds: float
    """Of the whole run."""
    records: int
    rows: int
    """How many rows have become visible, each replacement of a row counted."""
    marks: tuple[str, ...] = ()
    """Those of transactions that were passed."""

    @property
    def settle_seconds(self) -> float:
        """How long a complete output stays as it is before it is believed to be final."""
        return max(_LEAST_SECONDS_TO_SETTLE, _TIMES_TO_SETTLE * max(self.pause_seconds, self.latency_seconds))

    @property
    def stop_seconds_at_most(self) -> float:
        """After which a program that was asked to end is killed."""
        return max(_LEAST_SECONDS_TO_STOP, _TIMES_TO_STOP * self.stop_seconds)

    @property
    def answer_seconds(self) -> float:
        """From the moment when the program is ready to its first row; from its start if it says no such."""
        return self.first_row_seconds - self.ready_seconds

    def has_had_time(self, seconds: float, worked_seconds: Callable[[], float]) -> bool:
        """Return whether a start that is ready for so long would have repeated rows if it repeats any.

        ``worked_seconds`` returns the processor time that it has used since.
        """
        needed = self.answer_seconds * _TIMES_TO_REPEAT + self.settle_seconds
        most = self.answer_seconds * _MOST_TIMES_TO_REPEAT + self.settle_seconds
        if seconds <= needed:
            return False
        return seconds > most or worked_seconds() >= _WORK_TO_REPEAT * self.answer_work_seconds

    def quiet_seconds(self, servers: Collection[str], *, are_missing: bool) -> float:
        """Return after how long without an event nothing more is expected to come.

        ``are_missing``: rows are known to be missing; else it is not known which ones are to come.
        """
        least = _LEAST_SECONDS_TO_COME_BACK if servers else _LEAST_SECONDS_TO_MISS
        seconds = max(least, _TIMES_TO_MISS * (self.first_row_seconds + self.settle_seconds))
        return seconds + _SECONDS_OF_A_SESSION if KAFKA in servers and are_missing else seconds

    def seconds_to_be_late(
        self, servers: Collection[str], pause_seconds: float, *, has_answered: bool
    ) -> float:
        """Return after how long without an event missing rows are late.

        Args:
            servers: at its ends.
            pause_seconds: the longest one between rows in the present start, which may be slower than others.
            has_answered: it has shown rows since the last thing was done to it.
        """
        least = _LEAST_SECONDS_TO_COME_BACK if servers else _LEAST_SECONDS_TO_MISS
        pauses = _TIMES_TO_MISS * max(self.settle_seconds, _TIMES_TO_SETTLE * pause_seconds)
        start = 0.0 if has_answered else _MOST_TIMES_TO_REPEAT * self.answer_seconds
        return max(least, pauses) + start

    def seconds_of_run(self, starts: int) -> float:
        """Return after how long a run with so many starts is cut off, whatever happens in it."""
        return max(_LEAST_SECONDS_OF_A_RUN, _TIMES_OF_A_RUN * self.seconds * (1 + starts))

    def stuck(self, path: Path, seed: int | None, missed: str) -> str:
        """Return the paragraph for a program that is stuck before any fault; ``missed`` is a sentence."""
        scenario = "" if seed is None else f" in the scenario of seed {seed}"
        return (
            f"{path}: the set-up does not work:{scenario} {missed}, before any fault. In the control run the"
            f" first row came in {self.first_row_seconds:.1f} s. If the machine is busy, run fewer scenarios"
            " at a time (-n 1), or set done.quiet_seconds."
        )

    def is_on_its_way(self, seconds: float, worked_seconds: float) -> bool:
        """Return whether a start that runs for so long still works on what precedes its first row."""
        return worked_seconds < self.work_seconds and is_busy(seconds, worked_seconds)


def is_busy(seconds: float, worked_seconds: float) -> bool:
    """Return whether a start has used more of a processor than waiting for input does."""
    return worked_seconds > _BUSY_SHARE * seconds


@dataclass(frozen=True, slots=True)
class ControlRun:
    """What came of a run without faults."""

    history: History
    measured: Measured
    """Of what it came to."""
    missed: str = ""
    """What did not come, or how the program ended too early, as a sentence; "" if it came to its end."""
    said: str = ""
    """The last lines that the program has printed, as the end of a paragraph."""


class SetUpProblem(FamilyError):
    """Program, oracle and reader do not agree without any fault; the message is a paragraph."""
