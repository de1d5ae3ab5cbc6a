"""Counts a year of real flights under kills, and prints each kill and its cost: ``python -m tests.flights``.

The rules this module lives by:

- The run passes under the same conditions as in a night (`flights/real_input.py`): the rows equal the
  oracle's, no property is broken, and every planned kill and rescale happened. Otherwise the exit code is 1.
- The Spark session that compares the rows starts after the job has ended. A job on Spark has its own.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import msgspec
import typer

from onceproof.engine.extras import DATA, SPARK, require
from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.spark_session import spark_session
from onceproof.harness.commands.cli import run_alone
from onceproof.harness.commands.shared_options import AsJson
from onceproof.harness.model.exit_codes import FAILED, PASSED, UsageError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import History, Recovery
from onceproof.harness.reporting.progress import progress_bar
from onceproof.harness.trials.output_files import claimed_folder, emptied_folder
from onceproof.reports.headline import real_input_failed, real_input_text
from onceproof.reports.text import counted
from onceproof.scenarios._year_of_flights import write_year
from tests.flights.flights_oracle import compare_year
from tests.flights.plans import PLANS, run_plan
from tests.flights.real_input import real_input_of, real_kill_of
from tests.flights.year import FAMILY, FlightsTrial

_VICTIMS: Final[Mapping[tuple[str, str], str]] = {
    ("kill_task", ""): "a task",
    ("kill_all", ""): "all tasks",
    ("tear_write", ""): "a task in the middle of its write",
    ("kill_task", "executor"): "an executor",
    ("kill_all", "executor"): "all executors",
    ("kill_process", ""): "{process}",
    ("kill_process", "java"): "the Java of {process}",
}
"""The killed process or task, by the kind of the fault and its means."""


COMMAND: Final = "python -m tests.flights"
FOLDER: Final = Path("reports", "out", "flights-alone")


def flights_command(system: str, seed: int, out: Path, as_json: bool, command: str) -> int:
    """Run the year on a system, compare its rows with the oracle, print the result, return the exit code."""
    if system not in PLANS:
        raise UsageError(f"--system {system}: the year of flights runs on {', '.join(PLANS)}")
    find_java(os.environ)
    plan = PLANS[system]
    # Executors have a working directory of their own.
    out = out.absolute()
    with claimed_folder(out), progress_bar(None, None) as bar:
        bar.describe("reading the year")
        files = write_year(out / "year")

        def progress(history: History) -> None:
            bar.describe(f"{plan.name}: {counted(len(history.statistics.recoveries), 'kill')}")

        bar.describe(plan.name)
        trial = run_plan(plan, files, emptied_folder(out / system), seed, progress)
        bar.describe("comparing")
        with spark_session(name="year of flights") as session:
            comparison = compare_year(session, load_family(FAMILY), files, trial.output)
    real = real_input_of(trial, comparison, command, plan.name)
    if as_json:
        print(msgspec.json.encode(real).decode())
    for line in summary_lines(trial):
        print(line, file=sys.stderr if as_json else sys.stdout)
    print(real_input_text(real), file=sys.stderr if as_json else sys.stdout)
    return FAILED if real_input_failed(real) else PASSED


def summary_lines(trial: FlightsTrial) -> Iterator[str]:
    """Yield a line for each kill, a line for each kind of kill, and a line with the totals."""
    recoveries = trial.history.statistics.recoveries
    for number, recovery in enumerate(recoveries, 1):
        yield f"{number:>3}  {_kill_text(recovery, trial.process)}"
    yield ""
    yield "kills  median s  worst s  of"
    for kind, victim in _VICTIMS.items():
        found = [recovery for recovery in recoveries if (recovery.kind, recovery.means) == kind]
        if not found:
            continue
        seconds = [recovery.seconds for recovery in found if recovery.seconds is not None]
        times = f"{median(seconds):>8.1f}  {max(seconds):>7.1f}" if seconds else f"{'-':>8}  {'-':>7}"
        yield f"{len(found):>5}  {times}  {victim.format(process=trial.process)}"
    yield ""
    steps = " -> ".join(map(str, trial.parallelisms))
    replayed = trial.history.statistics.records_replayed
    yield (
        f"{counted(trial.kills, 'kill')}, {counted(trial.rescales, 'rescale')} (parallelism {steps}),"
        f" {counted(trial.checkpoints, 'checkpoint')}, {counted(replayed, 'record')} read again,"
        f" {trial.seconds:.0f} s"
    )


def _kill_text(recovery: Recovery, process: str) -> str:
    kill = real_kill_of(recovery, process)
    restored = "no checkpoint" if kill.checkpoint is None else f"checkpoint {kill.checkpoint}"
    rescaled = ""
    if kill.parallelism_after not in (0, kill.parallelism_before):
        rescaled = f", parallelism {kill.parallelism_before} -> {kill.parallelism_after}"
    back = "no new rows" if kill.recovery_seconds is None else f"new rows after {kill.recovery_seconds:.1f} s"
    return f"kill of {kill.task}, at {kill.point}; restored from {restored}{rescaled}; {back}"


def flights(
    system: Annotated[
        str, typer.Option("--system", help=f"System under test: {', '.join(PLANS)}.")
    ] = "spark-cluster",
    seed: Annotated[int, typer.Option("--seed", help="Seed from which the kills are drawn.")] = 0,
    out: Annotated[Path, typer.Option("--out", help="Folder for the rows and the checkpoints.")] = FOLDER,
    as_json: AsJson = False,
) -> None:
    """Run a year of real flights under kills, and compare the rows with the oracle."""
    require(COMMAND, SPARK, DATA)
    command = shlex.join((*COMMAND.split(), *sys.argv[1:]))
    raise typer.Exit(flights_command(system, seed, out, as_json, command))


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run_alone(COMMAND, flights, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
