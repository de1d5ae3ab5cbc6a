"""A cause that a counterfactual run has confirmed.

Rules:

- A cause is asserted only if the job passes with that one thing different: the failing scenario, the scenario
  that it was shrunk from, and others of the family.
- It is a value: equal causes are one finding, in whichever scenarios they show.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class ConfirmedCause:
    """What is wrong in a job, at which line, and the counterfactual without which it would be a guess."""

    operator: str
    """The operator or the function of it; empty where the line belongs to the job as a whole."""
    what: str
    """What is wrong: `self.seen` of Dedup is kept outside Flink state."""
    file: str
    line: int
    counterfactual: str
    """What was different in the runs that passed: with `self.seen` carried over from the checkpoint."""

    @property
    def place(self) -> str:
        """The line as an editor finds it, without the folder."""
        return f"{PurePath(self.file).name}:{self.line}"

    @property
    def sentence(self) -> str:
        """Return the cause in two sentences."""
        where = f" in {self.operator}" if self.operator else ""
        counterfactual = f"{self.counterfactual[:1].upper()}{self.counterfactual[1:]}"
        return f"{self.place}{where}: {self.what}. {counterfactual}, every property holds."
