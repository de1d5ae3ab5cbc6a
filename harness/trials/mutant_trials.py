"""Mutant trials: which planted bugs the harness reaches and kills, after how many scenarios, and how small.

Rules:

- A mutant is killed by a scenario that fails with it and passes without it. A scenario that fails in both
  cases shows a bug of the engine itself.
- The scenarios are those of a run with the same seed over the same families, or over the families that the
  mutant names.
- A mutant that was never reached is distinguished from one that survived: the first needs other scenarios,
  the second better checkers.
- The shrinker compares with the unmutated engine too: a candidate that fails without the mutant does not
  count.
- A mutated engine may loop for ever within one step, which no step budget ends: after some seconds of
  processor time the run is stopped and counts as a failure. Time on the clock would count the work of other
  processes. Only a run that waits for ever is ended by the clock, after far longer.
- A failure counts only if the same scenario fails again with the mutant: a loaded machine kills nothing.
- A person reads what is left, so the figures are counts of what is read: records, faults, choices.
- The median alone would hide the failures that stay large. Each of them is named, with its size, and with
  whether the shrinker had the time to show that it needs each of its parts.
"""

from __future__ import annotations

import gc
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import get_context
from statistics import median
from time import perf_counter, process_time
from types import FrameType
from typing import Final

import msgspec
import msgspec.structs
from msgspec import UNSET

from onceproof.engine.errors import Ending
from onceproof.harness.checkers import CONTINUATIONS, Signature, Violation
from onceproof.harness.checkers.verdict import Verdict, is_same_failure
from onceproof.harness.model.exit_codes import is_full
from onceproof.harness.model.family import Family, FamilyError, options_of
from onceproof.harness.model.family_places import load_family, split_address, turns_of
from onceproof.harness.model.history import History
from onceproof.harness.model.mutants import Mutant, MutantError, Reach, find_mutant
from onceproof.harness.model.scenario import Scenario, Schedule
from onceproof.harness.model.seeds import numbered
from onceproof.harness.shrinking.reductions import Size, draws_steps
from onceproof.harness.shrinking.removals import is_large
from onceproof.harness.shrinking.shrinker import MOST_RUNS, shrink
from onceproof.harness.systems.simulation.simulated_system import record_preemptions
from onceproof.harness.trials.trial import scenario_of, try_scenario
from onceproof.reports.text import counted


def shrunk_lines(results: Sequence[Result]) -> Iterator[str]:
    """Yield the medians over all failures that were shrunk, and a line for each that stays large."""
    shrunk = [(result.id, each) for result in results if (each := result.killing) and each.size]
    if not shrunk:
        return

    def middle(figure: Callable[[Killing], float]) -> float:
        return median([figure(killing) for _, killing in shrunk])

    yield (
        f"shrunk to: median {middle(lambda each: _size(each).records):g} records,"
        f" {middle(lambda each: _size(each).faults):g} faults,"
        f" {middle(lambda each: _size(each).schedule):g} choices, in"
        f" {middle(lambda each: each.shrink_cpu_seconds):.1f} s of processor time"
    )
    for name, killing in shrunk:
        if is_large(_size(killing)) or not _is_listed(killing):
            yield f"stays large: {name}: {_size_text(_size(killing))}; {_need_text(killing)}"


def _is_listed(killing: Killing) -> bool:
    """Return whether the small scenario lists the choices of its schedule."""
    return killing.shrunk is None or not draws_steps(killing.shrunk.schedule)


def _size(killing: Killing) -> Size:
    assert killing.size is not None
    return killing.size


def _size_text(size: Size) -> str:
    return (
        f"{counted(size.records, 'record')}, {counted(size.faults, 'fault')},"
        f" {counted(size.schedule, 'choice')}"
    )


def _need_text(killing: Killing) -> str:
    if not _is_listed(killing):
        return "its schedule draws each step"
    if killing.shrunk is None or killing.shrunk.needed is UNSET:
        return "not each was left out"
    return "each is needed"


