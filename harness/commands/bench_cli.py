"""The options of `onceproof bench`, the command that measures speed.

Slow imports stand inside the function, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from onceproof.harness.benchmarks.measurement import BENCHMARKS
from onceproof.harness.commands.completion import complete_benchmark
from onceproof.harness.commands.shared_options import AsJson, Workers
from onceproof.harness.model.exit_codes import UsageError

SEARCH = "search"
"""It compares strategies instead of measuring speed, and runs only where it is named."""


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help=f"Benchmarks to run: {', '.join(BENCHMARKS)}. Default: all of these. Or `{SEARCH}`, which"
            " compares strategies of choosing scenarios.",
            autocompletion=complete_benchmark,
        ),
    ] = None,
    as_json: AsJson = False,
    large: Annotated[
        bool,
        typer.Option("--large", help="Also run the parts that take minutes and gigabytes (state, spark)."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="BUG", help=f"{SEARCH}: a planted bug to search; repeatable."),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option("--strategy", metavar="NAME", help=f"{SEARCH}: a strategy to compare; repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help=f"{SEARCH}: the first seed. Default: 0.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", min=1, help=f"{SEARCH}: number of seeds, from --seed on. Default: 10."),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", min=1, help=f"{SEARCH}: most scenarios of each search. Default: 400."),
    ] = None,
    workers: Workers = None,
) -> None:
    """Measure speed against a lower bound or another engine in the same run."""
    asked = {
        "--only": only,
        "--strategy": strategy,
        "--seed": seed,
        "--seeds": seeds,
        "--budget": budget,
        "--workers": workers,
    }
    if SEARCH not in (names or ()):
        for option, value in asked.items():
            if value is not None:
                raise UsageError(f"{option} belongs to `onceproof bench {SEARCH}`: omit the option")
        from onceproof.harness.commands.table_commands import bench_command

        raise typer.Exit(bench_command(names or (), as_json, large))
    if names != [SEARCH] or large:
        raise UsageError(f"`onceproof bench {SEARCH}` runs alone: name no other benchmark, and omit --large")
    from onceproof.harness.benchmarks.search import BUDGET, SEEDS
    from onceproof.harness.commands.bench_search import bench_search_command

    raise typer.Exit(
        bench_search_command(
            only or (), strategy or (), seed or 0, seeds or SEEDS, budget or BUDGET, workers, as_json
        )
    )
