"""The campaign: many scenarios as a data pipeline on Spark.

The rules this module lives by:

- Executors simulate the scenarios of a seed and write their trials as Parquet; one Spark SQL job judges all
  of them. The scenarios, outcomes, tally and hash are those of ``run`` with the same seed and count.
- Two independent oracles judge every scenario: the family's Python on the executors, its SQL here. If they
  disagree, one of them is wrong, and the campaign fails. A family without SQL, such as a script, is judged by
  Python alone, and the report says so.
- Scenarios run in waves. After each wave its outcomes are in outcomes.jsonl. Spark SQL judges at the end,
  because each judgement has a fixed cost; ``judged`` is the number of scenarios that it has read.
- What executors have written is kept however the campaign ends, and counts: an interrupted campaign reports
  it, and the same command resumes from it, with the result of a campaign that nothing disturbed.
- As many scenarios are judged as were acknowledged and stand in outcomes.jsonl, or the campaign has failed.
- A campaign with a time limit measures its speed and sizes each wave by it; executors start no scenario after
  the deadline. It goes on until a later limit while it has not run what it must run at the least.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
from pyarrow import compute as pc
from pyspark.sql import DataFrame, SparkSession

from onceproof.engine.runtime.spark_session import SparkFailed, obtained_session
from onceproof.harness.campaign.campaign_plan import CampaignPlan
from onceproof.harness.campaign.executor import FamilySource, Simulation, Wave
from onceproof.harness.campaign.jobs import WaveJob, run_job
from onceproof.harness.campaign.judge import (
    JUDGED_BY_PYTHON,
    Disagreement,
    Trials,
    check_judgeable,
    counted_rows,
    disagreements,
    table_in,
)
from onceproof.harness.campaign.pace import Pace, WaveSize, by_turns
from onceproof.harness.campaign.store_probe import probe
from onceproof.harness.campaign.trial_store import (
    FinishedFile,
    TrialsLost,
    TrialStore,
    WrittenFile,
    manifest_of,
)
from onceproof.harness.campaign.trial_tables import ANSWERS, VERDICTS, TrialTables
from onceproof.harness.checkers.oracle_spark import SCENARIO, TRIAL_COLUMNS, arrow_schemas_of
from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import own_system
from onceproof.harness.trials.output_files import OutcomeFile, OutputUnwritable, made_folder, open_output
from onceproof.harness.trials.runner import MISTAKES, RunResult, RunStopped, interrupts_held, load_families
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
    """How many scenarios Spark has read, and judged where their family has SQL."""
    compared: int = 0
    """How many of them are of families with SQL, and so judged by both oracles."""
    resumed: int = 0
    """How many scenarios an earlier attempt at this campaign had finished."""
    judging_seconds: float = 0.0
    """The duration of all judgements."""
    master: str = ""
    changed: Sequence[str] = ()
    """The files beside the families that were others when the campaign began that was resumed."""

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
    plan: CampaignPlan,
    session: SparkSession | None = None,
    progress: Progress = lambda simulated, failed: None,
    clock: Callable[[], float] = time.time,
) -> CampaignResult:
    """Run scenarios of some families on Spark, up to a number or a time limit, and judge them.

    Args:
        plan: which scenarios, and where.
        session: the Spark session, which stays as it is; None for that of this process, or a new one.
        progress: called after each wave and several times a second with the numbers so far.
        clock: the current time in seconds since the epoch.

    Returns:
        The result; after an interrupt from the keyboard, of the scenarios so far.

    Raises:
        CampaignStopped: a family, an executor, Spark or the store failed.
        OutputUnwritable: the store holds what this campaign may not replace.
    """
    started = clock()
    asked = plan.run
    families = load_campaign_families(asked.families)
    run = RunResult(families, asked.families, asked.seed, 0)
    result = CampaignResult(run)
    sources = _sharing_modules([FamilySource.of(name) for name in asked.families])
    made_folder(asked.out)
    manifest = manifest_of(families, sources, asked.seed, asked.scenarios)
    trials = TrialStore(plan.store or str(asked.out / TRIALS), manifest)
    is_resumed = trials.resumes(plan.resumes)
    result.changed = trials.changed
    with ExitStack() as stack:
        # Before anything is deleted: if Spark does not start, the results of the last campaign stay.
        session = stack.enter_context(obtained_session(plan.spark, "onceproof campaign", session))
        result.master = session.sparkContext.master or ""
        run.workers = session.sparkContext.defaultParallelism
        try:
            probe(session, trials.files)
            trials.begin(is_resumed)
            lines = stack.enter_context(open_output(asked.out))
            assert lines is not None
            end = None if asked.max_time is None else started + asked.max_time
            limit = started + plan.minimums.limit_seconds
            pace = Pace(run.workers, asked.scenarios, end, len(families), limit)
            work = _Campaign(session, plan, result, sources, trials, lines, pace, clock, progress)
            work.run_or_keep(is_resumed)
        except KeyboardInterrupt:
            run.interrupted = True
        except (*MISTAKES, SparkFailed, TrialsLost) as mistake:
            if isinstance(mistake, FamilyError):
                # The family that is fixed is another one, and replaces what this one has left.
                trials.end()
            raise CampaignStopped(result, mistake) from mistake
        finally:
            run.seconds = clock() - started
    return result


def load_campaign_families(addresses: Sequence[str]) -> tuple[Family, ...]:
    """Return families that a campaign can judge. Raises FamilyError."""
    for address in addresses:
        if (system := own_system(address)) is not None:
            raise FamilyError(f"{address}: a campaign simulates, and it runs on {system}: use onceproof run")
    families = load_families(addresses)
    for family in families:
        check_family(family)
    return families


def _sharing_modules(sources: Sequence[FamilySource]) -> list[FamilySource]:
    """Return the sources with one archive for each folder: all of them travel in one message."""
    archives = {source.modules: source.modules for source in sources}
    return [replace(source, modules=archives[source.modules]) for source in sources]


@dataclass(slots=True)
class _FamilyTrials:
    """The trials of one family: what is written, found and not judged yet."""

    family: Family
    tables: TrialTables
    source: FamilySource
    written: list[WrittenFile] = field(default_factory=list)
    """All files that were acknowledged."""
    found: list[FinishedFile] = field(default_factory=list)
    """The files of an earlier attempt whose scenarios are not taken yet."""
    files: list[WrittenFile] = field(default_factory=list)
    """Those that are not judged."""
    verdicts: list[pa.Table] = field(default_factory=list)
    """Python's judgement of the scenarios that Spark SQL has not judged."""

    @property
    def has_sql(self) -> bool:
        """Whether Spark SQL judges them as well."""
        return bool(self.family.oracle_sql)

    def add(self, files: Sequence[WrittenFile], verdicts: pa.Table) -> None:
        """Add files that were acknowledged, and the verdicts of their scenarios."""
        self.written += files
        self.files += files
        self.verdicts.append(verdicts.select(JUDGED_BY_PYTHON))

    def take_found(self, first: int, stop: int) -> pa.Table:
        """Return the verdicts of found scenarios with these numbers; a file is added with its last one."""
        taken = [VERDICTS.empty_table()]
        for file in self.found:
            number = file.verdicts["scenario_id"]
            wanted = pc.and_(pc.greater_equal(number, first), pc.less(number, stop))
            taken.append(file.verdicts.filter(wanted))
            if file.last < stop:
                self.add([file.written], file.verdicts)
        self.found = [file for file in self.found if file.last >= stop]
        return pa.concat_tables(taken)

    def numbers_found(self) -> set[int]:
        """Return the numbers of the scenarios that need not run again."""
        return {number for file in self.found for number in file.verdicts["scenario_id"].to_pylist()}


