"""`onceproof compare`: run the same scenarios on several systems, print them side by side and write a page.

The rules this module lives by:

- Each system has a run of its own, one after another, with the same seed; its outcomes and its failures are
  in a folder with its name.
- The first error or interrupt ends the comparison. What was finished is printed and written all the same.
"""

from __future__ import annotations

import sys

from onceproof.harness.commands.check import warn_of_mistakes
from onceproof.harness.commands.run import run_and_examine
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.system import capabilities_of
from onceproof.harness.reporting.comparison import ComparedRun, build_comparison
from onceproof.harness.reporting.comparison_summary import print_comparison
from onceproof.harness.reporting.progress import progress_bar
from onceproof.harness.reporting.report_builder import write_report
from onceproof.harness.reporting.run_summary import exit_code
from onceproof.harness.settings.comparison_plan import ComparisonPlan
from onceproof.harness.trials.output_files import claimed_folder
from onceproof.harness.trials.runner import RunStopped


def compare_command(plan: ComparisonPlan) -> int:
    """Run the planned scenarios on each system, print and write the comparison, and return the exit code."""
    with claimed_folder(plan.out):
        return _compare(plan)


def _compare(plan: ComparisonPlan) -> int:
    for line in plan.left_out:
        print(f"onceproof: {line}", file=sys.stderr)
    checked: set[str] = set()
    runs: list[ComparedRun] = []
    mistake: RunStopped | None = None
    for each in plan.runs:
        # A family is checked once, however many systems of the engine run it.
        fresh = each.families
        if Capability.ENGINE in capabilities_of(each.system):
            fresh = tuple([name for name in each.families if name not in checked])
            checked.update(fresh)
        warn_of_mistakes(fresh, each.system, each.seed)
        with progress_bar(each.scenarios, None) as bar:
            result, cases, mistake = run_and_examine(each, bar)
        if result.tally.scenarios:
            runs.append(ComparedRun(result, cases))
        if mistake is not None or result.interrupted:
            break
    if not runs:
        # Not one scenario was finished.
        raise KeyboardInterrupt if mistake is None else mistake
    report = build_comparison(runs, plan.left_out, plan.command, mistake, plan.runs[0].known)
    page = write_report(report, plan.out)
    print_comparison(runs, report, plan.left_out, page, plan.as_json)
    if mistake is not None:
        raise mistake
    return exit_code(report)
