"""An enumeration, in this process or on a pool of workers, and its result.

The rules this module lives by:

- The number of workers changes the duration and nothing else: counts and hash do not depend on the order in
  which the units are run.
- A share is every n-th unit from some unit on. So the shares have about equal work, and the n shares that
  start at units 0 to n - 1 are the whole.
- An interrupt ends the enumeration early, with the result of the units so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from time import perf_counter

import msgspec

from onceproof.harness.model.family import Family
from onceproof.harness.trials.enumeration.units import FoundFailure, UnitResult, Units
from onceproof.harness.trials.pool import Batch, Done, Start, WorkerPool, raise_error_of
from onceproof.harness.trials.runner import load_families, usable_processors
from onceproof.harness.trials.trial import SIMULATED, check_family
from onceproof.harness.trials.worker import enumerate_batch

_decoder = msgspec.json.Decoder(UnitResult)


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
    warn: Callable[[str], None] = lambda text: None,
) -> Enumerated:
    """Run every ``share``-th unit of the families, from unit ``first`` modulo ``share`` on.

    :param families: names or paths
    :param workers: how many processes; 1 uses this process, None all processors
    :param progress: called with the result so far after each unit
    :param warn: called with one line when a worker died
    :raises FamilyError, WorkerDied, WorkerFailed: a family or a worker failed
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
    batches = (Batch(number, 1) for number in numbers)
    try:
        for done in _done(result, units, batches, warn):
            raise_error_of([done])
            for line in done.lines:
                result.add(done.first, _decoder.decode(line))
            result.seconds = perf_counter() - started
            progress(result)
    except KeyboardInterrupt:
        result.interrupted = True
    result.seconds = perf_counter() - started
    return result


def _done(
    result: Enumerated, units: Units, batches: Iterator[Batch], warn: Callable[[str], None]
) -> Iterator[Done]:
    if result.workers == 1:
        for batch in batches:
            yield enumerate_batch(units, batch)
        return
    start = Start(0, result.names, SIMULATED.name, enumerates=True)
    with WorkerPool(result.workers, start, warn) as pool:
        yield from pool.run(batches)
