"""`onceproof campaign` and `onceproof nightly`: handed on to the modules that do the work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from engine.runtime.java import find_java
from harness.commands.running import exit_code, print_summary, progress_bar


def campaign_command(
    families: Sequence[str],
    scenarios: int | None,
    max_time: float | None,
    seed: int,
    master: str | None,
    out: Path,
    as_json: bool,
    command: str,
) -> int:
    """Run a campaign on Spark, report, and return the exit code."""
    # Before anything of an earlier campaign is overwritten.
    find_java(os.environ)
    from harness.campaign.pipeline import CampaignStopped, run_campaign
    from harness.failures import failure_cases
    from harness.reporting import report_of, with_oracles, write_report

    mistake: CampaignStopped | None = None
    with progress_bar(scenarios, max_time) as bar:
        bar.describe("starting Spark")
        try:
            campaign = run_campaign(
                families,
                scenarios=scenarios,
                max_time=max_time,
                seed=seed,
                out=out,
                master=master,
                progress=bar.show_counts,
            )
        except CampaignStopped as stopped:
            campaign, mistake = stopped.campaign, stopped
            if not campaign.run.tally.scenarios:
                raise
        cases = failure_cases(campaign.run, out, bar.describe)
        bar.describe("writing the report")
        report = with_oracles(report_of(campaign.run, cases, command, mistake), campaign)
        page = write_report(report, out)
    print_summary(campaign.run, cases, report, page, as_json)
    if mistake is not None:
        raise mistake
    return exit_code(report)


def nightly_command(out: Path, max_time: float, seed: int | None, command: str) -> int:
    """Do the night's work and return the exit code."""
    from harness.nightly import nightly

    return nightly(out, max_time, seed, command)
