"""A run of many scenarios, in this process or on a pool of workers: outcomes.jsonl and a tally.

Rules:

- The number of workers changes the duration of a run and nothing else. Outcomes are written in the order of
  the run, so two runs of a seed leave the same lines except for ``milliseconds``.
- Finished scenarios are kept however the run ends: lines are written after each batch, and after an interrupt
  or an error the tally holds all of them.
- The output folder and the families are checked before the first scenario.
- The time limit is checked between batches: a batch that has started is finished. On a real system, where a
  scenario takes seconds, a batch is one scenario.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from pathlib import Path
from time import perf_counter
from typing import Final

from msgspec.structs import replace

from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import load_family, turns_of
from onceproof.harness.model.program_measures import Measured
from onceproof.harness.model.seeds import WHOLE, Share
from onceproof.harness.model.system import (
    Closable,
    Controlled,
    NeedsPrograms,
    System,
    find_system,
    let_go,
    refusal_of_upgrades,
)
from onceproof.harness.trials.control_runs import learned
from onceproof.harness.trials.family_turns import Met, TurnsUntilExhausted
from onceproof.harness.trials.output_files import OutcomeFile, OutputUnwritable, open_output
from onceproof.harness.trials.pool import (
    BATCH,
    BATCHES_AHEAD,
    Batch,
    Done,
    Start,
    WorkerDied,
    WorkerFailed,
    WorkerPool,
    raise_error_of,
)
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.tally import Tally
from onceproof.harness.trials.trial import SIMULATED, check_family, scenario_of
from onceproof.harness.trials.worker import LoadedRun

MISTAKES: Final = (FamilyError, OutputUnwritable, WorkerDied, WorkerFailed)
"""The errors that end a run early, with what it has."""


class RunStopped(Exception):
    """An error ended a run early: ``mistake`` is the error, ``result`` holds the scenarios before it."""

    def __init__(self, result: RunResult, mistake: Exception) -> None:
        super().__init__(str(mistake))
        self.result = result
        self.mistake = mistake


@dataclass(slots=True)
class RunResult:
    """The tally of a run, and what was run."""

    families: tuple[Family, ...]
    names: tuple[str, ...]
    """The families as the command line names them: names or paths."""
    seed: int
    workers: int
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    seconds_of_work: float = 0.0
    """The run time of all scenarios, summed over the workers."""
    interrupted: bool = False
    share: Share = WHOLE
    system: System = SIMULATED
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    turns: tuple[int, ...] = ()
    """How many turns each of the families has in a round; empty: one each."""
    exhausted: dict[str, Met] = field(default_factory=dict)
    """By name, what the families met that ended early because they met nothing new."""

    def family(self, name: str) -> Family:
        """Return the family with a name."""
        return next(family for family in self.families if family.name == name)

    def asked_for(self, name: str) -> str:
        """Return the command line's name or path of the family ``name``."""
        return next(
            asked for asked, family in zip(self.names, self.families, strict=True) if family.name == name
        )


def usable_processors() -> int:
    """Return how many processors this process may use."""
    # Not every operating system has CPU affinity.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    plan: RunPlan,
    out: Path | None = None,
    progress: Callable[[Tally], None] = lambda tally: None,
    warn: Callable[[str], None] = lambda text: None,
) -> RunResult:
    """Run the scenarios of a plan.

    Args:
        plan: which scenarios, and where.
        out: the folder that gets outcomes.jsonl; None writes nothing.
        progress: called with the tally after each batch.
        warn: called with one line when a worker died.

    Returns:
        The result; after an interrupt from the keyboard, of the scenarios so far.

    Raises:
        RunStopped: a family or a worker failed.
        JavaMissing: a program that the system starts is missing.
        ServiceMissing: as JavaMissing.
    """
    loaded = load_families(plan.families)
    for family in loaded:
        check_family(family)
    count = plan.workers or usable_processors()
    turns = turns_in_a_round(loaded, plan)
    scenarios = scenarios_of_share(loaded, plan)
    if scenarios is not None:
        # Never more processes than work.
        count = max(1, min(count, scenarios))
    system = find_system(plan.system)
    refuse_upgrades(loaded, system)
    if isinstance(system, NeedsPrograms):
        system.require_programs()
    result = RunResult(loaded, plan.families, plan.seed, count, system=system, share=plan.share, turns=turns)
    started = perf_counter()
    is_real = Capability.DETERMINISM not in system.capabilities
    size = 1 if is_real else BATCH
    deadline = None if plan.max_time is None else started + plan.max_time
    batches = _batches(scenarios, count, deadline, size)
    exhausting = None
    if plan.until_exhausted is not None:
        exhausting = TurnsUntilExhausted(turns, scenarios, size, plan.until_exhausted)
        batches = takewhile(lambda _: deadline is None or perf_counter() < deadline, exhausting.batches())
    start = Start(
        plan.seed,
        plan.families,
        system.name,
        plan.share,
        turns,
        watches=exhausting is not None,
        budget=None if is_real else plan.budget,
        out="" if out is None else str(out.absolute()),
    )
    with open_output(out) as lines, let_go(system):
        ordered = _InOrder(result.tally, lines, progress, exhausting)
        try:
            workers = None if plan.workers == 1 else count
            start = replace(start, measured=_control_runs(loaded, system, is_alone=workers is None))
            for done in answers(LoadedRun(start, loaded, system), batches, workers, warn):
                result.seconds_of_work += done.seconds
                ordered.take(done)
        except KeyboardInterrupt:
            result.interrupted = True
        except MISTAKES as mistake:
            raise RunStopped(result, mistake) from mistake
        finally:
            ordered.finish()
            result.exhausted = ordered.exhausted(loaded)
            result.seconds = perf_counter() - started
    return result


