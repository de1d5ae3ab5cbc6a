"""A run of many scenarios, in this process or on a pool of workers: outcomes.jsonl and a tally.

The rules this module lives by:

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
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from time import perf_counter

from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.model.budget import Budget
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError, turns_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.seeds import WHOLE, Share
from onceproof.harness.model.system import System, find_system, let_go
from onceproof.harness.trials.family_turns import Met, TurnsUntilExhausted
from onceproof.harness.trials.output_files import (
    OUTCOMES,
    OutcomeFile,
    OutputUnwritable,
    emptied_folder,
    made_folder,
    open_output,
)
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
from onceproof.harness.trials.tally import Tally
from onceproof.harness.trials.trial import (
    SIMULATED,
    Trial,
    check_family,
    run_scenario,
    scenario_of,
    try_scenario,
)
from onceproof.harness.trials.worker import run_batch

__all__ = [
    "OUTCOMES",
    "OutputUnwritable",
    "RunResult",
    "RunStopped",
    "Trial",
    "emptied_folder",
    "made_folder",
    "open_output",
    "run",
    "run_scenario",
    "scenario_of",
    "try_scenario",
    "usable_processors",
]


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
    families: Sequence[str],
    *,
    scenarios: int | None = None,
    max_time: float | None = None,
    seed: int = 0,
    system: str = "simulated",
    workers: int | None = None,
    share: Share = WHOLE,
    by_turns: bool = False,
    until_exhausted: int | None = None,
    budget: Budget = Budget(),  # noqa: B008
    out: Path | None = None,
    progress: Callable[[Tally], None] = lambda tally: None,
    warn: Callable[[str], None] = lambda text: None,
) -> RunResult:
    """Run scenarios of some families on a system, up to a number or a time limit.

    Args:
        families: names or paths.
        scenarios: how many scenarios over all families and all shares; None for no limit.
        max_time: the time limit in seconds; None for no limit.
        seed: the seed of the run, from which each scenario's seed follows.
        system: the name of the system.
        workers: how many processes; 1 runs the scenarios in this process, None uses all processors.
        share: the part of the run's scenarios that is run here.
        by_turns: whether a family has as many turns as its options say, and not one as each other.
        until_exhausted: a family ends when so many scenarios in a row met nothing new; None: it does not.
        budget: what each scenario of the simulation may use, in other processes than this one.
        out: the folder that gets outcomes.jsonl; None writes nothing.
        progress: called with the tally after each batch.
        warn: called with one line when a worker died.

    Returns:
        The result; after an interrupt from the keyboard, of the scenarios so far.

    Raises:
        RunStopped: a family or a worker failed.
    """
    loaded = load_families(families)
    for family in loaded:
        check_family(family)
    count = workers or usable_processors()
    turns = _turns_in_a_round(loaded, by_turns)
    scenarios = scenarios_of_share(loaded, scenarios, share, by_turns)
    if scenarios is not None:
        # Never more processes than work.
        count = max(1, min(count, scenarios))
    result = RunResult(loaded, tuple(families), seed, count, system=find_system(system), share=share)
    result.turns = turns
    started = perf_counter()
    is_real = Capability.DETERMINISM not in result.system.capabilities
    deadline = None if max_time is None else started + max_time
    batches = _batches(scenarios, count, deadline, most=1 if is_real else BATCH)
    exhausting = None
    if until_exhausted is not None:
        exhausting = TurnsUntilExhausted(turns, scenarios, 1 if is_real else BATCH, until_exhausted)
        batches = takewhile(lambda _: deadline is None or perf_counter() < deadline, exhausting.batches())
    with open_output(out) as lines, let_go(result.system):
        ordered = _InOrder(result.tally, lines, progress, exhausting)
        try:
            if workers == 1:
                _run_here(result, batches, ordered)
            else:
                _run_in_pool(result, batches, ordered, warn, None if is_real else budget)
            raise_error_of(ordered.mistakes)
        except KeyboardInterrupt:
            result.interrupted = True
        except (FamilyError, OutputUnwritable, WorkerDied, WorkerFailed) as mistake:
            raise RunStopped(result, mistake) from mistake
        finally:
            ordered.finish()
            result.exhausted = ordered.exhausted(loaded)
            result.seconds = perf_counter() - started
    return result


def scenarios_of_share(
    families: Sequence[Family], scenarios: int | None, share: Share, by_turns: bool
) -> int | None:
    """Return how many of a run's scenarios its share has; None for no limit. See ``run``."""
    if scenarios is None:
        return None
    return share.scenarios_in(scenarios, sum(_turns_in_a_round(families, by_turns)))


def _turns_in_a_round(families: Sequence[Family], by_turns: bool) -> tuple[int, ...]:
    return turns_of(families) if by_turns else (1,) * len(families)


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


def _run_here(result: RunResult, batches: Iterator[Batch], ordered: _InOrder) -> None:
    for batch in batches:
        done = run_batch(
            result.families,
            result.seed,
            batch,
            result.system,
            result.share,
            result.turns,
            watches=ordered.watches,
        )
        result.seconds_of_work += done.seconds
        ordered.take(done)
        if ordered.mistakes:
            return


def _run_in_pool(
    result: RunResult,
    batches: Iterator[Batch],
    ordered: _InOrder,
    warn: Callable[[str], None],
    budget: Budget | None,
) -> None:
    """Run batches on a pool; on real systems, where a scenario takes seconds, without a budget."""
    start = Start(
        result.seed,
        result.names,
        result.system.name,
        result.share,
        result.turns,
        watches=ordered.watches,
        budget=budget,
    )
    with WorkerPool(result.workers, start, warn, 1 if budget is None else BATCHES_AHEAD) as pool:
        try:
            for done in pool.run(batches):
                ordered.take(done)
        finally:
            result.seconds_of_work = pool.seconds_of_work


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
        self.mistakes: list[Done] = []
        self.watches = exhausting is not None
        self._exhausting = exhausting
        self._tally = tally
        self._lines = lines
        self._progress = progress
        self._waiting: dict[int, Done] = {}
        self._next = 0

    def take(self, done: Done) -> None:
        """Accept a batch, and pass on all batches that are next in order."""
        if done.family_error or done.internal_error:
            self.mistakes.append(done)
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
