"""An enumeration, in this process or on a pool of workers, and its result.

The rules this module lives by:

- The number of workers changes the duration and nothing else: counts and hash do not depend on the order in
  which the units are run.
- A share is every n-th unit from some unit on. So the shares have about equal work, and the n shares that
  start at units 0 to n - 1 are the whole.
- An interrupt ends the enumeration early, with the result of the units so far.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from multiprocessing import get_context
from time import perf_counter

import msgspec

from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.runner import load_families, usable_processors
from onceproof.harness.trials.trial import check_family
from tests.enumeration.units import FoundFailure, UnitResult, Units


@dataclass(slots=True)
class Counts:
    """The scenarios of one job."""

    singles: int = 0
    """Runs with at most one fault."""
    pairs: int = 0
    failed: int = 0

    @property
    def scenarios(self) -> int:
        """Return the number of all runs."""
        return self.singles + self.pairs


@dataclass(slots=True)
class Enumerated:
    """The result of an enumeration."""

    families: tuple[Family, ...]
    names: tuple[str, ...]
    """The families as the command line names them."""
    workers: int
    units: int
    """The number of units of the share."""
    jobs: dict[tuple[str, str], Counts] = field(default_factory=dict)
    """By (family, shape)."""
    fired: Counter[str] = field(default_factory=Counter)
    failures: dict[tuple[str, tuple[str, str]], tuple[int, FoundFailure]] = field(default_factory=dict)
    """By (family, signature), the failure of the lowest unit with that unit's number; its count is of all."""
    seconds: float = 0.0
    interrupted: bool = False
    done: dict[int, str] = field(default_factory=dict)
    """By number, the trace hash of each finished unit."""

    @property
    def counts(self) -> Counts:
        """Return the counts over all jobs."""
        every = self.jobs.values()
        return Counts(
            sum(each.singles for each in every),
            sum(each.pairs for each in every),
            sum(each.failed for each in every),
        )

    def trace_hash(self) -> str:
        """Return one hash over the traces of all runs."""
        lines = [f"{number} {trace_hash}\n" for number, trace_hash in sorted(self.done.items())]
        return blake2b("".join(lines).encode(), digest_size=16).hexdigest()

    def add(self, number: int, result: UnitResult) -> None:
        """Add the result of a unit; units arrive in any order."""
        counts = self.jobs.setdefault((result.family, result.shape), Counts())
        counts.singles += result.singles
        counts.pairs += result.pairs
        counts.failed += result.failed
        self.fired.update(result.fired)
        self.done[number] = result.trace_hash
        for found in result.failures:
            assert found.outcome.signature is not None
            key = (result.family, found.outcome.signature)
            earlier = self.failures.get(key)
            if earlier is None:
                self.failures[key] = number, found
            else:
                count = earlier[1].count + found.count
                unit, kept = min(earlier, (number, found), key=lambda each: each[0])
                self.failures[key] = unit, msgspec.structs.replace(kept, count=count)


def enumerate_faults(
    families: Sequence[str],
    *,
    workers: int | None = None,
    share: int = 1,
    first: int = 0,
    progress: Callable[[Enumerated], None] = lambda result: None,
) -> Enumerated:
    """Run every ``share``-th unit of the families, from unit ``first`` modulo ``share`` on.

    Args:
        families: names or paths
        workers: how many processes; 1 uses this process, None all processors
        share: one N-th of the units is run
        first: which
        progress: called with the result so far after each unit
    """
    loaded = load_families(families)
    for family in loaded:
        check_family(family)
    units = Units(loaded)
    numbers = range(first % share, len(units), share)
    # Never more processes than work.
    count = max(1, min(workers or usable_processors(), len(numbers)))
    result = Enumerated(loaded, tuple(families), count, len(numbers))
    started = perf_counter()
    try:
        for number, done in zip(numbers, _done(result, units, numbers), strict=True):
            result.add(number, done)
            result.seconds = perf_counter() - started
            progress(result)
    except KeyboardInterrupt:
        result.interrupted = True
    result.seconds = perf_counter() - started
    return result


def _done(result: Enumerated, units: Units, numbers: Sequence[int]) -> Iterator[UnitResult]:
    """Yield the results of units in the order of their numbers."""
    if result.workers == 1:
        yield from map(units.run, numbers)
        return
    with ProcessPoolExecutor(
        result.workers, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
    ) as pool:
        waiting = [pool.submit(_run_unit, result.names, number) for number in numbers]
        try:
            for each in waiting:
                yield each.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _run_unit(families: tuple[str, ...], number: int) -> UnitResult:
    return _units_of(families).run(number)


@cache
def _units_of(families: tuple[str, ...]) -> Units:
    return Units([load_family(name) for name in families])
