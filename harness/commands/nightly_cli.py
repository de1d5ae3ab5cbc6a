"""The options of `onceproof nightly`.

Slow imports stand inside the function, so that `onceproof --help` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
)


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
    import shlex
    import sys

    from onceproof.engine.extras import SPARK, require

    require("onceproof nightly", SPARK)
    from onceproof.engine.runtime.spark_options import SparkOptions
    from onceproof.harness.commands.campaign import NightOptions, nightly_command
    from onceproof.harness.settings.project_settings import load_settings

    options = NightOptions(
        families=families,
        max_time=max_time,
        limit_time=limit_time,
        least_scenarios=least_scenarios,
        least_kills=least_kills,
        seed=seed,
        out=out,
        junit=junit,
        as_json=as_json,
    )
    command = shlex.join(("onceproof", *sys.argv[1:]))
    spark = SparkOptions.of(master, conf or (), properties_file)
    raise typer.Exit(nightly_command(load_settings(), spark, options, command, context.obj))
