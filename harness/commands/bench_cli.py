"""The options of `onceproof bench`, the command that measures speed.

Slow imports stand inside the function, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from onceproof.harness.benchmarks.measurement import BENCHMARKS
from onceproof.harness.commands.completion import complete_benchmark
from onceproof.harness.commands.shared_options import AsJson


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help=f"Benchmarks to run: {', '.join(BENCHMARKS)}. Default: all.",
            autocompletion=complete_benchmark,
        ),
    ] = None,
    as_json: AsJson = False,
    large: Annotated[
        bool,
        typer.Option("--large", help="Also run the parts that take minutes and gigabytes (state, spark)."),
    ] = False,
) -> None:
    """Measure speed against a lower bound or another engine in the same run."""
    from onceproof.harness.commands.table_commands import bench_command

    raise typer.Exit(bench_command(names or (), as_json, large))
