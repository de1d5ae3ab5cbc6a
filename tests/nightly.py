"""The night of this project: `onceproof nightly` with the year of flights and planted bugs.

    python -m tests.nightly [OPTIONS of `onceproof nightly`]

Rules:

- The flights run under kills, on the local runtime and on Spark, in drivers that start their own Spark.
- The planted bugs have MUTANT_SECONDS. Those that remain are left for another night, which begins with
  another one. Fewer than LEAST_MUTANTS are too few: a busy machine has more time for them, up to
  MOST_MUTANT_SECONDS.
- Examples of programs that cost too much for each change run here, and end as PROGRAMS says.
- A night draws other scenarios than those of the record (`tests/planted/kills.json`), so some bug survives in
  almost every one, and that says nothing. A bug that survives is tried in its recorded scenario: one that
  survives there too is news.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from onceproof.engine.connectors.file_source import MalformedRow
from onceproof.harness.commands.cli import main
from onceproof.harness.model.exit_codes import NOTHING_RAN, PASSED, USAGE
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.history import CHECKPOINT_COMPLETED, History
from onceproof.harness.nightly.night import Night, OwnNight, Part
from onceproof.harness.systems.kit.drivers import DriverFailed
from onceproof.harness.trials.mutant_trials import Result, measure_all
from onceproof.harness.trials.output_files import emptied_folder
from onceproof.harness.trials.runner import usable_processors
from onceproof.reports.headline import real_input_text
from onceproof.reports.model import Mutant, Sizes
from onceproof.reports.text import counted
from onceproof.scenarios._year_of_flights import DataMissing, write_year
from tests.flights.flights_oracle import YearComparison, YearUnreadable, compare_year
from tests.flights.plans import LOCAL, SPARK, Plan, run_plan
from tests.flights.real_input import failed_input, real_input_of
from tests.flights.year import FAMILY
from tests.planted.catalogue import built_in_mutants
from tests.planted.kills import Kill, recorded_kills, tried_where_recorded

MUTANT_SECONDS: Final = 90.0
MOST_MUTANT_SECONDS: Final = 900.0
LEAST_MUTANTS: Final = 20
MUTANT_SCENARIOS: Final = 500
"""For each planted bug. Most die in the first hundred."""

PROGRAMS: Final = {
    "spark_submit/committed_copies": (PASSED, NOTHING_RAN),
    "flink_sessions/flink_sessions": (USAGE,),
    "flink_sessions/flink_aggregated_sessions": (USAGE,),
}
"""By file of an example that costs too much for each change, with which exit codes its run may end.

