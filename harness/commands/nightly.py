"""`onceproof campaign` and `onceproof nightly`: handed on to the modules that do the work."""

from __future__ import annotations

import os
from pathlib import Path

from engine.runtime.java import find_java
from harness.commands.running import exit_code, print_summary, progress_bar
from harness.plan import OUT, Plan, families_of
from harness.settings import Settings

NIGHT_SECONDS = 60.0


def campaign_command(plan: Plan, master: str | None) -> int:
    """Run a campaign on Spark, report, and return the exit code."""
    # Before anything of an earlier campaign is overwritten.
    find_java(os.environ)
    from harness.campaign.pipeline import CampaignStopped, run_campaign
    from harness.failures import failure_cases
    from harness.reporting import make_way, report_of, with_oracles, write_report

    make_way(plan.junit)
    mistake: CampaignStopped | None = None
    with progress_bar(plan.scenarios, plan.max_time) as bar:
        bar.describe("starting Spark")
        try:
            campaign = run_campaign(
                plan.families,
                scenarios=plan.scenarios,
                max_time=plan.max_time,
                seed=plan.seed,
                out=plan.out,
                master=master,
                progress=bar.show_counts,
            )
        except CampaignStopped as stopped:
            campaign, mistake = stopped.campaign, stopped
            if not campaign.run.tally.scenarios:
                raise
        cases = failure_cases(
            campaign.run, plan.out, bar.describe, plan.known, limit_seconds=plan.shrink_time
        )
        bar.describe("writing the report")
        report = with_oracles(report_of(campaign.run, cases, plan.command, mistake, plan.known), campaign)
        page = write_report(report, plan.out, plan.junit)
    print_summary(campaign.run, cases, report, page, plan.as_json)
    if mistake is not None:
        raise mistake
    return exit_code(report)


def nightly_command(
    settings: Settings,
    max_time: float | None,
    seed: int | None,
    out: Path | None,
    junit: Path | None,
    command: str,
) -> int:
    """Do the night's work and return the exit code."""
    from harness.nightly import nightly

    if max_time is None:
        max_time = NIGHT_SECONDS if settings.max_time is None else settings.max_time
    return nightly(
        out or settings.out or OUT,
        max_time,
        seed,
        command,
        families=families_of(settings),
        known=settings.known,
        history=settings.history,
        keep=settings.nights,
        junit=junit,
    )