def _control_runs(families: Sequence[Family], system: System, is_alone: bool) -> dict[str, Measured]:
    """Make the control runs of programs, and return what they have measured. Raises SetUpProblem.

    ``is_alone``: the scenarios run in this process, so that its servers stay.
    """
    if not isinstance(system, Controlled):
        return {}
    for family in families:
        learned(system, family, partial(scenario_of, family))
    if not is_alone and isinstance(system, Closable):
        system.close()
    return system.measured


def refuse_upgrades(families: Sequence[Family], system: System) -> None:
    """Raise FamilyError where the system would run the old version of a job only."""
    for family in families:
        if refusal_of_upgrades(system.capabilities, family):
            raise FamilyError(f"{family.name}: {system.name} does not upgrade jobs: leave out --system")


def answers(
    run: LoadedRun, batches: Iterator[Batch], workers: int | None, warn: Callable[[str], None]
) -> Iterator[Done]:
    """Yield the answer to each batch as it arrives; an error is raised after the answers before it.

    Args:
        run: the run of the batches.
        batches: they end by themselves, or with the first error.
        workers: how many processes; None: this one.
        warn: called with one line when a worker died.

    Raises:
        FamilyError, WorkerDied, WorkerFailed: a family or a worker failed.
    """
    mistakes = []
    with ExitStack() as stack:
        if workers is None:
            arriving: Iterator[Done] = map(run.run_batch, batches)
        else:
            # On a real system a scenario takes seconds.
            ahead = 1 if run.start.budget is None else BATCHES_AHEAD
            arriving = stack.enter_context(WorkerPool(workers, run.start, warn, ahead)).run(batches)
        for done in arriving:
            yield done
            if done.has_failed:
                mistakes.append(done)
                if workers is None:
                    break
    raise_error_of(mistakes)


def scenarios_of_share(families: Sequence[Family], plan: RunPlan) -> int | None:
    """Return how many of a run's scenarios its share has; None for no limit."""
    if plan.scenarios is None:
        return None
    return plan.share.scenarios_in(plan.scenarios, sum(turns_in_a_round(families, plan)))


def turns_in_a_round(families: Sequence[Family], plan: RunPlan) -> tuple[int, ...]:
    """Return how many turns each family has in a round."""
    return turns_of(families) if plan.takes_all else (1,) * len(families)


def load_families(names: Sequence[str]) -> tuple[Family, ...]:
    """Load families by name or path.

    Raises:
        FamilyError: a family cannot be loaded, or two have the same name.
    """
    loaded: dict[str, Family] = {}
    for name in names:
        family = load_family(name)
        if family.name in loaded:
            raise FamilyError(f"{name}: this run already has a family {family.name!r}")
        loaded[family.name] = family
    return tuple(loaded.values())


def _batches(scenarios: int | None, workers: int, deadline: float | None, most: int) -> Iterator[Batch]:
    """Yield batches of up to ``most`` until there are enough scenarios or the deadline has passed."""
    size = most
    if scenarios is not None:
        # Smaller batches share a short run evenly among the workers.
        size = max(1, min(most, scenarios // (4 * workers)))
    first = 0
    while scenarios is None or first < scenarios:
        if deadline is not None and perf_counter() >= deadline:
            return
        yield Batch(first, size if scenarios is None else min(size, scenarios - first))
        first += size


class _InOrder:
    """Receives batches in any order and passes their outcomes on in the order of the run."""

    def __init__(
        self,
        tally: Tally,
        lines: OutcomeFile | None,
        progress: Callable[[Tally], None],
        exhausting: TurnsUntilExhausted | None = None,
    ) -> None:
        """``exhausting``: where families end early, the order is that of each family."""
        self._exhausting = exhausting
        self._tally = tally
        self._lines = lines
        self._progress = progress
        self._waiting: dict[int, Done] = {}
        self._next = 0

    def take(self, done: Done) -> None:
        """Accept a batch, and pass on all batches that are next in order."""
        if self._exhausting is not None:
            for each in self._exhausting.take(done):
                self._pass_on(each)
            self._progress(self._tally)
            return
        self._waiting[done.first] = done
        while self._next in self._waiting:
            batch = self._waiting.pop(self._next)
            self._next += len(batch.lines)
            self._pass_on(batch)
        self._progress(self._tally)

    def finish(self) -> None:
        """Pass on the batches that wait behind a missing one, after an early end."""
        for each in () if self._exhausting is None else self._exhausting.left():
            self._pass_on(each)
        for first in sorted(self._waiting):
            self._pass_on(self._waiting[first])
        self._waiting.clear()

    def exhausted(self, families: Sequence[Family]) -> dict[str, Met]:
        """Return what the families met that have ended early, by name."""
        ended = {} if self._exhausting is None else self._exhausting.exhausted()
        return {families[place].name: met for place, met in ended.items()}

    def _pass_on(self, batch: Done) -> None:
        # An interrupt in between would leave lines out that the tally holds.
        with interrupts_held():
            add = self._tally.add
            for line in batch.lines:
                add(from_line(line))
            if (lines := self._lines) is not None:
                # Behind an error nothing more is written: the disk may have room again, and the file a hole.
                self._lines = None
                lines.write(batch.lines)
                self._lines = lines


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let an interrupt, from the keyboard or by SIGTERM, wait until the context ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
