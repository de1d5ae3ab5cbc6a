"""An enumeration from its first unit to its last, here or on a pool of workers, and what it comes to.

The rules this module lives by:

- How many workers there are changes how long it takes and nothing else: counts and hash are those of the
  units, whatever the order in which they were done.
- A share of an enumeration is every n-th unit, from some unit on. So shares are alike, and n of them, which
  begin one after another, are the whole.
- An interrupt ends it early, with what was done.
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
    """Runs of one fault, and those without."""
    pairs: int = 0
    failed: int = 0

    @property
    def scenarios(self) -> int:
        """All."""
        return self.singles + self.pairs


@dataclass(slots=True)
class Enumerated:
    """What an enumeration came to."""

    families: tuple[Family, ...]
    names: tuple[str, ...]
    """As they were asked for."""
    workers: int
    units: int
    """Of the share that was asked for."""
    jobs: dict[tuple[str, str], Counts] = field(default_factory=dict)
    """By family and shape."""
    fired: Counter[str] = field(default_factory=Counter)
    failures: dict[tuple[str, tuple[str, str]], tuple[int, FoundFailure]] = field(default_factory=dict)
    """By family and signature, the one of the first unit and its number, with the count of all."""
    seconds: float = 0.0
    interrupted: bool = False
    done: dict[int, str] = field(default_factory=dict)
    """The hash of each unit that was done, by its number."""

    @property
    def counts(self) -> Counts:
        """Over all jobs."""
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
        """Count a unit; units come in any order."""
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
    """Run every ``share``-th unit of the families, from unit ``first`` on, modulo the share.

    Raises FamilyError, WorkerDied, WorkerFailed.
    """
    loaded = load_families(families)
    for family in loaded:
        check_family(family)
    units = Units(loaded)
    numbers = range(first % share, len(units), share)
    count = workers or usable_processors()
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
    pool = WorkerPool(result.workers, Start(0, result.names, SIMULATED.name, enumerates=True), warn)
    at_once = True
    try:
        yield from pool.run(batches)
        at_once = False
    finally:
        pool.close(at_once)