SCENARIOS: Final = 2000
"""A mutant has so many scenarios to be killed in."""

LONGEST_RUN_SECONDS: Final = 2.0
"""The processor time of a run. It takes milliseconds, however busy the machine is."""

LONGEST_JUDGED_RUN_SECONDS: Final = 20.0
"""The same where a family says itself what follows from the order of arrival: it runs the job many times."""

SECONDS_TO_TELL: Final = 10.0
"""The same, once before a scenario is shrunk: a run that ends in it was stuck, and in no endless step."""

LONGEST_SMALL_RUN_SECONDS: Final = 0.2
"""The same, while a scenario is shrunk that has an endless step."""

ENDLESS_RUNS: Final = 150
"""The most runs in which a scenario is shrunk that has an endless step: each one that fails takes all of its
processor time."""

LONGEST_WAIT_SECONDS: Final = 60.0
"""The time on the clock after which a run that needs no processor is stopped."""


class Killing(msgspec.Struct, frozen=True):
    """The scenario that killed a mutant, as it was generated and, if it was asked for, as it was shrunk."""

    family: str
    signature: Signature
    scenario: Scenario
    shrunk: Scenario | None = None
    size: Size | None = None
    """The size of ``shrunk``."""
    before: Size | None = None
    """The size of ``scenario``, if it was shrunk."""
    shrink_cpu_seconds: float = 0.0
    """The processor time of the shrinking."""
    shrink_runs: int = 0


class Result(msgspec.Struct, frozen=True):
    """What became of one mutant in the scenarios of one seed; ``line`` is what ``--json`` prints of it."""

    id: str
    origin: str
    breaks: str
    reached: bool
    killed: bool
    property: str | None
    """The property by which it was found: the first that the killing scenario breaks."""
    scenarios: int
    """How many were run, the killing one included."""
    shrunk: Size | None
    seconds: float
    summary: str = ""
    killing: Killing | None = None
    seed: int = 0
    """The seed of the run whose scenarios were tried."""
    reached_in: int = 0
    """In how many of the scenarios the mutated code ran, or what it kills in."""
    cpu_seconds: float = 0.0
    """The processor time until it was killed or had survived, without the shrinking."""

    def is_precise(self) -> bool:
        """Whether it was found by the property that it breaks."""
        return self.killed and self.property == self.breaks

    def line(self) -> dict[str, object]:
        """Return what a machine reads of it."""
        return {
            "id": self.id,
            "origin": self.origin,
            "breaks": self.breaks,
            "reached": self.reached,
            "killed": self.killed,
            "property": self.property,
            "scenarios": self.scenarios,
            "seed": self.seed,
            "family": None if self.killing is None else self.killing.family,
            "precise": self.is_precise(),
            "reached_in": self.reached_in,
            "cpu_seconds": round(self.cpu_seconds, 2),
            "shrunk": None if self.shrunk is None else msgspec.to_builtins(self.shrunk),
            "seconds": round(self.seconds, 3),
        }


class RunTooLong(Ending):
    """A run was stopped because it takes forever; an Ending, so that nothing of the engine's survives it."""


_ENDLESS: Final = Verdict((Violation("liveness", "endless step", ""),))