class _Campaign:
    """The waves of one campaign."""

    def __init__(
        self,
        session: SparkSession,
        plan: CampaignPlan,
        result: CampaignResult,
        sources: Sequence[FamilySource],
        store: TrialStore,
        lines: OutcomeFile,
        pace: Pace,
        clock: Callable[[], float],
        progress: Progress,
    ) -> None:
        self._session = session
        self._plan = plan
        self._result = result
        self._store = store
        self._lines = lines
        self._progress = progress
        self._clock = clock
        self._trials = [
            _FamilyTrials(family, TrialTables(family.name, *arrow_schemas_of(family)), source)
            for family, source in zip(result.run.families, sources, strict=True)
        ]
        for trials in self._trials:
            if trials.has_sql:
                check_judgeable(session, trials.family, trials.tables)
        # One object for each family, because all tasks of a wave travel together.
        self._stores = [store.folder(place) for place in range(len(sources))]
        self._pace = pace
        self._taken = 0
        """All scenarios before this number are in the tally, or were left out."""

    def run_or_keep(self, is_resumed: bool) -> None:
        """Run the campaign; however it ends, what executors have written counts."""
        try:
            self.run(is_resumed)
        except BaseException:
            # A second error must not hide the first one.
            with suppress(OutputUnwritable, OSError):
                self.take_written()
            raise

    def run(self, is_resumed: bool) -> None:
        """Run waves until there are enough scenarios or the time is over, and judge them."""
        if is_resumed:
            self._find_finished()
        while size := self._next_wave():
            self._wave(self._taken, size)
            if self._pace.is_judging_due or not self._next_wave():
                # A judgement that is faster than estimated leaves time for a further wave.
                self._judge()
        if any(trials.found for trials in self._trials):
            # An earlier attempt had more time.
            self._take_found()
            self._judge()
        self._compare_counts()
        self._store.finish([trials.written for trials in self._trials])

    def _next_wave(self) -> WaveSize | None:
        owed = self._plan.minimums.owed(self._result.run)
        return self._pace.next_wave(self._taken, self._clock(), owed)

    def _find_finished(self) -> None:
        """Find what an earlier attempt has finished."""
        for place, trials in enumerate(self._trials):
            trials.found = self._store.finished(place)
        self._result.resumed = sum(file.written.rows for trials in self._trials for file in trials.found)

    def take_written(self) -> None:
        """Take the outcomes that executors have written and no wave has taken; they are not judged yet."""
        for place, trials in enumerate(self._trials):
            trials.found = self._store.finished(place, trials.written)
        self._take_found()

    def _take_found(self) -> None:
        files = [file for trials in self._trials for file in trials.found]
        if not files:
            return
        stop = 1 + max(file.last for file in files)
        self._take([trials.take_found(self._taken, stop) for trials in self._trials])
        self._taken = max(self._taken, stop)

    def _wave(self, first: int, size: WaveSize) -> None:
        """Simulate a wave, except for what is finished, and take its outcomes."""
        stop = first + size.scenarios
        tasks = self._tasks(first, size)
        run = self._result.run
        done, failed = run.tally.scenarios, run.tally.failed
        begun = self._clock()
        answer = ANSWERS.empty_table()
        if tasks:
            answer = run_job(
                self._session,
                WaveJob(Wave(tasks)),
                lambda part: self._progress(done + int(part * size.scenarios), failed),
            )
        seconds = self._clock() - begun
        taken = []
        for place, trials in enumerate(self._trials):
            found = trials.take_found(first, stop)
            self._pace.record_found(found.num_rows)
            own = answer.filter(pc.equal(_places(answer, len(self._trials)), place))
            verdicts = own.select(VERDICTS.names)
            trials.add(_acknowledged(own), verdicts)
            taken += [found, verdicts]
        # Scenarios that the executors did not start in time are left out.
        self._taken = stop
        self._take(taken)
        if tasks:
            self._pace.record_wave(answer.num_rows, seconds)

    def _judge(self) -> None:
        """Judge all unjudged trials with Spark SQL."""
        begun = self._clock()
        unjudged = [(place, trials) for place, trials in enumerate(self._trials) if trials.files]
        numbers = [self._table(place, trials, (SCENARIO,)) for place, trials in unjudged]
        counts = counted_rows(self._session, numbers) if numbers else []
        for (_, trials), found in zip(unjudged, counts, strict=True):
            written = sum(file.rows for file in trials.files)
            verdicts = sum(table.num_rows for table in trials.verdicts)
            if not found == written == verdicts:
                raise TrialsLost(
                    f"family {trials.family.name}: Spark SQL has read {found:,} scenarios, executors have"
                    f" written {written:,}, and {verdicts:,} have outcomes"
                )
        self._result.disagreements += disagreements(
            self._session,
            [
                Trials(trials.family, self._table(place, trials), pa.concat_tables(trials.verdicts))
                for place, trials in unjudged
                if trials.has_sql
            ],
        )
        self._result.judged += sum(counts)
        self._result.compared += sum(
            count for (_, trials), count in zip(unjudged, counts, strict=True) if trials.has_sql
        )
        for trials in self._trials:
            trials.files.clear()
            trials.verdicts.clear()
        seconds = self._clock() - begun
        self._result.judging_seconds += seconds
        self._pace.record_judgement(seconds)

    def _table(self, place: int, trials: _FamilyTrials, columns: Sequence[str] = TRIAL_COLUMNS) -> DataFrame:
        return table_in(self._session, trials.tables, self._store.folder(place), trials.files, columns)

    def _compare_counts(self) -> None:
        """Compare what was judged with what outcomes.jsonl holds. Raises TrialsLost."""
        judged, tried = self._result.judged, self._result.run.tally.scenarios
        with self._lines.path.open("rb") as file:
            written = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
        if not judged == tried == written:
            raise TrialsLost(
                f"{self._lines.path}: holds {written:,} outcomes of {tried:,} scenarios, and Spark SQL has"
                f" judged {judged:,}: repeat the command, which runs what is missing"
            )

    def _tasks(self, first: int, size: WaveSize) -> list[Simulation]:
        """Return the tasks of a wave without what is finished; the families take turns."""
        families = len(self._trials)
        unfinished = []
        for place, trials in enumerate(self._trials):
            found = trials.numbers_found()
            numbers = range(first + (place - first) % families, first + size.scenarios, families)
            unfinished.append([number // families for number in numbers if number not in found])
        return [
            Simulation(
                source=self._trials[place].source,
                tables=self._trials[place].tables,
                run_seed=self._result.run.seed,
                families=families,
                place=place,
                turns=_ranges(turns),
                store=self._stores[place],
                budget=self._plan.run.budget,
                deadline=size.until,
            )
            for place, turns in by_turns(unfinished, self._pace.turns_of(size.scenarios, families))
        ]

    def _take(self, verdicts: Sequence[pa.Table]) -> None:
        """Write the outcomes of a wave and add them to the tally, in the order of the campaign."""
        table = pa.concat_tables(verdicts).select(["scenario_id", "line"]).sort_by("scenario_id")
        lines = table.column("line").to_pylist()
        tally = self._result.run.tally
        # An interrupt in between would leave lines out that the tally holds.
        with interrupts_held():
            self._lines.write(lines)
            for line in lines:
                tally.add(from_line(line))
        self._progress(tally.scenarios, tally.failed)


def _ranges(turns: Sequence[int]) -> list[range]:
    """Return turns as ranges of those that follow each other."""
    ranges: list[range] = []
    for turn in turns:
        if ranges and ranges[-1].stop == turn:
            ranges[-1] = range(ranges[-1].start, turn + 1)
        else:
            ranges.append(range(turn, turn + 1))
    return ranges


def _places(answer: pa.Table, families: int) -> pa.ChunkedArray:
    """Return for each row the place of its family, which its number tells."""
    numbers = answer["scenario_id"]
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, families), families))


def _acknowledged(answer: pa.Table) -> list[WrittenFile]:
    """Return the files that the tasks of a job acknowledge."""
    return [WrittenFile(**each) for each in answer.column("written").drop_null().to_pylist()]
