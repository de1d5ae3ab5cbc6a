"""The campaign: a night's scenarios as a data pipeline on Spark.

The rules this module lives by:

- Seeds become scenarios, scenarios are simulated on executors, trials lie in Parquet, and Spark SQL judges
  them all in one job. What ran is what `run` would have run with the same seed and count, and is told the
  same way: same outcomes, same tally, same hash.
- Two oracles judge every scenario, written apart: the family's Python on the executors, its SQL here. Where
  they disagree one of them is wrong, and the campaign has failed, whatever became of the engine.
- Work comes in waves. After each wave its outcomes are in outcomes.jsonl: what was done is kept, however the
  campaign ends. Spark SQL judges in the end, for a judgement costs its time however little is judged; where
  an interrupt or a mistake ends the campaign early, ``judged`` says how far it came.
- A campaign that is bounded by time measures how fast it is and gives each wave what fits; executors begin
  nothing after the deadline, so it ends in time on a machine that turns slow, too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from onceproof.engine.runtime.spark_session import LOCAL_MASTER, SparkFailed, spark_session
from onceproof.harness.campaign.executor import FamilySource, Simulation
from onceproof.harness.campaign.jobs import SimulationJob, run_side_by_side
from onceproof.harness.campaign.judge import (
    JUDGED_BY_PYTHON,
    Disagreement,
    Trials,
    check_judgeable,
    disagreements,
    table_in,
)
from onceproof.harness.campaign.pace import Pace
from onceproof.harness.campaign.tables import TrialTables
from onceproof.harness.checkers.oracle_spark import arrow_schemas_of
from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.trials.pool import WorkerFailed
from onceproof.harness.trials.runner import (
    OutputUnwritable,
    RunResult,
    RunStopped,
    emptied_folder,
    load_families,
    made_folder,
    open_output,
)
from onceproof.harness.trials.trial import check_family

TRIALS: Final = "trials"
"""The folder of the Parquet files, in the folder of the results."""

Progress = Callable[[int, int], None]
"""Is told how many scenarios were simulated, and how many of those that were judged have failed."""


@dataclass(slots=True)
class CampaignResult:
    """What a campaign came to."""

    run: RunResult
    """As of any other run."""
    disagreements: list[Disagreement] = field(default_factory=list)
    judged: int = 0
    """How many scenarios the Spark oracle has judged."""
    judging_seconds: float = 0.0
    """What that took."""
    master: str = ""

    @property
    def passed(self) -> bool:
        """Return whether no scenario failed and the oracles agree."""
        return not self.run.tally.failed and not self.disagreements


class CampaignStopped(RunStopped):
    """A mistake ended a campaign early: ``mistake`` says which, ``campaign`` holds what was done."""

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
    master: str | None = None,
    session: SparkSession | None = None,
    progress: Progress = lambda simulated, failed: None,
) -> CampaignResult:
    """Run scenarios of families, given by name or path, until there are enough or the time is over.

    Without a session one is started, within the time. ``out`` gets outcomes.jsonl and the trials. An
    interrupt from the keyboard ends the campaign early, with a result; a mistake does with CampaignStopped.
    """
    started = time.time()
    families = load_families(names)
    for family in families:
        check_family(family)
    run = RunResult(families, tuple(names), seed, 0)
    result = CampaignResult(run)
    made_folder(out)
    with ExitStack() as stack:
        # First: where Spark does not start, the results of the last campaign stay.
        if session is None:
            session = stack.enter_context(spark_session(master or LOCAL_MASTER, "onceproof campaign"))
        result.master = session.sparkContext.master or ""
        run.workers = session.sparkContext.defaultParallelism
        lines = stack.enter_context(open_output(out))
        assert lines is not None
        deadline = None if max_time is None else started + max_time
        try:
            # Executors work in folders of their own.
            folder = emptied_folder((out / TRIALS).resolve())
            pace = Pace(run.workers, scenarios, deadline, len(run.families))
            _Campaign(session, result, folder, lines, pace, progress).run()
        except KeyboardInterrupt:
            run.interrupted = True
        except (FamilyError, OutputUnwritable, WorkerFailed, SparkFailed) as mistake:
            raise CampaignStopped(result, mistake) from mistake
        finally:
            run.seconds = time.time() - started
    return result


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Trials of one family that wait for the judgement of Spark SQL."""

    family: Family
    tables: TrialTables
    folders: list[Path] = field(default_factory=list)
    verdicts: list[pa.Table] = field(default_factory=list)

    def add(self, folder: Path, verdicts: pa.Table) -> None:
        """Take the trials of a wave."""
        if not any(folder.glob("part-*")):
            raise SparkFailed(
                f"the executors have written their trials to another {folder} than the one here:"
                " choose a folder that all machines share"
            )
        self.folders.append(folder)
        self.verdicts.append(verdicts.select(JUDGED_BY_PYTHON))

    def trials(self, session: SparkSession) -> Trials:
        """Return all of them."""
        table = table_in(session, self.tables, self.folders)
        return Trials(self.family, table, pa.concat_tables(self.verdicts))

    def clear(self) -> None:
        """Let go of what has been judged."""
        self.folders.clear()
        self.verdicts.clear()


