"""Measures the catalogue of planted bugs: ``python -m tests.planted [FAMILY...] [--only ID] [--json]``.

It prints what ``onceproof mutants`` prints of a user's own planted bugs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from onceproof.harness.commands.cli import run_alone
from onceproof.harness.commands.mutants import MutantTrials, mutants_command
from onceproof.harness.commands.mutants_cli import MostScenarios, MutantFamilies, Only, Seeds, Shrinks
from onceproof.harness.commands.shared_options import AsJson, Seed, Workers
from tests.planted.catalogue import built_in_mutants


def planted(
    families: MutantFamilies = None,
    only: Only = None,
    scenarios: MostScenarios = 2000,
    seed: Seed = 0,
    seeds: Seeds = 1,
    shrink: Shrinks = True,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Measure which bugs of the catalogue are found, and after how many scenarios."""
    trials = MutantTrials(families or (), scenarios, seed, seeds, workers, shrink)
    raise typer.Exit(mutants_command(built_in_mutants(), only or (), trials, as_json))


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_alone("python -m tests.planted", planted, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
