"""The options of `onceproof mutants`.

Slow imports stand inside the function, so that `onceproof --help` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from onceproof.harness.commands.completion import complete_family
from onceproof.harness.commands.shared_options import AsJson, Seed, Workers

MutantFamilies: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FAMILY|FILE.py]...",
        help="Families to run. Default: all built-in ones.",
        autocompletion=complete_family,
    ),
]
Only: TypeAlias = Annotated[
    list[str] | None, typer.Option("--only", metavar="ID", help="Measure this mutant only; repeatable.")
]
MostScenarios: TypeAlias = Annotated[
    int, typer.Option("--scenarios", min=1, help="Largest number of scenarios for each mutant and seed.")
]
Seeds: TypeAlias = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds, from --seed on.")]
Shrinks: TypeAlias = Annotated[bool, typer.Option("--shrink/--no-shrink", help="Shrink what kills a mutant.")]


def mutants(
    load: Annotated[Path, typer.Option("--load", metavar="FILE.py", help="The file with the mutants.")],
    families: MutantFamilies = None,
    only: Only = None,
    scenarios: MostScenarios = 2000,
    seed: Seed = 0,
    seeds: Seeds = 1,
    shrink: Shrinks = True,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Measure which planted bugs are found, and after how many scenarios."""
    from onceproof.harness.commands.mutants import MutantTrials, mutants_command
    from onceproof.harness.model.mutants import load_mutants

    trials = MutantTrials(families or (), scenarios, seed, seeds, workers, shrink)
    raise typer.Exit(mutants_command(load_mutants(load), only or (), trials, as_json))