def measure(
    mutant: Mutant,
    families: Sequence[Family],
    seed: int,
    limit: int = SCENARIOS,
    shrink_runs: int = MOST_RUNS,
    first: int = 0,
) -> Result:
    """Run scenarios of a run's seed with the mutant until one kills it, ``limit`` at the most.

    What killed it is then shrunk, unless ``shrink_runs`` is 0. The run begins with scenario ``first``.
    """
    started, cpu_started = perf_counter(), process_time()
    families = families_of(mutant, families)
    reach = Reach()
    count, reached_in = 0, 0
    broken, killing = None, None
    cpu_seconds = 0.0
    names = [family.name for family in families]
    for place, scenario_seed in numbered(seed, names, first, limit, turns=turns_of(families)):
        count += 1
        family = families[place]
        scenario = scenario_of(family, scenario_seed)
        if mutant.on_databases:
            scenario = msgspec.structs.replace(scenario, state_backend="rocksdb", incremental=True)
        before = reach.times
        failure = _confirmed_failure_of(family, scenario, mutant, reach)
        reached_in += reach.times > before or failure is not None
        cpu_seconds = process_time() - cpu_started
        if failure is not None:
            broken = failure.violations[0].property
            killing = _shrunk(
                family, scenario, mutant, broken, failure.violations[0].signature(), shrink_runs
            )
            break
    killed = killing is not None
    return Result(
        id=mutant.id,
        origin=mutant.origin,
        breaks=mutant.breaks,
        # What kills has been reached, whether or not the mutant says so.
        reached=reach.times > 0 or killed,
        killed=killed,
        property=broken,
        scenarios=count,
        shrunk=None if killing is None else killing.size,
        seconds=perf_counter() - started,
        summary=mutant.summary,
        killing=killing,
        seed=seed,
        reached_in=reached_in,
        cpu_seconds=cpu_seconds,
    )


def families_of(mutant: Mutant, families: Sequence[Family]) -> Sequence[Family]:
    """Return the families whose jobs have what a mutant breaks: its own files, else some of those given."""
    own = [load_family(each) for each in mutant.families if split_address(each)[0] is not None]
    return own or [family for family in families if family.name in mutant.families] or families


def measure_all(
    mutants: Sequence[Mutant],
    families: Sequence[str],
    seed: int,
    limit: int = SCENARIOS,
    workers: int = 1,
    shrink_runs: int = MOST_RUNS,
    seeds: int = 1,
) -> Iterator[Result]:
    """Measure mutants one after another, or ``workers`` at a time; the results come in their order.

    Args:
        families: names or paths.
        seeds: over how many runs, of ``seed`` and those behind it; a mutant's results follow each other.
        workers: how many processes; each is a new Python process that loads the mutant by id and file.
    """
    if workers <= 1:
        loaded = [load_family(name) for name in families]
        for mutant in mutants:
            for each in range(seed, seed + seeds):
                yield measure(mutant, loaded, each, limit, shrink_runs)
        return
    with ProcessPoolExecutor(
        min(workers, len(mutants) * seeds) or 1, mp_context=get_context("spawn")
    ) as pool:
        waiting: list[Future[Result]] = [
            pool.submit(_measure_by_id, mutant.id, str(mutant.path), families, each, limit, shrink_runs)
            for mutant in mutants
            for each in range(seed, seed + seeds)
        ]
        try:
            for result in waiting:
                yield result.result()
        finally:
            # If the caller stops iterating, the remaining mutants are not measured.
            pool.shutdown(wait=True, cancel_futures=True)


def _measure_by_id(
    mutant_id: str, path: str, families: Sequence[str], seed: int, limit: int, shrink_runs: int
) -> Result:
    loaded = [load_family(name) for name in families]
    return measure(find_mutant(mutant_id, path), loaded, seed, limit, shrink_runs)


def _shrunk(
    family: Family,
    scenario: Scenario,
    mutant: Mutant,
    broken: str,
    signature: Signature,
    shrink_runs: int,
) -> Killing:
    if not shrink_runs:
        return Killing(family.name, signature, scenario)
    continued = broken in CONTINUATIONS
    if signature == _ENDLESS.signature:
        longer = failure_of(family, scenario, mutant, continued=continued, run_seconds=SECONDS_TO_TELL)
        signature = (longer and longer.signature) or signature
    is_endless = signature == _ENDLESS.signature
    run_seconds = LONGEST_SMALL_RUN_SECONDS if is_endless else None

    def run(candidate: Scenario) -> Signature | None:
        found = failure_of(family, candidate, mutant, continued=continued, run_seconds=run_seconds)
        if found is None or not is_same_failure(found.signature, signature):
            return None
        return signature if failure_of(family, candidate, continued=continued) is None else None

    def preemptions(candidate: Scenario) -> Schedule:
        with mutant.applied(), suppress(RunTooLong), _time_limit(LONGEST_RUN_SECONDS):
            return record_preemptions(family, candidate)
        return candidate.schedule

    simpler = options_of(family).simpler_parameters
    cpu_started = process_time()
    most_runs = min(shrink_runs, ENDLESS_RUNS) if is_endless else shrink_runs
    result = shrink(scenario, run, signature, most_runs, preemptions, simpler)
    if is_endless:
        run_seconds = None
        if run(result.scenario) != signature:
            # It was slow, and comes to an end in the time that others have.
            return Killing(family.name, signature, scenario)
    return Killing(
        family.name,
        signature,
        scenario,
        shrunk=result.scenario,
        size=result.after,
        before=result.before,
        shrink_cpu_seconds=process_time() - cpu_started,
        shrink_runs=result.runs,
    )


