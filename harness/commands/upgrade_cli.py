"""The options of `onceproof upgrade`, a run of the upgrade from one version of a program to another.

Slow imports stand inside the function, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onceproof.harness.commands.script_options import (
    Arguments,
    JobName,
    Samples,
    addresses_of,
    upgrade_address,
)
from onceproof.harness.commands.shared_options import (
    AsJson,
    Junit,
    MaxTime,
    RunFolder,
    RunSeed,
    Scenarios,
    ShrinkRuns,
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
