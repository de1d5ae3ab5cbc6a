"""The plan of a run: every option decided, passed as a whole from the command line to the trials."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final

from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.model.seeds import WHOLE, Share
from onceproof.harness.model.step_limits import Budget

SEED: Final = 0
SYSTEM: Final = "simulated"
OUT: Final = Path("reports", "out")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run, a hunt, or the scenarios of a campaign."""

    families: tuple[str, ...]
    """Names or paths."""
    _: KW_ONLY
    takes_all: bool = False
    """Whether no family is named: all run that the system can run, each with as many turns in a round as its
    options say."""
    refused: tuple[tuple[str, str], ...] = ()
    """Built-in families that the system cannot run, each with the reason; empty if families are named."""
    scenarios: int | None = None
    """How many over all families and shares; None for no limit."""
    max_time: float | None = None
    """Seconds, of a hunt over all its sessions; None for no limit. The first limit that is reached ends the
    run."""
    seed: int = SEED
    """From it and the family each scenario's seed follows."""
    system: str = SYSTEM
    workers: int | None = None
    """Worker processes; 1: the scenarios run in this process; None: one worker per processor."""
    share: Share = WHOLE
    """The part of the run's scenarios that is run here."""
    until_exhausted: int | None = None
    """After how many scenarios without anything new a family ends early, or in a hunt gives its share to the
    others; None: it does not."""
    shrink_runs: int | None = None
    """In how many runs to shrink each failure; None: the default of the system."""
    budget: Budget = field(default_factory=Budget)
    """What each scenario of the simulation may use."""
    out: Path = OUT
    """The folder of the results."""
    junit: Path | None = None
    """Path of the JUnit XML file; None: do not write one."""
    known: tuple[KnownSignature, ...] = ()
    as_json: bool = False
    command: str = ""
    """The command line as the user typed it."""
