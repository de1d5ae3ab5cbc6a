"""The options of `onceproof mutants`.

Slow imports stand inside the function, so that `onceproof --help` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onceproof.harness.commands.completion import complete_family
from onceproof.harness.commands.shared_options import AsJson, Seed, Workers


def mutants(
    families: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FAMILY|FILE.py]...",
            help="Families to run. Default: all built-in ones.",
            autocompletion=complete_family,
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID", help="Measure this mutant only; repeatable.")
    ] = None,
    load: Annotated[
        Path | None, typer.Option("--load", metavar="FILE.py", help="Measure the mutants of this file.")
    ] = None,
    scenarios: Annotated[
        int, typer.Option("--scenarios", min=1, help="Largest number of scenarios for each mutant and seed.")
    ] = 2000,
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds, from --seed on.")] = 1,
    shrink: Annotated[bool, typer.Option("--shrink/--no-shrink", help="Shrink what kills a mutant.")] = True,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Measure which planted bugs of the engine are found, and after how many scenarios."""
    from onceproof.harness.commands.mutants import MutantTrials, mutants_command

    trials = MutantTrials(families or (), scenarios, seed, seeds, workers, shrink)
    raise typer.Exit(mutants_command(only or (), load, trials, as_json))
