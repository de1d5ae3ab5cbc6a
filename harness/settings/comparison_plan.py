"""The plan of a comparison: the same scenarios of some families on several systems, a run for each system.

The rules this module lives by:

- Each system runs the families that it can run. What it cannot run is left out with a line that names the
  reason; the others are compared all the same.
- A system whose packages or whose Java are missing is left out as well. A name that is no system is an error,
  because it is a typing mistake.
- With nothing left the reasons are the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from onceproof.engine.extras import ExtraMissing
from onceproof.engine.runtime.java import JavaMissing
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.exit_codes import UsageError
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.model.system import NeedsPrograms, System, Trying, find_system, reason_against
from onceproof.harness.model.system_homes import system_names
from onceproof.harness.services.service import ServiceMissing
from onceproof.harness.settings.planning import RunOptions, plan_run
from onceproof.harness.settings.project_settings import Settings
from onceproof.harness.trials.run_plan import SEED, RunPlan

COMPARE: Final = "compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPlan:
    """A comparison with every option decided."""

    runs: tuple[RunPlan, ...]
    """One for each system; its folder stands below ``out`` and has the name of the system."""
    left_out: tuple[str, ...]
    """One line for each family and system that cannot be compared."""
    out: Path
    as_json: bool
    command: str


def plan_comparison(
    settings: Settings,
    options: RunOptions,
    systems: str,
) -> ComparisonPlan:
    """Decide which families run on which systems.

    Args:
        settings: those of the project.
        options: its scenarios are those of each family on each system.
        systems: the names of systems, with commas between them.

    Raises:
        UsageError: no system is named, or none of them can run any of the families.
        UnknownSystem: a name is that of no system.
        FamilyError: a family cannot be loaded.
    """
    loaded = {address: load_family(address) for address in options.families or ()}
    names = dict.fromkeys(name for part in systems.split(",") if (name := part.strip()))
    if not names:
        raise UsageError(f"--systems names no system: there are {', '.join(system_names())}")
    left_out: list[str] = []
    runs: list[RunPlan] = []
    for name in names:
        try:
            system = find_system(name)
            if isinstance(system, NeedsPrograms):
                system.require_programs()
        except (ExtraMissing, JavaMissing, ServiceMissing) as missing:
            left_out.append(f"left out: {missing}")
            continue
        reasons = _reasons_against(system, loaded, options.seed or settings.seed or SEED)
        fitting = []
        for address, reason in reasons.items():
            if reason:
                left_out.append(f"{address} is left out on {name}: {reason}")
            else:
                fitting.append(address)
        if fitting:
            count = None if options.scenarios is None else options.scenarios * len(fitting)
            own = replace(options, families=fitting, scenarios=count, system=name)
            plan = plan_run(settings, COMPARE, own)
            runs.append(replace(plan, out=plan.out / name))
    if not runs:
        raise UsageError(f"nothing to compare: {'; '.join(left_out)}")
    return ComparisonPlan(
        runs=tuple(runs),
        left_out=tuple(left_out),
        out=runs[0].out.parent,
        as_json=options.as_json,
        command=options.command,
    )


def _reasons_against(system: System, families: Mapping[str, Family], seed: int) -> dict[str, str]:
    """Return by address why a system cannot run each family; "" if it can. Some systems must try it."""
    reasons = {address: reason_against(system.name, family) for address, family in families.items()}
    if isinstance(system, Trying):
        tried = system.refusals(
            (family, generate(family, scenario_seed(seed, family.name, 0)))
            for address, family in families.items()
            if not reasons[address]
        )
        for address, family in families.items():
            reasons[address] = reasons[address] or tried.get(family.name, "")
    return reasons
