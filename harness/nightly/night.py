"""The nightly job: a year of flights under kills, planted bugs, a campaign, and one report of all three.

The rules this module lives by:

- One Spark session judges everything. It starts first, so that a Spark that cannot start overwrites nothing
  of the last night. Drivers under test start their own Spark, because they are killed.
- Without a given seed each night draws a new one. The report contains the command that repeats the night.
- Each night is a row of the history, from which the trend is drawn. An unwritable history is an error before
  the work starts.
- The campaign goes on until each family has had SCENARIOS_EACH scenarios, for at most twice its time. A night
  that lacks some all the same is called a sample by its report.
- A part that fails, whatever its error, does not stop the others. It fails the night, and the report gives
  the reason: report and history are written before the error is raised.
- The campaign begins anew: what an earlier night has left unfinished is of another seed.
- The exit code follows from the report's verdict.
- The summary goes to stdout, progress to stderr.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.engine.connectors.file_source import MalformedRow
from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.spark_options import NO_OPTIONS, SparkOptions
from onceproof.engine.runtime.spark_session import obtained_session
from onceproof.harness.campaign.pipeline import CampaignResult, CampaignStopped, run_campaign
from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.flights.data import DataMissing, write_year
from onceproof.harness.flights.flights_oracle import YearComparison, YearUnreadable, compare_year
from onceproof.harness.flights.plans import LOCAL, SPARK, Plan, run_plan
from onceproof.harness.flights.real_input import failed_input, real_input_of
from onceproof.harness.flights.year import FAMILY
from onceproof.harness.generation.profiles import new_seed
from onceproof.harness.model.budget import Budget
from onceproof.harness.model.exit_codes import FAILED, INTERRUPTED, line_of
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.history import CHECKPOINT_COMPLETED, History
from onceproof.harness.model.mutants import Mutant as Bug
from onceproof.harness.model.mutants import built_in_mutants
from onceproof.harness.nightly.night_history import NightHistory
from onceproof.harness.nightly.trend import added_to_history
from onceproof.harness.reporting.progress import Bar, progress_bar
from onceproof.harness.reporting.report_builder import (
    add_oracle_agreement,
    build_report,
    time_text,
    write_report,
)
from onceproof.harness.reporting.run_summary import exit_code, summary_document, summary_lines
from onceproof.harness.settings.project_settings import NIGHTS
from onceproof.harness.systems.process.driver_process import DriverFailed
from onceproof.harness.trials.failures import FailureCase, examine_failures
from onceproof.harness.trials.mutant_trials import Result, measure_all
from onceproof.harness.trials.output_files import claimed_folder, emptied_folder, prepare_file
from onceproof.harness.trials.runner import RunResult, load_families, usable_processors
from onceproof.harness.trials.trial import check_family
from onceproof.reports.headline import conclude, real_input_text
from onceproof.reports.model import Mutant, RealInput, Report, Sizes
from onceproof.reports.text import counted

MUTANT_SECONDS: Final = 90.0
"""Time for the planted bugs. Those that remain are left for another night, and their number is printed."""

SCENARIOS_EACH: Final = 100
"""Twice what a report asks of a family. One scenario in 64 is run twice, so that of this many one is in 4 of
5 families; a property that under half of the families were asked makes a night a sample, too."""

FOLDER_OF_YEAR: Final = "year"
FOLDER_OF_FLIGHTS: Final = "flights"
FOLDER_OF_FLIGHTS_ON_SPARK: Final = "flights-on-spark"
FOLDER_OF_CAMPAIGN: Final = "campaign"
FOLDER_OF_HISTORY: Final = "history"


def nightly(
    out: Path,
    seconds: float = 60.0,
    seed: int | None = None,
    command: str = "",
    *,
    families: Sequence[str] = (),
    known: Sequence[KnownSignature] = (),
    history: Path | str | None = None,
    keep: int = NIGHTS,
    junit: Path | None = None,
    as_json: bool = False,
    spark: SparkOptions = NO_OPTIONS,
    budget: Budget = Budget(),  # noqa: B008
) -> int:
    """Run the nightly job, with a campaign of ``seconds``, and return the exit code.

    ``out`` is the folder of the report and its data; the next night replaces them. The campaign runs
    ``families``, or all built-in ones. ``known`` holds the failures that the settings list. ``history`` is
    the folder or the address of the history, by default one in ``out``; it keeps ``keep`` nights. ``junit``
    is the path of a JUnit XML file. ``spark`` holds master and options of the session that judges, and
    ``budget`` is what each scenario may use. With ``as_json`` stdout has one document, and the summary goes
    to stderr.
    Raises the errors of a family, of an unwritable folder, and of a campaign that stopped.
    """
    find_java(os.environ)
    names = tuple(families) or tuple(family_names())
    # Check the families now, not after the hour before the campaign.
    for family in load_families(names):
        check_family(family)
    command = command or "onceproof nightly"
    if seed is None:
        seed = new_seed()
        # The command in the report repeats this night.
        command += f" --seed {seed}"
    night = _Night(out, seed, command, names, known)
    with progress_bar(None, None) as bar:
        nights = NightHistory(history or out / FOLDER_OF_HISTORY, keep, bar.warn)
        nights.prepare()
        prepare_file(junit)
        with claimed_folder(out):
            bar.describe("starting Spark")
            with obtained_session(spark, "onceproof nightly") as session:
                bar.warn(f"nightly run with seed {seed}")
                try:
                    night.attempt("flights", lambda: night.flights(partial(compare_year, session), bar))
                    night.attempt("planted bugs", lambda: night.planted_bugs(bar))
                    bar.describe("campaign")
                    bar.begin(None)
                    run = partial(run_campaign, session=session, budget=budget, resumes=False)
                    night.attempt("campaign", lambda: night.campaign(run, seconds, bar))
                except KeyboardInterrupt:
                    night.interrupted = "interrupted from the keyboard"
            return night.finish(bar, nights, junit, as_json)


class _Night:
    """A night that is running: the results of its finished parts."""

    def __init__(
        self, out: Path, seed: int, command: str, families: Sequence[str], known: Sequence[KnownSignature]
    ) -> None:
        self.interrupted = ""
        self._started = datetime.now(UTC)
        self._begun = time.perf_counter()
        self._seconds = 0.0
        self._families = families
        self._known = known
        self._out = out
        self._seed = seed
        self._command = command
        self._real_inputs: list[RealInput] = []
        self._mutants: list[Mutant] = []
        self._campaign = CampaignResult(RunResult((), (), seed, 0))
        self._mistake: Exception | None = None
        """The first error of a part."""
        self._problems: list[str] = []

    def attempt(self, part: str, run: Callable[[], None]) -> None:
        """Run a part of the night; its error is kept until the report is written."""
        try:
            run()
        except Exception as error:
            self._mistake = self._mistake or error
            self._problems.append(f"{part}: {line_of(error)}")

    def flights(self, compare: Callable[..., YearComparison], bar: Bar) -> None:
        """Count the year under kills on the local runtime and on Spark, and compare the rows."""
        self._count_year(LOCAL, FOLDER_OF_FLIGHTS, compare, bar)
        self._count_year(SPARK, FOLDER_OF_FLIGHTS_ON_SPARK, compare, bar)

    def _count_year(
        self, plan: Plan, folder_name: str, compare: Callable[..., YearComparison], bar: Bar
    ) -> None:
        name = plan.name
        bar.describe(f"{name}: reading the year")
        folder = emptied_folder(self._out / folder_name)
        try:
            files = write_year(self._out / FOLDER_OF_YEAR)

            def progress(history: History) -> None:
                kills = counted(len(history.statistics.recoveries), "kill")
                done = sum(kind == CHECKPOINT_COMPLETED for _, kind, _, _ in history.events)
                bar.describe(f"{name}: {kills}, {counted(done, 'checkpoint')}")

            trial = run_plan(plan, files, folder, self._seed, progress)
            bar.describe(f"{name}: comparing")
            comparison = compare(load_family(FAMILY), files, trial.output)
        except (DataMissing, DriverFailed, MalformedRow, YearUnreadable, OSError) as error:
            real = failed_input(" ".join(str(error).split()), self._command, name)
        else:
            real = real_input_of(trial, comparison, self._command, name)
        self._real_inputs.append(real)
        bar.warn(real_input_text(real))

    def planted_bugs(self, bar: Bar) -> None:
        """Measure as many planted bugs as fit into MUTANT_SECONDS."""
        # What no scenario shows is known, and a night need not say it again.
        mutants = [each for each in built_in_mutants() if not each.unseen]
        # Each night starts with another mutant, so that the time limit does not always skip the same ones.
        mutants = mutants[(first := self._seed % len(mutants)) :] + mutants[:first]
        deadline = time.perf_counter() + MUTANT_SECONDS
        tried = self._try_bugs(mutants, self._seed, deadline, bar)
        # Some mutants need more scenarios than one sample has. They get a second sample from another seed.
        survived = [mutant for mutant in mutants if mutant.id in tried and not tried[mutant.id].killed]
        for name, again in self._try_bugs(survived, self._seed + 1, deadline, bar).items():
            both = (tried[name].scenarios or 0) + (again.scenarios or 0)
            tried[name] = msgspec.structs.replace(again, scenarios=both)
        self._mutants = [*tried.values()]
        killed = sum(mutant.killed for mutant in self._mutants)
        left = f"; no time for {untried} more" if (untried := len(mutants) - len(tried)) else ""
        bar.warn(f"{killed} of {counted(len(tried), 'planted bug')} caught{left}")

    def _try_bugs(self, mutants: Sequence[Bug], seed: int, deadline: float, bar: Bar) -> dict[str, Mutant]:
        """Return the measured mutants by id; those after the deadline are missing."""
        tried: dict[str, Mutant] = {}
        mutants = mutants if time.perf_counter() < deadline else ()
        families, workers = family_names(), usable_processors()
        for result in measure_all(mutants, families, seed, workers=workers, shrink_runs=0):
            tried[result.id] = mutant_of(result)
            # An interrupted night reports the mutants measured so far.
            self._mutants = [*(each for each in self._mutants if each.id != result.id), tried[result.id]]
            bar.describe(f"planted bugs: {len(tried)} of {len(mutants)}")
            if time.perf_counter() > deadline:
                break
        return tried

    def campaign(self, run: Callable[..., CampaignResult], seconds: float, bar: Bar) -> None:
        """Run a campaign over the families."""
        try:
            self._campaign = run(
                self._families,
                max_time=seconds,
                seed=self._seed,
                out=self._out / FOLDER_OF_CAMPAIGN,
                progress=bar.show_counts,
                least_each=SCENARIOS_EACH,
            )
        except CampaignStopped as stopped:
            self._campaign = stopped.campaign
            raise

    def finish(self, bar: Bar, history: NightHistory, junit: Path | None, as_json: bool) -> int:
        """Write the report and the history, print the summary, and return the exit code."""
        run = self._campaign.run
        cases: list[FailureCase] = []
        self.attempt(
            "failures", lambda: cases.extend(examine_failures(run, self._out, bar.describe, self._known))
        )
        bar.describe("writing the report")
        # One length for the page and for the history.
        self._seconds = round(time.perf_counter() - self._begun, 3)
        report = added_to_history(history, self._report(cases), self._started, self._seconds)
        page = write_report(report, self._out, junit)
        if as_json:
            document = night_document(summary_document(run, report, self._out), report)
            print(msgspec.json.encode(document).decode())
        for line in _summary(run, cases, report, page):
            print(line, file=sys.stderr if as_json else sys.stdout)
        if self._mistake is not None:
            raise self._mistake
        code = exit_code(report)
        return INTERRUPTED if report.interrupted and code != FAILED else code

    def _report(self, cases: Sequence[FailureCase]) -> Report:
        """Return the report of this night without its history."""
        run = self._campaign.run
        report = build_report(run, cases, self._command, self._mistake, self._known)
        if run.tally.scenarios:
            report = add_oracle_agreement(report, self._campaign)
        interrupted = report.interrupted or self.interrupted
        problems = list(self._problems)
        if not run.tally.scenarios and not interrupted:
            problems.append("the campaign ran no scenario")
        return msgspec.structs.replace(
            report,
            real_inputs=tuple(self._real_inputs),
            mutants=tuple(self._mutants),
            interrupted=interrupted,
            problems=(*report.problems, *problems),
            facts=msgspec.structs.replace(
                report.facts, started=time_text(self._started), night_seconds=self._seconds
            ),
        )


def _summary(run: RunResult, cases: list[FailureCase], report: Report, page: Path) -> Iterable[str]:
    for real in report.real_inputs:
        yield real_input_text(real)
    if report.mutants:
        killed = sum(mutant.killed for mutant in report.mutants)
        yield f"{killed} of {counted(len(report.mutants), 'planted bug')} caught"
    yield from summary_lines(run, cases, report, page)
    headline = conclude(report)
    yield f"{headline.word}. {headline.sentence}"


def night_document(campaign: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return what `nightly --json` prints: the document of its campaign, its verdict and its other parts."""
    return campaign | {
        "verdict": conclude(report).status,
        "real_inputs": report.real_inputs,
        "mutants": report.mutants,
    }


def mutant_of(result: Result) -> Mutant:
    """Return a measured mutant as the report's model holds it."""
    shrunk = result.shrunk
    return Mutant(
        id=result.id,
        origin=result.origin,
        breaks=result.breaks,
        reached=result.reached,
        killed=result.killed,
        property=result.property,
        scenarios=result.scenarios,
        shrunk=None if shrunk is None else Sizes(shrunk.records, shrunk.faults, shrunk.schedule),
        seconds=round(result.seconds, 3),
        summary=result.summary,
    )
