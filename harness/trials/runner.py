"""A run: many scenarios, here or on a pool of workers, their outcomes in a file, and what they amount to.

The rules this module lives by:

- How many workers there are changes how long a run takes and nothing else. Outcomes are written as they come
  but in the order of the run, so two runs of a seed leave the same lines, milliseconds apart.
- What was done is kept, however the run ends: lines are flushed batch by batch, and after an interrupt or a
  mistake the tally holds all that was finished.
- Whether the folder can be written to, and whether a family can be run at all, is found out before the first
  scenario.
- A limit of time is looked at between batches: a batch that was begun is finished.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import IO, Final

from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.model.family import Family, FamilyError, load_family
from onceproof.harness.model.system import System, find_system, let_go
from onceproof.harness.trials.pool import (
    BATCH,
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

OUTCOMES: Final = "outcomes.jsonl"


class RunStopped(Exception):
    """A mistake ended a run early: ``mistake`` says which, ``result`` holds what was done before it."""

    def __init__(self, result: RunResult, mistake: Exception) -> None:
        super().__init__(str(mistake))
        self.result = result
        self.mistake = mistake


class OutputUnwritable(Exception):
    """The folder for results cannot be written to; the message is one line."""


@dataclass(slots=True)
class RunResult:
    """What a run came to."""

    families: tuple[Family, ...]
    names: tuple[str, ...]
    """The families as they were asked for: names or paths."""
    seed: int
    workers: int
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    seconds_of_work: float = 0.0
    """What the scenarios took, summed over the workers."""
    interrupted: bool = False
    system: System = SIMULATED
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def family(self, name: str) -> Family:
        """Return the family that outcomes call by ``name``."""
        return next(family for family in self.families if family.name == name)

    def asked_for(self, name: str) -> str:
        """Return how the command line names the family that outcomes call by ``name``."""
        return next(
            asked for asked, family in zip(self.names, self.families, strict=True) if family.name == name
        )


def usable_processors() -> int:
    """Return how many processors this process may use."""
    # Not everywhere can a process be bound to some of them.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    families: Sequence[str],
    *,
    scenarios: int | None = None,
    max_time: float | None = None,
    seed: int = 0,
    system: str = "simulated",
    workers: int | None = None,
    out: Path | None = None,
    progress: Callable[[Tally], None] = lambda tally: None,
    warn: Callable[[str], None] = lambda text: None,
) -> RunResult:
    """Run scenarios of families, given by name or path, on a system until there are enough or time is over.

    With one worker they run in this process. ``out`` gets outcomes.jsonl. ``progress`` is called after each
    batch, ``warn`` when a worker has died. An interrupt from the keyboard ends the run early, with a result;
    a mistake in a family or of ours does with RunStopped.
    """
    loaded = load_families(families)
    for family in loaded:
        check_family(family)
    count = workers or usable_processors()
    result = RunResult(loaded, tuple(families), seed, count, system=find_system(system))
    started = perf_counter()
    batches = _batches(scenarios, count, started + max_time if max_time is not None else None)
    with open_output(out) as lines, let_go(result.system):
        ordered = _InOrder(result.tally, lines, progress)
        try:
            if count == 1:
                _run_here(result, batches, ordered)
            else:
                _run_in_pool(result, batches, ordered, warn)
            raise_error_of(ordered.mistakes)
        except KeyboardInterrupt:
            result.interrupted = True
        except (FamilyError, WorkerDied, WorkerFailed) as mistake:
            raise RunStopped(result, mistake) from mistake
        finally:
            ordered.finish()
            result.seconds = perf_counter() - started
    return result


def load_families(names: Sequence[str]) -> tuple[Family, ...]:
    """Load families by name or path; two of the same name could not be told apart."""
    loaded: dict[str, Family] = {}
    for name in names:
        family = load_family(name)
        if family.name in loaded:
            raise FamilyError(f"{name}: there is a family {family.name!r} in this run already")
        loaded[family.name] = family
    return tuple(loaded.values())


def made_folder(folder: Path) -> Path:
    """Return a folder for results, made unless it is there; raises OutputUnwritable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputUnwritable(f"{folder}: cannot be written to: {error.strerror or error}") from None
    return folder


def emptied_folder(folder: Path) -> Path:
    """Return a folder without what was left in it; raises OutputUnwritable."""
    try:
        shutil.rmtree(folder, ignore_errors=not folder.exists())
    except OSError as error:
        raise OutputUnwritable(f"{folder}: cannot be emptied: {error.strerror or error}") from None
    return made_folder(folder)


@contextmanager
def open_output(folder: Path | None) -> Iterator[IO[bytes] | None]:
    """Open outcomes.jsonl in a folder, which is made if need be; nothing where no folder is given."""
    if folder is None:
        yield None
        return
    made_folder(folder)
    try:
        lines = (folder / OUTCOMES).open("wb")
    except OSError as error:
        raise OutputUnwritable(f"{folder}: cannot be written to: {error.strerror or error}") from None
    with lines:
        yield lines


def _batches(scenarios: int | None, workers: int, deadline: float | None) -> Iterator[Batch]:
    """Yield batches until all scenarios are given out or the time is over."""
    size = BATCH
    if scenarios is not None:
        # A short run is shared out evenly all the same.
        size = max(1, min(BATCH, scenarios // (4 * workers)))
    first = 0
    while scenarios is None or first < scenarios:
        if deadline is not None and perf_counter() >= deadline:
            return
        yield Batch(first, size if scenarios is None else min(size, scenarios - first))
        first += size


def _run_here(result: RunResult, batches: Iterator[Batch], ordered: _InOrder) -> None:
    for batch in batches:
        done = run_batch(result.families, result.seed, batch, result.system)
        result.seconds_of_work += done.seconds
        ordered.take(done)
        if ordered.mistakes:
            return


def _run_in_pool(
    result: RunResult, batches: Iterator[Batch], ordered: _InOrder, warn: Callable[[str], None]
) -> None:
    pool = WorkerPool(result.workers, Start(result.seed, result.names, result.system.name), warn)
    at_once = True
    try:
        for done in pool.run(batches):
            ordered.take(done)
        at_once = False
    finally:
        result.seconds_of_work = pool.seconds_of_work
        pool.close(at_once)


class _InOrder:
    """Receives batches in any order and passes their outcomes on in the order of the run."""

    def __init__(self, tally: Tally, lines: IO[bytes] | None, progress: Callable[[Tally], None]) -> None:
        self.mistakes: list[Done] = []
        self._tally = tally
        self._lines = lines
        self._progress = progress
        self._waiting: dict[int, Done] = {}
        self._next = 0

    def take(self, done: Done) -> None:
        """Take a batch, and pass on what is in order."""
        self._waiting[done.first] = done
        if done.family_error or done.internal_error:
            self.mistakes.append(done)
        while self._next in self._waiting:
            batch = self._waiting.pop(self._next)
            self._next += len(batch.lines)
            self._pass_on(batch)
        self._progress(self._tally)

    def finish(self) -> None:
        """Pass on what is left: behind a gap that an early end has torn."""
        for first in sorted(self._waiting):
            self._pass_on(self._waiting[first])
        self._waiting.clear()

    def _pass_on(self, batch: Done) -> None:
        add = self._tally.add
        for line in batch.lines:
            add(from_line(line))
        if self._lines is not None:
            self._lines.writelines(batch.lines)
            self._lines.flush()
