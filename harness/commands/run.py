"""`onceproof run`: run scenarios on this machine, show progress, print a summary and write a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from onceproof.harness.commands.check import warn_of_mistakes
from onceproof.harness.model.exit_codes import UsageError
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.seeds import numbered
from onceproof.harness.model.system import Trying, find_system, let_go
from onceproof.harness.reporting.progress import Bar, progress_bar
from onceproof.harness.reporting.report_builder import build_report, write_report_or_note
from onceproof.harness.reporting.run_summary import exit_code, print_summary
from onceproof.harness.systems.simulation.stopping import seconds_for_each
from onceproof.harness.trials.failures import FailureCase, examine_failures
from onceproof.harness.trials.output_files import OutputUnwritable, claimed_folder, prepare_file
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult, RunStopped, load_families, run, scenarios_of_share
from onceproof.harness.trials.trial import scenario_of

_TRIED_WHERE_JOBS_ARE_DRAWN: Final = 20
"""How many jobs of a family are built whose graph is drawn with its records; of others one."""


def run_command(plan: RunPlan) -> int:
    """Run the planned scenarios, print the summary, write the report, and return the exit code."""
    prepare_file(plan.junit)
    plan = without_refused(plan)
    with claimed_folder(plan.out), seconds_for_each(plan.budget.seconds):
        return _run(plan)


def _run(plan: RunPlan) -> int:
    warn_of_mistakes(plan.families, plan.system, plan.seed, plan.budget)
    families = load_families(plan.families)
    scenarios = scenarios_of_share(families, plan)
    unwritten: list[OutputUnwritable] = []
    with progress_bar(scenarios, plan.max_time) as bar:
        result, cases, mistake = run_and_examine(plan, bar, unwritten)
        # The summary of the finished scenarios is printed first, the error that ended the run last.
        if mistake is not None and not result.tally.scenarios:
            raise mistake
        bar.describe("writing the report")
        report = build_report(result, cases, plan.command, mistake, plan.known, plan.refused)
        page = write_report_or_note(report, plan.out, plan.junit, unwritten)
    print_summary(result, cases, report, plan.out, page, plan.as_json)
    for error in (mistake, *unwritten):
        if error is not None:
            raise error
    return exit_code(report)


def without_refused(plan: RunPlan) -> RunPlan:
    """Return the plan without the families that its system cannot run, which it then names with the reasons.

    A family that the command line or the settings name stays: that it cannot run is an error.

    Raises:
        UsageError: no family is left.
    """
    if not plan.takes_all:
        return plan
    system = find_system(plan.system)
    refused = dict(plan.refused)
    if isinstance(system, Trying):
        with let_go(system):
            refused |= system.refusals(_trials_of(plan))
    left = tuple([name for name in plan.families if name not in refused])
    if not left:
        raise UsageError(f"system {plan.system} can run none of the built-in families: name one of yours")
    return replace(plan, families=left, refused=tuple(sorted(refused.items())))


def _trials_of(plan: RunPlan) -> Iterator[tuple[Family, Scenario]]:
    """Yield each family with the first scenarios of the run, as many as its jobs may differ in."""
    for name in plan.families:
        family = load_family(name)
        is_drawn = options_of(family).draws_graphs
        for _, seed in numbered(plan.seed, [family.name], 0, _TRIED_WHERE_JOBS_ARE_DRAWN if is_drawn else 1):
            yield family, scenario_of(family, seed)


def run_and_examine(
    plan: RunPlan, bar: Bar, unwritten: list[OutputUnwritable] | None = None
) -> tuple[RunResult, list[FailureCase], RunStopped | None]:
    """Run the planned scenarios, and shrink and explain what failed.

    Returns the result, one case for each finding, and the error that ended the run early. Errors
    of writing the failing scenarios go into ``unwritten``; without it the first one is raised.
    """
    mistake: RunStopped | None = None
    try:
        result = run(plan, plan.out, bar.show, bar.warn)
    except RunStopped as stopped:
        result, mistake = stopped.result, stopped
    return result, examine_failures(result, plan, bar.describe, unwritten=unwritten), mistake
