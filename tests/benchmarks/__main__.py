"""Measures speed against a lower bound or another engine: ``python -m tests.benchmarks [NAME...] [--json]``.

Without --json each line is printed as soon as its numbers are known.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from onceproof.harness.commands.cli import run_alone
from onceproof.harness.commands.shared_options import AsJson
from onceproof.harness.model.exit_codes import UsageError
from onceproof.reports.text import number
from tests.benchmarks.measurement import BENCHMARKS, has_large_part, load_benchmark


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help=f"Benchmarks to run: {', '.join(BENCHMARKS)}. Default: all of these."
        ),
    ] = None,
    as_json: AsJson = False,
    large: Annotated[
        bool,
        typer.Option("--large", help="Also run the parts that take minutes and gigabytes (state, spark)."),
    ] = False,
) -> None:
    """Measure speed against a lower bound or another engine in the same run."""
    benchmarks = [load_benchmark(name) for name in names or BENCHMARKS]
    if large and not any(map(has_large_part, benchmarks)):
        raise UsageError(f"--large: {', '.join(names or ())} has no large part: omit the option")
    measurements = []
    for benchmark in benchmarks:
        options = {"large": True} if large and has_large_part(benchmark) else {}
        measurement = msgspec.to_builtins(benchmark(**options))
        measurements.append(measurement)
        if not as_json:
            _print_measurement(measurement)
    if as_json:
        document = measurements[0] if len(names or ()) == 1 else measurements
        print(msgspec.json.encode(document).decode())


def _print_measurement(measurement: dict[str, Any]) -> None:
    print(f"{measurement['name']} ({measurement['machine']})")
    for kind in ("figures", "floors", "ratios"):
        for metric, value in measurement[kind].items():
            print(f"  {kind[:-1]:<6}  {metric:<40}  {number(value):>14}")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_alone("python -m tests.benchmarks", bench, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
