"""The campaign: many scenarios as a data pipeline on Spark.

The rules this module lives by:

- Executors simulate the scenarios of a seed, write their trials as Parquet, and answer with a tally of them;
  one Spark SQL job judges all of them. The scenarios, outcomes, tally and hash are those of ``run`` with the
  same seed and count.
- Two independent oracles judge every scenario: the family's Python on the executors, its SQL here. If they
  disagree, one of them is wrong, and the campaign fails. A family without SQL, such as a script, is judged by
  Python alone, and the report says so.
- Scenarios run in waves. After each wave its outcomes are in outcomes.jsonl. Two waves run at a time, and in
  a long campaign a judgement beside them, so no core waits for another one, or for the driver.
- The memory of the driver does not grow with the number of scenarios: it holds a tally, the names of files,
  and the answers of two waves.
- What executors have written is kept however the campaign ends, and counts: an interrupted campaign reports
  it, and the same command resumes from it, with the result of a campaign that nothing disturbed.
- Spark SQL judges files, after their wave; ``judged`` is the number of scenarios that it has read.
- As many scenarios are judged as were acknowledged and stand in outcomes.jsonl, or the campaign has failed.
- A campaign with a time limit measures its speed and sizes each wave by it; executors start no scenario after
  the deadline. It goes on until a later limit while it has not run what it must run at the least.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from onceproof.engine.runtime.spark_session import SparkFailed, obtained_session
from onceproof.harness.campaign.answers import Answer, answers_in, lines_in_order, ranges_of
from onceproof.harness.campaign.campaign_plan import CampaignPlan
from onceproof.harness.campaign.executor import FamilySource, Recall, Simulation, Simulations, Survey, Wave
from onceproof.harness.campaign.jobs import RunningJob, WaveJob
from onceproof.harness.campaign.judge import Disagreement, JudgedFamily, Judgement, check_judgeable
from onceproof.harness.campaign.ledger import Ledger
from onceproof.harness.campaign.pace import LARGEST_WAVE, WAVES_AT_ONCE, Pace, WaveSize, by_turns
from onceproof.harness.campaign.store_probe import probe
from onceproof.harness.campaign.trial_files import TrialsLost
from onceproof.harness.campaign.trial_store import TrialStore, manifest_of
from onceproof.harness.campaign.trial_tables import TrialTables
from onceproof.harness.checkers.oracle_spark import arrow_schemas_of
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import in_spark, own_system
from onceproof.harness.trials.output_files import OutcomeFile, OutputUnwritable, made_folder, open_output
from onceproof.harness.trials.runner import MISTAKES, RunResult, RunStopped, interrupts_held, load_families
from onceproof.harness.trials.trial import check_family

TRIALS: Final = "trials"
"""The folder of the Parquet files, in the folder of the results."""

FILES_PER_TASK: Final = 50
"""How many files of an earlier attempt a task looks through."""

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


@dataclass(frozen=True, slots=True)
class _RunningWave:
    """A wave whose tasks are with Spark."""

    size: int
    stop: int
    """The number after that of its last scenario."""
    simulates: bool
    job: RunningJob[list[Answer]]
    begun: float
    ends: float
    """When it should end, at the speed of the waves before."""


@dataclass(frozen=True, slots=True)
class _RunningJudgement:
    """A judgement that is with Spark."""

    families: Sequence[tuple[Ledger, int, int]]
    """Of each family the number of scenarios in files, and with an outcome."""
    job: RunningJob[list[JudgedFamily]]


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
            Ledger(
                place,
                len(sources),
                family,
                TrialTables(family.name, *arrow_schemas_of(in_spark(family))),
                source,
                store.parts,
            )
            for place, (family, source) in enumerate(zip(result.run.families, sources, strict=True))
        ]
        for trials in self._trials:
            if in_spark(trials.family).oracle_sql:
                check_judgeable(session, trials.family, trials.tables)
        self._pace = pace
        self._waves: deque[_RunningWave] = deque()
        self._judgement: _RunningJudgement | None = None
        self._begun = 0
        """All scenarios before this number are in a wave, or were left out."""
        self._taken = 0
        """All scenarios before this number are in the tally, or were left out."""
        self._ended = 0.0
        """When the last wave ended."""

    def run_or_keep(self, is_resumed: bool) -> None:
        """Run the campaign; however it ends, what executors have written counts."""
        try:
            self.run(is_resumed)
        except BaseException:
            for wave in self._waves:
                wave.job.cancel()
            if self._judgement is not None:
                self._judgement.job.cancel()
            # A second error must not hide the first one.
            with suppress(OutputUnwritable, TrialsLost, OSError):
                self.take_written()
            raise

    def run(self, is_resumed: bool) -> None:
        """Run waves until there are enough scenarios or the time is over, and judge them."""
        if is_resumed:
            self._find_finished()
        while self._begin_waves():
            self._end_wave()
            if self._begin_waves():
                if self._pace.is_judging_due:
                    self._begin_judgement()
            else:
                # A judgement that is faster than estimated leaves time for a further wave.
                self._judge()
        while any(trials.found for trials in self._trials):
            # An earlier attempt had more time.
            self._begin(WaveSize(LARGEST_WAVE, None), simulates=False)
            self._end_wave()
        self._judge()
        self._compare_counts()
        self._store.finish({name for trials in self._trials for name in trials.names})

    def _begin_waves(self) -> bool:
        """Begin the waves that run at the same time; return whether any is running."""
        while len(self._waves) < WAVES_AT_ONCE and (size := self._next_wave()):
            self._begin(size)
        return bool(self._waves)

    def _next_wave(self) -> WaveSize | None:
        if not self._waves:
            owed = self._plan.minimums.owed(self._result.run)
            return self._pace.next_wave(self._begun, self._clock(), owed)
        if not self._pace.is_measured:
            return None
        return self._pace.next_wave(self._begun, max(self._clock(), self._waves[-1].ends))

    def _find_finished(self) -> None:
        """Find what an earlier attempt has finished."""
        names, families = self._store.part_names(), len(self._trials)
        chunks = [names[first : first + FILES_PER_TASK] for first in range(0, len(names), FILES_PER_TASK)]
        tasks = [Survey(families, self._store.parts, some) for some in chunks]
        self._find(RunningJob(self._session, WaveJob(Wave(tasks))).result())
        self._result.resumed = sum(file.scenarios for trials in self._trials for file in trials.found)

    def _find(self, answers: Sequence[Answer]) -> None:
        for trials in self._trials:
            trials.find([answer for answer in answers if answer.place == trials.place])

    def take_written(self) -> None:
        """Take the outcomes that executors have written and no wave has taken; they are not judged yet."""
        known = {name for trials in self._trials for name in trials.names}
        names = [name for name in self._store.part_names() if name not in known]
        self._find(list(_run_here(Survey(len(self._trials), self._store.parts, names))))
        while any(trials.found for trials in self._trials):
            stop = self._taken + LARGEST_WAVE
            self._take([answer for recall in self._recalls(stop) for answer in _run_here(recall)], stop)

    def _recalls(self, stop: int) -> list[Recall]:
        return [
            recall
            for trials in self._trials
            for recall in trials.recalls(trials.turns_between(self._taken, stop))
        ]

    def _begin(self, size: WaveSize, simulates: bool = True) -> None:
        """Begin a wave: simulate its scenarios, except for what is finished."""
        first, stop = self._begun, self._begun + size.scenarios
        wanted = [trials.turns_between(first, stop) for trials in self._trials]
        recalls = [
            recall
            for trials, turns in zip(self._trials, wanted, strict=True)
            for recall in trials.recalls(turns)
        ]
        simulations = self._simulations(wanted, size) if simulates else []
        job = RunningJob(self._session, WaveJob(Wave([*recalls, *simulations])))
        begun = self._clock()
        after = max([begun, *(wave.ends for wave in self._waves)])
        ends = after + self._pace.seconds_of(size.scenarios)
        self._waves.append(_RunningWave(size.scenarios, stop, bool(simulations), job, begun, ends))
        self._begun = stop

    def _end_wave(self) -> None:
        """Wait for the first of the running waves, and take its outcomes."""
        wave = self._waves[0]
        answers = wave.job.result(self._show)
        ended = self._clock()
        seconds, self._ended = ended - max(wave.begun, self._ended), ended
        if wave.simulates:
            simulated = sum(answer.scenarios for answer in answers if answer.written)
            self._pace.record_wave(simulated, seconds)
        self._waves.popleft()
        # Scenarios that the executors did not start in time are left out.
        self._take(answers, wave.stop)

    def _show(self) -> None:
        tally = self._result.run.tally
        running = sum(int(wave.job.finished_part * wave.size) for wave in self._waves)
        self._progress(tally.scenarios + running, tally.failed)

    def _simulations(self, wanted: Sequence[range], size: WaveSize) -> list[Simulations]:
        """Return the tasks of a wave without what is finished; the families take turns."""
        unfinished = [trials.unfinished(turns) for trials, turns in zip(self._trials, wanted, strict=True)]
        costs = [self._cost(trials) for trials in self._trials]
        parts = by_turns(unfinished, self._pace.turns_of(size.scenarios, costs))
        return [
            Simulations([self._simulation(*each, size.until) for each in task.items()], self._store.parts)
            for task in self._pace.tasks_of(parts, costs)
        ]

    def _simulation(self, place: int, turns: Sequence[int], deadline: float | None) -> Simulation:
        return Simulation(
            source=self._trials[place].source,
            tables=self._trials[place].tables,
            run_seed=self._result.run.seed,
            families=len(self._trials),
            place=place,
            turns=ranges_of(turns),
            budget=self._plan.run.budget,
            deadline=deadline,
        )

    def _cost(self, trials: Ledger) -> float:
        """Return how many seconds a scenario of a family takes; 0 if none has run."""
        tally = self._result.run.tally.families.get(trials.family.name)
        return tally.milliseconds / 1000 / tally.scenarios if tally else 0.0

    def _take(self, answers: Sequence[Answer], stop: int) -> None:
        """Write the outcomes of a wave in the order of the campaign, and add them to the tally."""
        tally = self._result.run.tally
        # An interrupt in between would leave lines out that the tally holds.
        with interrupts_held():
            for lines in lines_in_order(answers, len(self._trials)):
                self._lines.write([lines])
            for answer in answers:
                if answer.tally is not None:
                    tally.merge(answer.tally)
                if answer.written is not None:
                    self._trials[answer.place].add(answer.written, answer.scenarios)
            for trials in self._trials:
                self._pace.record_found(trials.end_found(trials.turns_between(0, stop).stop))
            self._taken = stop
        self._progress(tally.scenarios, tally.failed)

    def _judge(self) -> None:
        """Judge all unjudged trials with Spark SQL, and nothing beside."""
        self._end_judgement()
        begun = self._clock()
        scenarios = self._begin_judgement()
        self._end_judgement()
        seconds = self._clock() - begun
        if scenarios:
            self._result.judging_seconds += seconds
            self._pace.record_judgement(scenarios, seconds)

    def _begin_judgement(self) -> int:
        """Begin to judge all unjudged trials, when the judgement before has ended; return how many."""
        self._end_judgement()
        unjudged = [trials for trials in self._trials if trials.files]
        counts = [(each, sum(file.rows for file in each.files), each.outcomes) for each in unjudged]
        files = [(each.family, each.tables, each.folder, tuple(each.files)) for each in unjudged]
        for each in unjudged:
            each.files.clear()
            each.outcomes = 0
        if unjudged:
            self._judgement = _RunningJudgement(counts, RunningJob(self._session, Judgement(files)))
        return self._pace.begin_judgement()

    def _end_judgement(self) -> None:
        """Wait for the running judgement, if there is one, and take its result."""
        if self._judgement is None:
            return
        judged = self._judgement.job.result()
        counts, self._judgement = self._judgement.families, None
        for (trials, written, outcomes), found in zip(counts, judged, strict=True):
            if not found.scenarios == written == outcomes:
                raise TrialsLost(
                    f"family {trials.family.name}: Spark SQL has read {found.scenarios:,} scenarios,"
                    f" executors have written {written:,}, and {outcomes:,} have outcomes"
                )
            self._result.disagreements += found.disagreements
            self._result.judged += found.scenarios
            if in_spark(trials.family).oracle_sql:
                self._result.compared += found.compared

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


def _run_here(task: Recall | Survey) -> Iterator[Answer]:
    """Run a task in this process, where Spark may have failed."""
    for batch in task.run():
        yield from answers_in(pa.Table.from_batches([batch]))
