"""The options of `onceproof mutants`.

Slow imports stand inside the function, so that `onceproof --help` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from onceproof.harness.commands.completion import complete_family
from onceproof.harness.commands.script_options import Arguments, JobName, Samples, addresses_of
from onceproof.harness.commands.shared_options import AsJson, Seed, Workers

MutantFamilies: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FAMILY|FILE.py]...",
        help="Families or programs whose jobs get mistakes. With --load: families to run, by default all.",
        autocompletion=complete_family,
    ),
]
Only: TypeAlias = Annotated[
    list[str] | None, typer.Option("--only", metavar="ID", help="Measure this mutant only; repeatable.")
]
MostScenarios: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--scenarios",
        min=1,
        help="Largest number of scenarios for each mutant and seed.",
        show_default="200 for a mistake, 2000 with --load",
    ),
]
Seeds: TypeAlias = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds, from --seed on.")]
Shrinks: TypeAlias = Annotated[bool, typer.Option("--shrink/--no-shrink", help="Shrink what kills a mutant.")]


def mutants(
    families: MutantFamilies = None,
    load: Annotated[
        Path | None,
        typer.Option("--load", metavar="FILE.py", help="A file with bugs of the engine to plant."),
    ] = None,
    only: Only = None,
    scenarios: MostScenarios = None,
    seed: Seed = 0,
    seeds: Seeds = 1,
    shrink: Shrinks = True,
    workers: Workers = None,
    sample: Samples = None,
    job: JobName = None,
    argument: Arguments = None,
    as_json: AsJson = False,
) -> None:
    """Make mistakes in your jobs, one at a time, and list those that would not be caught."""
    from onceproof.harness.commands.mutants import MutantTrials, mistakes_command, mutants_command
    from onceproof.harness.model.exit_codes import UsageError
    from onceproof.harness.model.mutants import load_mutants
    from onceproof.harness.trials import mistake_trials, mutant_trials

    if load is None:
        if only or seeds != 1:
            raise UsageError("--only and --seeds belong to --load FILE.py")
        asked = addresses_of(families, sample, job, argument)
        if not asked:
            raise UsageError("name the job: onceproof mutants FILE.py")
        raise typer.Exit(
            mistakes_command(asked, seed, scenarios or mistake_trials.SCENARIOS, workers, as_json)
        )
    trials = MutantTrials(families or (), scenarios or mutant_trials.SCENARIOS, seed, seeds, workers, shrink)
    raise typer.Exit(mutants_command(load_mutants(load), only or (), trials, as_json))
