"""The plan of a run or a campaign, merged from the command line, pyproject.toml and the defaults.

Rules:

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

from onceproof.harness.model.family_places import (
    family_names,
    is_program,
    load_family,
    own_system,
    system_of_program,
)
from onceproof.harness.model.seeds import WHOLE, Share
from onceproof.harness.model.step_limits import MEMORY_MB, Budget
from onceproof.harness.model.step_limits import SECONDS as SECONDS_OF_SCENARIO
from onceproof.harness.model.system import reason_against
from onceproof.harness.settings.project_settings import Settings
from onceproof.harness.trials.run_plan import OUT, SEED, SYSTEM, RunPlan

Value = TypeVar("Value")

SCENARIOS: Final = 1000
"""How many scenarios a run of the simulation has if nothing says it: seconds of work."""
SECONDS: Final = 300.0
"""For how long a run of a real system goes on if nothing says it: a thousand scenarios may take an hour."""
RUN: Final = "run"
CAMPAIGN: Final = "campaign"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line says of a run; None leaves an option to the settings and the defaults."""

    families: Sequence[str] | None = None
    scenarios: int | None = None
    max_time: float | None = None
    seed: int | None = None
    system: str | None = None
    workers: int | None = None
    shrink_runs: int | None = None
    scenario_time: float | None = None
    out: Path | None = None
    junit: Path | None = None
    share: Share = WHOLE
    until_exhausted: int | None = None
    as_json: bool = False
    command: str = ""


def plan_run(settings: Settings, folder: str, options: RunOptions = RunOptions()) -> RunPlan:
    """Merge the options of a command with the settings and the defaults.

    ``folder`` is the folder for results below the setting `out`.
    """
    on_trial = system_of(settings, options.families, options.system)
    scenarios, max_time = options.scenarios, options.max_time
    if scenarios is None and max_time is None:
        scenarios, max_time = settings.scenarios, settings.max_time
        if scenarios is None and max_time is None:
            scenarios, max_time = (SCENARIOS, None) if on_trial == SYSTEM else (None, SECONDS)
    takes_all = not (options.families or settings.families)
    share = options.share
    return RunPlan(
        families_of(settings, options.families, on_trial),
        takes_all=takes_all,
        refused=refused_by(on_trial) if takes_all else (),
        scenarios=scenarios,
        max_time=max_time,
        seed=decided(options.seed, settings.seed, SEED),
        system=on_trial,
        workers=options.workers if options.workers is not None else settings.workers,
        share=Share(share.of, share.first % share.of),
        until_exhausted=options.until_exhausted,
        shrink_runs=options.shrink_runs if options.shrink_runs is not None else settings.shrink_runs,
        budget=budget_of(settings, options.scenario_time),
        out=options.out or (settings.out or OUT) / folder,
        junit=options.junit,
        known=settings.known,
        as_json=options.as_json,
        command=options.command,
    )


def budget_of(settings: Settings, scenario_time: float | None = None) -> Budget:
    """Return what a scenario may use."""
    return Budget(
        decided(scenario_time, settings.scenario_time, SECONDS_OF_SCENARIO),
        decided(None, settings.scenario_memory, MEMORY_MB),
    )


def system_of(settings: Settings, families: Sequence[str] | None = None, system: str | None = None) -> str:
    """Return the system to run on; programs and queries run on their own where no other is named."""
    addresses = families or settings.families or ()
    own = {own_system(each) for each in addresses}
    if system is None and len(own) == 1 and (only := own.pop()) is not None:
        return only
    programs = [each for each in addresses if is_program(each)]
    if system is not None and programs:
        found = {system_of_program(each, system) for each in programs}
        return found.pop() if len(programs) == len(addresses) else system
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
