"""The campaign: many scenarios as a data pipeline on Spark.

The rules this module lives by:

- Executors simulate the scenarios of a seed and write their trials as Parquet; one Spark SQL job judges all
  of them. The scenarios, outcomes, tally and hash are those of ``run`` with the same seed and count.
- Two independent oracles judge every scenario: the family's Python on the executors, its SQL here. If they
  disagree, one of them is wrong, and the campaign fails.
- Scenarios run in waves. After each wave its outcomes are in outcomes.jsonl, so they are kept however the
  campaign ends. Spark SQL judges at the end, because each judgement has a fixed cost; if an interrupt or an
  error ends the campaign early, ``judged`` says how many scenarios were judged.
- A campaign with a time limit measures its speed and sizes each wave by it; executors start no scenario after
  the deadline. Scenarios that it owes each family may take as long again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from onceproof.engine.runtime.spark_options import NO_OPTIONS, SparkOptions
from onceproof.engine.runtime.spark_session import SparkFailed, obtained_session
from onceproof.harness.campaign.executor import FamilySource, Simulation
from onceproof.harness.campaign.jobs import SimulationJob, run_in_parallel
from onceproof.harness.campaign.judge import (
    JUDGED_BY_PYTHON,
    Disagreement,
    Trials,
    check_judgeable,
    disagreements,
    table_in,
)
from onceproof.harness.campaign.pace import Pace
from onceproof.harness.campaign.trial_tables import TrialTables
from onceproof.harness.checkers.oracle_spark import arrow_schemas_of
from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.trials.output_files import (
    OutcomeFile,
    OutputUnwritable,
    emptied_folder,
    made_folder,
    open_output,
)
from onceproof.harness.trials.pool import WorkerFailed
from onceproof.harness.trials.runner import RunResult, RunStopped, load_families
from onceproof.harness.trials.trial import check_family

TRIALS: Final = "trials"
"""The folder of the Parquet files, in the folder of the results."""

Progress = Callable[[int, int], None]
"""Called with the number of simulated scenarios, and of failed ones among those with an outcome."""


@dataclass(slots=True)
class CampaignResult:
    """The result of a campaign: that of a run, and the comparison of the two oracles."""

    run: RunResult
    disagreements: list[Disagreement] = field(default_factory=list)
    judged: int = 0
    """How many scenarios the Spark oracle has judged."""
    judging_seconds: float = 0.0
    """The duration of all judgements."""
    master: str = ""

    @property
    def passed(self) -> bool:
        """Return whether no scenario failed and the oracles agree."""
        return not self.run.tally.failed and not self.disagreements


class CampaignStopped(RunStopped):
    """An error ended a campaign early: ``mistake`` is the error, ``campaign`` the result so far."""

    def __init__(self, campaign: CampaignResult, mistake: Exception) -> None:
        super().__init__(campaign.run, mistake)
        self.campaign = campaign


def run_campaign(
    names: Sequence[str],
    *,
    scenarios: int | None = None,
    max_time: float | None = None,
    seed: int = 0,
    out: Path,
    spark: SparkOptions = NO_OPTIONS,
    session: SparkSession | None = None,
    progress: Progress = lambda simulated, failed: None,
    least_each: int = 0,
) -> CampaignResult:
    """Run scenarios of some families on Spark, up to a number or a time limit, and judge them.

    :param names: names or paths of the families
    :param scenarios: how many scenarios over all families; None for no limit
    :param max_time: the time limit in seconds, including the start of Spark; None for no limit
    :param seed: the seed of the campaign, from which each scenario's seed follows
    :param out: the folder that gets outcomes.jsonl and the trials
    :param spark: Spark's master and options if ``session`` is None
    :param session: the Spark session, whose settings and temporary views stay as they are; None for the Spark
        of this process, or that of spark-submit, or a new one
    :param progress: called after each wave and several times a second with the numbers so far
    :param least_each: how many scenarios each family gets although ``max_time`` is over, for as long again
    :return: the result; after an interrupt from the keyboard, of the scenarios so far
    :raises CampaignStopped: a family, an executor or Spark failed
    """
    started = time.time()
    families = load_families(names)
    for family in families:
        check_family(family)
    run = RunResult(families, tuple(names), seed, 0)
    result = CampaignResult(run)
    made_folder(out)
    with ExitStack() as stack:
        # Before the folder is emptied: if Spark does not start, the results of the last campaign stay.
        session = stack.enter_context(obtained_session(spark, "onceproof campaign", session))
        result.master = session.sparkContext.master or ""
        run.workers = session.sparkContext.defaultParallelism
        lines = stack.enter_context(open_output(out))
        assert lines is not None
        deadline = None if max_time is None else started + max_time
        try:
            # An absolute path, because executors have other working folders.
            folder = emptied_folder((out / TRIALS).resolve())
            least = least_each * len(run.families)
            latest = None if max_time is None else started + 2 * max_time
            pace = Pace(run.workers, scenarios, deadline, len(run.families), least, latest)
            _Campaign(session, result, folder, lines, pace, progress).run()
        except KeyboardInterrupt:
            run.interrupted = True
        except (FamilyError, OutputUnwritable, WorkerFailed, SparkFailed) as mistake:
            raise CampaignStopped(result, mistake) from mistake
        finally:
            run.seconds = time.time() - started
    return result


@dataclass(frozen=True, slots=True)
class _UnjudgedTrials:
    """The trials of one family that Spark SQL has not judged yet."""

    family: Family
    tables: TrialTables
    folders: list[Path] = field(default_factory=list)
    verdicts: list[pa.Table] = field(default_factory=list)

    def add(self, folder: Path, verdicts: pa.Table) -> None:
        """Add the trials of a wave."""
        if not any(folder.glob("part-*")):
            raise SparkFailed(
                f"{folder} has no trials after a wave: the executors do not share this folder; choose one"
                " that all machines share"
            )
        self.folders.append(folder)
        self.verdicts.append(verdicts.select(JUDGED_BY_PYTHON))

    def trials(self, session: SparkSession) -> Trials:
        table = table_in(session, self.tables, self.folders)
        return Trials(self.family, table, pa.concat_tables(self.verdicts))

    def clear(self) -> None:
        self.folders.clear()
        self.verdicts.clear()


class _Campaign:
    """The waves of one campaign."""

    def __init__(
        self,
        session: SparkSession,
        result: CampaignResult,
        folder: Path,
        lines: OutcomeFile,
        pace: Pace,
        progress: Progress,
    ) -> None:
        self._session = session
        self._result = result
        self._families = result.run.families
        self._folder = folder
        self._lines = lines
        self._progress = progress
        self._tables = [TrialTables(family.name, *arrow_schemas_of(family)) for family in self._families]
        self._sources = [FamilySource.of(name) for name in result.run.names]
        self._unjudged = [
            _UnjudgedTrials(family, tables)
            for family, tables in zip(self._families, self._tables, strict=True)
        ]
        for family, tables in zip(self._families, self._tables, strict=True):
            check_judgeable(session, family, tables)
        self._pace = pace
        self._waves = 0

    def run(self) -> None:
        """Run waves until there are enough scenarios or the time is over, and judge them."""
        first = 0
        while count := self._pace.next_count(first, time.time()):
            self._wave(first, count)
            # Scenarios that the executors did not start in time are left out.
            first += count
            if self._pace.is_judging_due or not self._pace.next_count(first, time.time()):
                # A judgement that is faster than estimated leaves time for a further wave.
                self._judge()

    def _wave(self, first: int, count: int) -> None:
        """Simulate a wave and write its outcomes."""
        jobs = self._jobs(first, count)
        run = self._result.run
        done, failed = run.tally.scenarios, run.tally.failed
        begun = time.perf_counter()
        verdicts = run_in_parallel(
            self._session, jobs, lambda part: self._progress(done + int(part * count), failed)
        )
        seconds = time.perf_counter() - begun
        self._write_outcomes(verdicts)
        for unjudged, job, table in zip(self._unjudged, jobs, verdicts, strict=True):
            if table.num_rows:
                unjudged.add(job.simulation.folder, table)
        self._waves += 1
        self._pace.record_wave(run.tally.scenarios - done, seconds)

    def _judge(self) -> None:
        """Judge all unjudged trials with Spark SQL."""
        begun = time.perf_counter()
        trials = [unjudged.trials(self._session) for unjudged in self._unjudged if unjudged.folders]
        self._result.disagreements += disagreements(self._session, trials)
        for unjudged in self._unjudged:
            unjudged.clear()
        self._result.judged = self._result.run.tally.scenarios
        seconds = time.perf_counter() - begun
        self._result.judging_seconds += seconds
        self._pace.record_judgement(seconds)

    def _jobs(self, first: int, count: int) -> list[SimulationJob]:
        """Return a job for each family, with the scenario numbers of its turns."""
        size = len(self._families)
        tasks = self._pace.tasks_of(count, size)
        deadline = self._pace.start_deadline(first, count, time.time())
        jobs = []
        for place, tables in enumerate(self._tables):
            name = re.sub(r"[^A-Za-z0-9_-]+", "_", tables.family)
            simulation = Simulation(
                source=self._sources[place],
                tables=tables,
                run_seed=self._result.run.seed,
                families=size,
                folder=self._folder / f"{place}-{name}" / f"wave-{self._waves:04d}",
                deadline=deadline,
            )
            numbers = range(first + (place - first) % size, first + count, size)
            jobs.append(SimulationJob(simulation, numbers, tasks))
        return jobs

    def _write_outcomes(self, verdicts: Sequence[pa.Table]) -> None:
        """Write the outcomes of a wave and add them to the tally, in the order of the campaign."""
        table = pa.concat_tables(verdicts).select(["scenario_id", "line"]).sort_by("scenario_id")
        lines = table.column("line").to_pylist()
        self._lines.write(lines)
        tally = self._result.run.tally
        for line in lines:
            tally.add(from_line(line))
        self._progress(tally.scenarios, tally.failed)