How many kills come between the first row and the last depends on the machine: so may "barely tested".
"""
PROGRAM_SCENARIOS: Final = 3
MOST_CHARACTERS: Final = 400
EXAMPLES: Final = Path(__file__).parents[1] / "scenarios" / "programs"

FOLDER_OF_PROGRAMS: Final = "programs"
FOLDER_OF_YEAR: Final = "year"
FOLDER_OF_FLIGHTS: Final = "flights"
FOLDER_OF_FLIGHTS_ON_SPARK: Final = "flights-on-spark"


def flights(night: Night, plans: Mapping[str, Plan]) -> None:
    """Count the year of flights under kills by each of some plans, by its folder, and compare the rows."""
    for folder, plan in plans.items():
        _count_year(night, plan, folder, partial(compare_year, night.session))


def _count_year(night: Night, plan: Plan, folder_name: str, compare: Callable[..., YearComparison]) -> None:
    name, bar = plan.name, night.bar
    bar.describe(f"{name}: reading the year")
    folder = emptied_folder(night.plan.out / folder_name)
    try:
        files = write_year(night.plan.out / FOLDER_OF_YEAR)

        def progress(history: History) -> None:
            kills = counted(len(history.statistics.recoveries), "kill")
            done = sum(kind == CHECKPOINT_COMPLETED for _, kind, _, _ in history.events)
            bar.describe(f"{name}: {kills}, {counted(done, 'checkpoint')}")

        trial = run_plan(plan, files, folder, night.plan.seed, progress)
        bar.describe(f"{name}: comparing")
        comparison = compare(load_family(FAMILY), files, trial.output)
    except (DataMissing, DriverFailed, MalformedRow, YearUnreadable, OSError) as error:
        real = failed_input(" ".join(str(error).split()), night.plan.command, name)
    else:
        real = real_input_of(trial, comparison, night.plan.command, name)
    night.real_inputs.append(real)
    bar.warn(real_input_text(real))


def planted_bugs(
    night: Night, kills: Mapping[str, Kill], clock: Callable[[], float] = time.perf_counter
) -> None:
    """Measure as many planted bugs as fit into MUTANT_SECONDS, but LEAST_MUTANTS at the least."""
    # What no scenario shows is known, and a night need not say it again.
    mutants = [each for each in built_in_mutants() if not each.unseen]
    mutants = mutants[(first := night.plan.seed % len(mutants)) :] + mutants[:first]
    by_id = {each.id: each for each in mutants}
    least = min(LEAST_MUTANTS, len(mutants))
    begun, by_record = clock(), 0
    workers = min(usable_processors(), len(mutants))
    for result in measure_all(mutants, family_names(), night.plan.seed, MUTANT_SCENARIOS, workers, 0):
        mutant = by_id[result.id]
        again = None if result.killed else tried_where_recorded(mutant, kills.get(mutant.id), 0)
        by_record += again is not None
        night.mutants.append(mutant_of(result, again))
        night.bar.describe(f"planted bugs: {len(night.mutants)} of {len(mutants)}")
        seconds = clock() - begun
        if seconds > (MUTANT_SECONDS if len(night.mutants) >= least else MOST_MUTANT_SECONDS):
            break
    tried = len(night.mutants)
    if tried < least:
        night.shortfalls.append(f"{tried:,} of {counted(least, 'planted bug')} were measured")
    killed = sum(mutant.killed for mutant in night.mutants)
    recorded = f", {by_record:,} of them in the recorded scenario only" if by_record else ""
    left = f"; no time for {untried} more" if (untried := len(mutants) - tried) else ""
    night.bar.warn(f"{killed} of {counted(tried, 'planted bug')} caught{recorded}{left}")


def programs(night: Night, endings: Mapping[str, Sequence[int]]) -> None:
    """Run examples of programs in processes of their own, and note those that end otherwise."""
    for name, codes in endings.items():
        night.bar.describe(name)
        out = night.plan.out / FOLDER_OF_PROGRAMS / name
        file = EXAMPLES / f"{name}.toml"
        words = ("--scenarios", str(PROGRAM_SCENARIOS), "--seed", str(night.plan.seed), "--workers", "1")
        command = [sys.executable, "-m", "onceproof", "run", str(file), *words, "--out", str(out)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        ended = f"{name} ended with exit code {ran.returncode}"
        night.bar.warn(ended)
        if ran.returncode not in codes:
            said = " ".join((ran.stderr or ran.stdout).split())[:MOST_CHARACTERS]
            night.shortfalls.append(f"{ended} instead of {codes[0]}: {said}")


def mutant_of(result: Result, again: Result | None = None) -> Mutant:
    """Return a measured planted bug as the report's model holds it; ``again`` is its recorded scenario."""
    found = again or result
    shrunk = found.shrunk
    return Mutant(
        id=result.id,
        origin=result.origin,
        breaks=result.breaks,
        reached=found.reached,
        killed=found.killed,
        property=found.property,
        scenarios=result.scenarios + (again.scenarios if again else 0),
        shrunk=None if shrunk is None else Sizes(shrunk.records, shrunk.faults, shrunk.schedule),
        seconds=round(result.seconds, 3),
        summary=result.summary,
    )


def own_night(arguments: list[str]) -> OwnNight:
    """Return the night with the further parts of this project."""
    plans = {FOLDER_OF_FLIGHTS: LOCAL, FOLDER_OF_FLIGHTS_ON_SPARK: SPARK}
    return OwnNight(
        shlex.join(("python", "-m", "tests.nightly", *arguments)),
        (
            Part("flights", partial(flights, plans=plans)),
            Part("programs", partial(programs, endings=PROGRAMS)),
            Part("planted bugs", partial(planted_bugs, kills=recorded_kills())),
        ),
    )


if __name__ == "__main__":
    sys.exit(main(["nightly", *sys.argv[1:]], own_night(sys.argv[1:])))
