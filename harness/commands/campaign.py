"""`onceproof campaign` and `onceproof nightly`: scenarios on Spark, and the whole of a nightly run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.spark_options import SparkOptions
from onceproof.harness.reporting.progress import progress_bar
from onceproof.harness.reporting.run_summary import exit_code, print_summary
from onceproof.harness.settings.project_settings import Settings
from onceproof.harness.settings.run_plan import OUT, RunPlan, budget_of, decided, families_of
from onceproof.harness.trials.minimums import KILLS, SCENARIOS, Minimums
from onceproof.harness.trials.output_files import OutputUnwritable, claimed_folder, prepare_file
from onceproof.reports.text import counted

if TYPE_CHECKING:
    from onceproof.harness.nightly.night import OwnNight

NIGHT_SECONDS: Final = 60.0
"""The campaign of a night."""
LIMIT_SECONDS: Final = 1800.0
"""The same, at the latest, while it has not reached its minimums."""


def campaign_command(plan: RunPlan, spark: SparkOptions, store: str | None = None) -> int:
    """Run a campaign on Spark, print the summary, write the report, and return the exit code."""
    # Checked first: a missing Java must not cost the results of an earlier campaign.
    find_java(os.environ)
    prepare_file(plan.junit)
    with claimed_folder(plan.out):
        return _campaign(plan, spark, store)


def _campaign(plan: RunPlan, spark: SparkOptions, store: str | None) -> int:
    from onceproof.harness.campaign.pipeline import CampaignStopped, run_campaign
    from onceproof.harness.reporting.report_builder import (
        add_oracle_agreement,
        build_report,
        write_report_or_note,
    )
    from onceproof.harness.trials.failures import examine_failures

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
                spark=spark,
                store=store,
                budget=plan.budget,
                progress=bar.show_counts,
            )
        except CampaignStopped as stopped:
            campaign, mistake = stopped.campaign, stopped
            if not campaign.run.tally.scenarios:
                raise
        if campaign.resumed:
            beside = f", with another {' and '.join(campaign.changed[:3])} beside" if campaign.changed else ""
            bar.warn(f"resumed: {counted(campaign.resumed, 'scenario')} had ended before{beside}")
        unwritten: list[OutputUnwritable] = []
        cases = examine_failures(
            campaign.run,
            plan.out,
            bar.describe,
            plan.known,
            shrink_runs=plan.shrink_runs,
            unwritten=unwritten,
        )
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


class NightOptions(Struct, frozen=True, kw_only=True):
    """What the command line says of a night; None leaves an option to the settings."""

    families: Sequence[str] | None = None
    max_time: float | None = None
    limit_time: float | None = None
    least_scenarios: int | None = None
    least_kills: int | None = None
    seed: int | None = None
    out: Path | None = None
    junit: Path | None = None
    as_json: bool = False


def nightly_command(
    settings: Settings, spark: SparkOptions, options: NightOptions, command: str, own: OwnNight | None = None
) -> int:
    """Run the nightly job with the settings of the project, and return the exit code.

    ``own`` holds the further parts of a night and the command that runs them.
    """
    from onceproof.harness.nightly.night import nightly

    return nightly(
        options.out or settings.out or OUT,
        decided(options.max_time, settings.max_time, NIGHT_SECONDS),
        options.seed,
        command if own is None else own.command,
        families=families_of(settings, options.families),
        minimums=Minimums(
            decided(options.least_scenarios, settings.least_scenarios, SCENARIOS),
            decided(options.least_kills, settings.least_kills, KILLS),
            decided(options.limit_time, settings.limit_time, LIMIT_SECONDS),
        ),
        parts=() if own is None else own.parts,
        known=settings.known,
        history=settings.history,
        keep=settings.nights,
        junit=options.junit,
        as_json=options.as_json,
        spark=spark,
        budget=budget_of(settings),
    )