def _confirmed_failure_of(family: Family, scenario: Scenario, mutant: Mutant, reach: Reach) -> Verdict | None:
    """Return how a scenario fails with a mutant, each time, and not without it; None if it does not."""
    failure = failure_of(family, scenario, mutant, reach)
    if failure is None or failure_of(family, scenario) is not None:
        return None
    return failure_of(family, scenario, mutant, reach)


def failure_of(
    family: Family,
    scenario: Scenario,
    mutant: Mutant | None = None,
    reach: Reach | None = None,
    continued: bool | None = None,
    run_seconds: float | None = None,
) -> Verdict | None:
    """Run a scenario, with the mutant if one is given; None if it passes.

    Args:
        continued: whether its checkpoints are restored and compared; None leaves that to the seed.
        run_seconds: the processor time of the run; None stands for what is usual for the family.
    """
    verdict, _ = tried(family, scenario, mutant, reach, continued, run_seconds)
    return None if verdict.passed else verdict


def tried(
    family: Family,
    scenario: Scenario,
    mutant: Mutant | None = None,
    reach: Reach | None = None,
    continued: bool | None = None,
    run_seconds: float | None = None,
) -> tuple[Verdict, History]:
    """Run a scenario as :func:`failure_of` does; return its verdict, and its history if it came to an end."""
    if run_seconds is None:
        settles = options_of(family).settles
        run_seconds = LONGEST_JUDGED_RUN_SECONDS if settles else LONGEST_RUN_SECONDS
    with mutant.applied() if mutant else nullcontext(Reach()) as reached:
        try:
            with _time_limit(run_seconds):
                trial = try_scenario(family, scenario, twice=False, continued=continued)
            return trial.verdict, trial.history
        except RunTooLong:
            return _ENDLESS, History()
        except (FamilyError, MutantError):
            raise
        except Exception as error:
            if is_full(error):
                raise
            # Even the world around the engine could not go on.
            witness = {"exception": type(error).__name__, "function": "world"}
            return Verdict((Violation("no_error", "exception", "", witness),)), History()
        finally:
            if reach is not None:
                reach.times += reached.times


@contextmanager
def _time_limit(run_seconds: float) -> Iterator[None]:
    """Raise RunTooLong where a run takes too long; only the main thread of a process can be stopped so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        # A run that is stopped while it opens a file has had no time to close it.
        warnings.simplefilter("ignore", ResourceWarning)
        raise RunTooLong

    clocks = (
        (signal.ITIMER_PROF, signal.SIGPROF, run_seconds),
        (signal.ITIMER_REAL, signal.SIGALRM, LONGEST_WAIT_SECONDS),
    )
    before = [signal.signal(number, stop) for _, number, _ in clocks]
    collected = gc.isenabled()
    # What is raised in a callback of the collector is swallowed there, and the run would go on for ever.
    gc.disable()
    with warnings.catch_warnings():
        for timer, _, seconds in clocks:
            signal.setitimer(timer, seconds)
        try:
            yield
        finally:
            for (timer, number, _), handler in zip(clocks, before, strict=True):
                signal.setitimer(timer, 0)
                signal.signal(number, handler)
            if collected:
                gc.enable()
