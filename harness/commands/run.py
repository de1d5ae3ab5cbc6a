"""`onceproof run`: run scenarios on this machine, show progress, print a summary and write a report."""

from __future__ import annotations

import sys

from onceproof.harness.commands.check import warn_of_mistakes
from onceproof.harness.reporting.progress import Bar, progress_bar
from onceproof.harness.reporting.report_builder import build_report, write_report
from onceproof.harness.reporting.run_summary import exit_code, print_summary
from onceproof.harness.settings.run_plan import RunPlan
from onceproof.harness.trials.failures import FailureCase, examine_failures
from onceproof.harness.trials.output_files import claimed_folder, prepare_file
from onceproof.harness.trials.runner import RunResult, RunStopped, run
from onceproof.reports.text import joined


def run_command(plan: RunPlan) -> int:
    """Run the planned scenarios, print the summary, write the report, and return the exit code."""
    prepare_file(plan.junit)
    with claimed_folder(plan.out):
        return _run(plan)


def _run(plan: RunPlan) -> int:
    if plan.left_out:
        left_out = joined(plan.left_out)
        print(f"onceproof: skipped, no query for {plan.system}: {left_out}", file=sys.stderr)
    warn_of_mistakes(plan.families, plan.system, plan.seed)
    scenarios = plan.scenarios
    if scenarios is not None:
        scenarios = plan.share.scenarios_in(scenarios, len(plan.families))
    with progress_bar(scenarios, plan.max_time) as bar:
        result, cases, mistake = run_and_examine(plan, bar)
        # The summary of the finished scenarios is printed first, the error that ended the run last.
        if mistake is not None and not result.tally.scenarios:
            raise mistake
        bar.describe("writing the report")
        report = build_report(result, cases, plan.command, mistake, plan.known)
        page = write_report(report, plan.out, plan.junit)
    print_summary(result, cases, report, page, plan.as_json)
    if mistake is not None:
        raise mistake
    return exit_code(report)


def run_and_examine(plan: RunPlan, bar: Bar) -> tuple[RunResult, list[FailureCase], RunStopped | None]:
    """Run the planned scenarios, and shrink and explain what failed.

    Returns the result, one case for each family and signature, and the error that ended the run early.
    """
    mistake: RunStopped | None = None
    try:
        result = run(
            plan.families,
            scenarios=plan.scenarios,
            max_time=plan.max_time,
            seed=plan.seed,
            system=plan.system,
            workers=plan.workers,
            share=plan.share,
            out=plan.out,
            progress=bar.show,
            warn=bar.warn,
        )
    except RunStopped as stopped:
        result, mistake = stopped.result, stopped
    cases = examine_failures(result, plan.out, bar.describe, plan.known, limit_seconds=plan.shrink_time)
    return result, cases, mistake
