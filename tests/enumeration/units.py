"""The units of an enumeration: one first fault, and each second fault that can follow it.

The rules this module lives by:

- Units are numbered, and the number decides the unit. So any worker can run any unit, a share is the same
  share every time, and the result does not depend on the distribution of units.
- Each run is judged by all properties. The run of a single fault is also repeated for determinism, and its
  checkpoints are restored and compared; of pairs of faults only a sample is.
- A kill that finds no running task has no effect, so it gets no second faults: they are units of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate
from time import perf_counter
from typing import Final

import msgspec

from onceproof.harness.checkers.outcome import Outcome, outcome_of
from onceproof.harness.model.family import Family
from onceproof.harness.model.scenario import Fault, Scenario, to_json
from onceproof.harness.trials.trial import Trial, try_scenario
from tests.enumeration.space import (
    Case,
    Passage,
    base_scenario,
    cases,
    faults_at,
    with_faults,
)
from tests.enumeration.watched_world import watched_run

AIMED_AT: Final = 2
"""The last checkpoint that a first fault aims at."""
AIMED_AT_NEXT: Final = 3
"""The last checkpoint that a second fault aims at."""
TWICE: Final = 64
"""One pair in this many is run a second time."""
CONTINUED: Final = 256
"""One pair in this many has its checkpoints restored and compared."""


class FoundFailure(msgspec.Struct, frozen=True):
    """The first failure of a kind in a unit, and how many there are."""

    scenario: str
    """As JSON."""
    outcome: Outcome
    count: int


class UnitResult(msgspec.Struct, frozen=True):
    """The counts and failures of a unit."""

    family: str
    shape: str
    singles: int
    pairs: int
    failed: int
    fired: dict[str, int]
    """How often each fault fired, by "kind/point"."""
    trace_hash: str
    seconds: float
    failures: tuple[FoundFailure, ...] = ()


class _PreparedCase(msgspec.Struct):
    """A case with its undisturbed scenario and its first faults."""

    family: Family
    case: Case
    base: Scenario
    faults: list[Fault]


class Units:
    """All units of some families: for each case the run without a fault, then one for each first fault."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._cases = [_prepare(family, case) for family in families for case in cases()]
        self._ends = list(accumulate(1 + len(prepared.faults) for prepared in self._cases))

    def __len__(self) -> int:
        """Return the number of units."""
        return self._ends[-1] if self._ends else 0

    def run(self, number: int) -> UnitResult:
        """Run the unit with a number, counted from 0."""
        place = next(place for place, end in enumerate(self._ends) if number < end)
        prepared = self._cases[place]
        index = number - self._ends[place] + len(prepared.faults)
        unit = _Unit(prepared, number)
        unit.run(prepared.faults[index] if index >= 0 else None)
        return unit.result()


def _prepare(family: Family, case: Case) -> _PreparedCase:
    base = base_scenario(family, case)
    passages = watched_run(family, base)[1]
    return _PreparedCase(family, case, base, faults_at(_up_to(AIMED_AT, passages)))


def _up_to(checkpoint: int, passages: Sequence[Passage]) -> list[Passage]:
    return [passage for passage in passages if passage.checkpoint <= checkpoint]


class _Unit:
    """A unit while it runs."""

    def __init__(self, prepared: _PreparedCase, number: int) -> None:
        self._case = prepared
        self._number = number
        self._started = perf_counter()
        self._runs = 0
        self._failed = 0
        self._fired: dict[str, int] = {}
        self._failures: dict[tuple[str, str], FoundFailure] = {}
        self._digest = blake2b(digest_size=16)

    def run(self, first: Fault | None) -> None:
        """Run all scenarios of the unit."""
        known = self._case
        if first is None:
            self._try(known.base, thoroughly=True)
            return
        self._try(with_faults(known.base, first), thoroughly=True)
        for second in self._seconds(first):
            self._try(with_faults(known.base, first, second), thoroughly=False)

    def _seconds(self, first: Fault) -> Iterator[Fault]:
        _, passages, struck = watched_run(self._case.family, with_faults(self._case.base, first))
        if struck:
            at = struck[0][1]
            yield from faults_at(_up_to(AIMED_AT_NEXT, passages[at:]), [(first, passages[at])])

    def _try(self, scenario: Scenario, *, thoroughly: bool) -> None:
        turn = self._number + self._runs
        self._runs += 1
        trial = try_scenario(
            self._case.family,
            scenario,
            twice=thoroughly or turn % TWICE == 0,
            continued=thoroughly or turn % CONTINUED == 0,
        )
        self._digest.update(trial.history.trace_hash.encode())
        for (kind, point), count in trial.history.statistics.coverage.items():
            name = f"{kind}/{point}"
            self._fired[name] = self._fired.get(name, 0) + count
        if not trial.verdict.passed:
            self._found(scenario, trial)

    def _found(self, scenario: Scenario, trial: Trial) -> None:
        self._failed += 1
        signature = trial.verdict.signature
        assert signature is not None
        found = self._failures.get(signature)
        if found is None:
            outcome = outcome_of(scenario, trial.history, trial.verdict)
            found = FoundFailure(to_json(scenario), outcome, 0)
        self._failures[signature] = msgspec.structs.replace(found, count=found.count + 1)

    def result(self) -> UnitResult:
        """What came of it."""
        return UnitResult(
            self._case.family.name,
            self._case.case.shape.name,
            min(self._runs, 1),
            max(self._runs - 1, 0),
            self._failed,
            self._fired,
            self._digest.hexdigest(),
            perf_counter() - self._started,
            tuple(self._failures.values()),
        )
