"""The options of `onceproof hunt`, the search that goes on overnight.

Slow imports stand inside the function, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from onceproof.harness.commands.completion import complete_family
from onceproof.harness.commands.shared_options import AsJson, Seed, ShrinkRuns, Workers, typed_command

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
