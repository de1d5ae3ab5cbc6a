"""`onceproof campaign`: scenarios on Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from onceproof.engine.runtime.java import find_java
from onceproof.harness.reporting.progress import progress_bar
from onceproof.harness.reporting.run_summary import exit_code, print_summary
from onceproof.harness.trials.output_files import OutputUnwritable, claimed_folder, prepare_file
from onceproof.reports.text import counted

if TYPE_CHECKING:
    from onceproof.harness.campaign.campaign_plan import CampaignPlan


def campaign_command(plan: CampaignPlan) -> int:
    """Run a campaign on Spark, print the summary, write the report, and return the exit code."""
    # Checked first: a missing Java must not cost the results of an earlier campaign.
    find_java(os.environ)
    prepare_file(plan.run.junit)
    with claimed_folder(plan.run.out):
        return _campaign(plan)


def _campaign(wanted: CampaignPlan) -> int:
    from onceproof.harness.campaign.pipeline import CampaignStopped, run_campaign
    from onceproof.harness.reporting.report_builder import (
        add_oracle_agreement,
        build_report,
        write_report_or_note,
    )
    from onceproof.harness.trials.failures import examine_failures

    plan = wanted.run
    mistake: CampaignStopped | None = None
    with progress_bar(plan.scenarios, plan.max_time) as bar:
        bar.describe("starting Spark")
        try:
            campaign = run_campaign(wanted, progress=bar.show_counts)
        except CampaignStopped as stopped:
            campaign, mistake = stopped.campaign, stopped
            if not campaign.run.tally.scenarios:
                raise
        if campaign.resumed:
            beside = f", with another {' and '.join(campaign.changed[:3])} beside" if campaign.changed else ""
            bar.warn(f"resumed: {counted(campaign.resumed, 'scenario')} had ended before{beside}")
        unwritten: list[OutputUnwritable] = []
        cases = examine_failures(campaign.run, plan, bar.describe, unwritten=unwritten)
        bar.describe("writing the report")
        report = add_oracle_agreement(
            build_report(campaign.run, cases, plan.command, mistake, plan.known), campaign
        )
        page = write_report_or_note(report, plan.out, plan.junit, unwritten)
    print_summary(campaign.run, cases, report, plan.out, page, plan.as_json)
    for error in (mistake, *unwritten):
        if error is not None:
            raise error
    return exit_code(report)
