"""The options of `onceproof hunt`, `nightly` and `upgrade`, the runs besides `onceproof run`.

Slow imports stand inside the functions, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from onceproof.harness.commands.completion import complete_family
from onceproof.harness.commands.script_options import (
    Arguments,
    JobName,
    Samples,
    addresses_of,
    upgrade_address,
)
from onceproof.harness.commands.shared_options import (
    AsJson,
    Families,
    Junit,
    LeastKills,
    LeastScenarios,
    Master,
    MaxTime,
    NightLimitTime,
    NightMaxTime,
    NightSeed,
    PropertiesFile,
    RunFolder,
    RunSeed,
    Scenarios,
    Seed,
    ShrinkRuns,
    SparkSettings,
    Workers,
    typed_command,
)


def upgrade(
    old: Annotated[
        Path,
        typer.Argument(
            metavar="OLD", help="The PyFlink program, or FILE.toml of a Flink job, that runs now."
        ),
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The one that shall take its state over.")],
    allow_non_restored_state: Annotated[
        bool,
        typer.Option(
            "--allow-non-restored-state",
            help="Let the new version leave state behind, as `flink run -n` does.",
        ),
    ] = False,
    scenarios: Scenarios = None,
    max_time: MaxTime = None,
    seed: RunSeed = None,
    workers: Workers = None,
    shrink_runs: ShrinkRuns = None,
    out: RunFolder = None,
    junit: Junit = None,
    sample: Samples = None,
    job: JobName = None,
    argument: Arguments = None,
    as_json: AsJson = False,
) -> None:
    """Compare the state of two versions of a program, and upgrade from one to the other under faults."""
    from onceproof.harness.commands.run import run_command
    from onceproof.harness.model.family_places import own_system
    from onceproof.harness.settings.planning import RUN, RunOptions, plan_run
    from onceproof.harness.settings.project_settings import load_settings
    from onceproof.harness.trials.run_plan import SYSTEM

    [address] = addresses_of([new], sample, job, argument)
    upgraded = upgrade_address(old, address, allow_non_restored_state)
    options = RunOptions(
        families=[upgraded],
        scenarios=scenarios,
        max_time=max_time,
        seed=seed,
        system=own_system(upgraded) or SYSTEM,
        workers=workers,
        shrink_runs=shrink_runs,
        out=out,
        junit=junit,
        as_json=as_json,
        command=typed_command(),
    )
    raise typer.Exit(run_command(plan_run(load_settings(), RUN, options)))


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
    from onceproof.engine.runtime.spark_settings import SparkOptions
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


HUNT: Final = "hunt"
_UNITS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def seconds_of(text: str) -> float:
    """Return the seconds of a duration such as `8h`, `30m` or `90`."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise typer.BadParameter(f"{text!r} is no duration: write 8h, 30m, or 90 for seconds")
    return float(match[1]) * _UNITS[match[2]]


def hunt(
    families: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FAMILY|FILE.py]...",
            help="Families to run. Default: those in pyproject.toml, else all built-in.",
            autocompletion=complete_family,
        ),
    ] = None,
    max_time: Annotated[
        float | None,
        typer.Option(
            "--max-time",
            metavar="DURATION",
            parser=seconds_of,
            help="How long the hunt runs, over all its sessions: 8h, 30m, 90. Default: forever.",
        ),
    ] = None,
    seed: Seed = 0,
    workers: Workers = None,
    patience: Annotated[
        int,
        typer.Option(
            "--patience",
            min=1,
            metavar="N",
            help="A family whose last N scenarios met nothing new gives its share to the others.",
        ),
    ] = 2000,
    shrink_runs: ShrinkRuns = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the hunt; an interrupted hunt resumes.")
    ] = Path("reports", "out", HUNT),
    as_json: AsJson = False,
) -> None:
    """Search for failures for hours; an interrupted hunt resumes."""
    from onceproof.harness.commands.hunt import hunt_command
    from onceproof.harness.settings.planning import RunOptions, plan_run
    from onceproof.harness.settings.project_settings import load_settings
    from onceproof.harness.trials.run_plan import SYSTEM

    options = RunOptions(
        families=families,
        seed=seed,
        system=SYSTEM,
        workers=workers,
        until_exhausted=patience,
        shrink_runs=shrink_runs,
        out=out,
        as_json=as_json,
        command=typed_command(),
    )
    # The limits of a run in the settings are not those of a hunt.
    plan = replace(plan_run(load_settings(), HUNT, options), scenarios=None, max_time=max_time)
    raise typer.Exit(hunt_command(plan))
