"""The plan of a run or a campaign, merged from the command line, pyproject.toml and the defaults.

The rules this module lives by:

- The command line overrides pyproject.toml, and that overrides the defaults. Only this module merges them.
- `--scenarios` and `--max-time` are one decision: if the command line has one of them, the setting of the
  other is ignored.
- The setting `out` is the folder of the nightly run; `run` and `campaign` each write to a folder below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.model.budget import MEMORY_MB, Budget
from onceproof.harness.model.budget import SECONDS as SECONDS_OF_SCENARIO
from onceproof.harness.model.family_places import family_names, is_program, load_family
from onceproof.harness.model.program_family import SYSTEM as PROGRAMS
from onceproof.harness.model.seeds import WHOLE, Share
from onceproof.harness.model.system import reason_against
from onceproof.harness.settings.project_settings import Settings

Value = TypeVar("Value")

SCENARIOS: Final = 1000
"""How many scenarios a run of the simulation has if nothing says it: seconds of work."""
SECONDS: Final = 300.0
"""For how long a run of a real system goes on if nothing says it: a thousand scenarios may take an hour."""
SEED: Final = 0
SYSTEM: Final = "simulated"
OUT: Final = Path("reports", "out")
RUN: Final = "run"
CAMPAIGN: Final = "campaign"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """A run or a campaign with every option decided."""

    families: tuple[str, ...]
    """Names or paths."""
    refused: tuple[tuple[str, str], ...]
    """Built-in families that the system cannot run, each with the reason; empty if families are named."""
    takes_all: bool
    """Whether no family is named: the run is of all that the system can run."""
    scenarios: int | None
    max_time: float | None
    """Seconds. At least one of the two limits is set; the first one that is reached ends the run."""
    seed: int
    system: str
    workers: int | None
    """Worker processes; None: one per processor."""
    share: Share
    """The part of the run's scenarios that is run here."""
    until_exhausted: int | None
    """After how many scenarios without anything new a family ends early; None: it does not."""
    shrink_runs: int | None
    """Seconds to shrink each failure; None: the default of the system."""
    budget: Budget
    """What each scenario of the simulation may use."""
    out: Path
    junit: Path | None
    """Path of the JUnit XML file; None: do not write one."""
    known: tuple[KnownSignature, ...]
    as_json: bool
    command: str
    """The command line as the user typed it."""


def plan_run(
    settings: Settings,
    folder: str,
    *,
    families: Sequence[str] | None = None,
    scenarios: int | None = None,
    max_time: float | None = None,
    seed: int | None = None,
    system: str | None = None,
    workers: int | None = None,
    shrink_runs: int | None = None,
    scenario_time: float | None = None,
    out: Path | None = None,
    junit: Path | None = None,
    share: Share = WHOLE,
    until_exhausted: int | None = None,
    as_json: bool = False,
    command: str = "",
) -> RunPlan:
    """Merge the options of a command with the settings and the defaults.

    ``folder`` is the folder for results below the setting `out`; None stands for an option that the command
    line leaves out.
    """
    on_trial = system_of(settings, families, system)
    if scenarios is None and max_time is None:
        scenarios, max_time = settings.scenarios, settings.max_time
        if scenarios is None and max_time is None:
            scenarios, max_time = (SCENARIOS, None) if on_trial == SYSTEM else (None, SECONDS)
    takes_all = not (families or settings.families)
    return RunPlan(
        families=families_of(settings, families, on_trial),
        refused=refused_by(on_trial) if takes_all else (),
        takes_all=takes_all,
        scenarios=scenarios,
        max_time=max_time,
        seed=decided(seed, settings.seed, SEED),
        system=on_trial,
        workers=workers if workers is not None else settings.workers,
        share=Share(share.of, share.first % share.of),
        until_exhausted=until_exhausted,
        shrink_runs=shrink_runs if shrink_runs is not None else settings.shrink_runs,
        budget=budget_of(settings, scenario_time),
        out=out or (settings.out or OUT) / folder,
        junit=junit,
        known=settings.known,
        as_json=as_json,
        command=command,
    )


def budget_of(settings: Settings, scenario_time: float | None = None) -> Budget:
    """Return what a scenario may use."""
    return Budget(
        decided(scenario_time, settings.scenario_time, SECONDS_OF_SCENARIO),
        decided(None, settings.scenario_memory, MEMORY_MB),
    )


def system_of(settings: Settings, families: Sequence[str] | None = None, system: str | None = None) -> str:
    """Return the system to run on; programs run on the one for programs where no other is named."""
    asked = families or settings.families
    if system is None and asked and all(map(is_program, asked)):
        return PROGRAMS
    return decided(system, settings.system, SYSTEM)


def families_of(
    settings: Settings, families: Sequence[str] | None = None, system: str = SYSTEM
) -> tuple[str, ...]:
    """Return the families to run: those named, else those set, else all that the system can run."""
    asked = families or settings.families
    if asked:
        return tuple(asked)
    refused = dict(refused_by(system))
    return tuple([name for name in family_names() if name not in refused])


def refused_by(system: str) -> tuple[tuple[str, str], ...]:
    """Return the built-in families that a system says it cannot run, each with the reason."""
    reasons = ((name, reason_against(system, load_family(name))) for name in family_names())
    return tuple([(name, reason) for name, reason in reasons if reason])


def decided(option: Value | None, setting: Value | None, default: Value) -> Value:
    """Return the option of the command line, else the setting, else the default."""
    if option is not None:
        return option
    return setting if setting is not None else default
