"""The options of `onceproof nightly`.

Slow imports stand inside the function, so that `onceproof --help` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from onceproof.harness.commands.shared_options import (
    AsJson,
    Families,
    Junit,
    LeastKills,
    LeastScenarios,
    Master,
    NightLimitTime,
    NightMaxTime,
    NightSeed,
    PropertiesFile,
    SparkSettings,
    typed_command,
)

NIGHT_SECONDS: Final = 60.0
"""The campaign of a night."""
LIMIT_SECONDS: Final = 1800.0
"""The same, at the latest, while it has not reached its minimums."""


def nightly(
    context: typer.Context,
    families: Families = None,
    max_time: NightMaxTime = None,
    limit_time: NightLimitTime = None,
    least_scenarios: LeastScenarios = None,
    least_kills: LeastKills = None,
    seed: NightSeed = None,
    master: Master = None,
    conf: SparkSettings = None,
    properties_file: PropertiesFile = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results.", show_default="reports/out")
    ] = None,
    junit: Junit = None,
    as_json: AsJson = False,
) -> None:
    """Run a campaign over your families, and compare it with earlier nights."""
    from onceproof.engine.extras import SPARK, require

    require("onceproof nightly", SPARK)
    from onceproof.engine.runtime.spark_options import SparkOptions
    from onceproof.harness.campaign.campaign_plan import CampaignPlan
    from onceproof.harness.generation.profiles import new_seed
    from onceproof.harness.nightly import night
    from onceproof.harness.settings.planning import RunOptions, decided, plan_run
    from onceproof.harness.settings.project_settings import load_settings
    from onceproof.harness.trials.minimums import KILLS, SCENARIOS, Minimums
    from onceproof.harness.trials.run_plan import SYSTEM

    settings = load_settings()
    own: night.OwnNight | None = context.obj
    command = typed_command() if own is None else own.command
    if seed is None:
        seed = new_seed()
        # The command in the report repeats this night.
        command += f" --seed {seed}"
    options = RunOptions(
        families=families,
        max_time=decided(max_time, settings.max_time, NIGHT_SECONDS),
        seed=seed,
        system=SYSTEM,
        out=out,
        junit=junit,
        as_json=as_json,
        command=command,
    )
    campaign = CampaignPlan(
        plan_run(settings, "", options),
        spark=SparkOptions.of(master, conf or (), properties_file),
        minimums=Minimums(
            decided(least_scenarios, settings.least_scenarios, SCENARIOS),
            decided(least_kills, settings.least_kills, KILLS),
            decided(limit_time, settings.limit_time, LIMIT_SECONDS),
        ),
        resumes=False,
    )
    plan = night.NightPlan(
        campaign, history=settings.history, keep=settings.nights, parts=() if own is None else own.parts
    )
    raise typer.Exit(night.nightly(plan))