class _Campaign:
    """The waves of one campaign."""

    def __init__(
        self,
        session: SparkSession,
        result: CampaignResult,
        folder: Path,
        lines: IO[bytes],
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
        self._waiting = [
            _Waiting(family, tables) for family, tables in zip(self._families, self._tables, strict=True)
        ]
        for family, tables in zip(self._families, self._tables, strict=True):
            check_judgeable(session, family, tables)
        self._pace = pace
        self._waves = 0

    def run(self) -> None:
        """Run waves until there are enough scenarios or the time is over, and judge."""
        first = 0
        while count := self._pace.next_count(first, time.time()):
            self._wave(first, count)
            # What executors had no time to begin is left out.
            first += count
            if self._pace.is_judging_due or not self._pace.next_count(first, time.time()):
                # It may take less than was expected, and leave time for more.
                self._judge()

    def _wave(self, first: int, count: int) -> None:
        """Simulate, and keep the outcomes."""
        jobs = self._jobs(first, count)
        run = self._result.run
        done, failed = run.tally.scenarios, run.tally.failed
        begun = time.perf_counter()
        verdicts = run_side_by_side(
            self._session, jobs, lambda part: self._progress(done + int(part * count), failed)
        )
        seconds = time.perf_counter() - begun
        self._keep(verdicts)
        for waiting, job, table in zip(self._waiting, jobs, verdicts, strict=True):
            if table.num_rows:
                waiting.add(job.simulation.folder, table)
        self._waves += 1
        self._pace.learn_wave(run.tally.scenarios - done, seconds)

    def _judge(self) -> None:
        """Have Spark SQL judge what waits for it."""
        begun = time.perf_counter()
        trials = [waiting.trials(self._session) for waiting in self._waiting if waiting.folders]
        self._result.disagreements += disagreements(self._session, trials)
        for waiting in self._waiting:
            waiting.clear()
        self._result.judged = self._result.run.tally.scenarios
        seconds = time.perf_counter() - begun
        self._result.judging_seconds += seconds
        self._pace.learn_judging(seconds)

    def _jobs(self, first: int, count: int) -> list[SimulationJob]:
        """Return a job for each family, with the numbers that are its turns."""
        size = len(self._families)
        tasks = self._pace.tasks_of(count, size)
        until = self._pace.begin_until(first, count, time.time())
        jobs = []
        for place, tables in enumerate(self._tables):
            name = re.sub(r"[^A-Za-z0-9_-]+", "_", tables.family)
            simulation = Simulation(
                source=self._sources[place],
                tables=tables,
                run_seed=self._result.run.seed,
                families=size,
                folder=self._folder / f"{place}-{name}" / f"wave-{self._waves:04d}",
                deadline=until,
            )
            numbers = range(first + (place - first) % size, first + count, size)
            jobs.append(SimulationJob(simulation, numbers, tasks))
        return jobs

    def _keep(self, verdicts: Sequence[pa.Table]) -> None:
        """Write outcomes down and count them, in the order of the campaign."""
        table = pa.concat_tables(verdicts).select(["scenario_id", "line"]).sort_by("scenario_id")
        lines = table.column("line").to_pylist()
        self._lines.writelines(lines)
        self._lines.flush()
        tally = self._result.run.tally
        for line in lines:
            tally.add(from_line(line))
        self._progress(tally.scenarios, tally.failed)
