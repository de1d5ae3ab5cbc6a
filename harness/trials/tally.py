"""The tally of a run: counts for the report, the first failure of each kind, and candidates for an example.

The rules this module lives by:

- Adding an outcome takes a few microseconds, as a run has tens of thousands of scenarios a minute.
- A tally does not grow with the number of its outcomes: it holds counts, and bounded lists of examples.
- Executors fill tallies of their own, each in the order of the run. Merged in any order, they are the
  tally of all outcomes.
- Two failures are the same if family and signature are equal. The first one is kept, in the order of the run,
  not in the order of time.
- The example with which a report explains its diagram is chosen by content and seed, so equal runs show the
  same one.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeAlias

from onceproof.harness.checkers import CONTINUATIONS, Signature
from onceproof.harness.checkers.coverage import mode_point
from onceproof.harness.checkers.outcome import Outcome, hash_text, trace_number
from onceproof.harness.model.seeds import is_checked_twice, is_continued, is_replayed

MOST_EXAMPLES: Final = 60
"""How many candidates are kept; the report replays them to choose one."""

MOST_SEEDS: Final = 5
"""How many seeds of a family are kept, for the report."""

EXAMPLE_RECORDS: Final = range(6, 31)
"""The number of records of an example: fewer show too little, more fill the page."""

AT_LEAST_ONCE: Final = mode_point("at_least_once")
"""The name under which an outcome counts completed checkpoints of the mode."""

ExampleKey: TypeAlias = tuple[int, str, int]
"""(steps, family, seed); the smallest is the best example."""


@dataclass(slots=True)
class Group:
    """The failures with one family and signature: the first of them, and their number."""

    first: Outcome
    signature: Signature
    number: int = 0
    """The place of the first one in the order of the run."""
    count: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    """By property, how many of them broke it."""


@dataclass(slots=True)
class FamilyTally:
    """The counts of one family."""

    scenarios: int = 0
    failed: int = 0
    checked_twice: int = 0
    """How many scenarios of this family the seed has run a second time."""
    continued: int = 0
    """How many scenarios had their checkpoints restored and compared: those of the seed's choice that had not
    failed before."""
    machines_replayed: int = 0
    """How many scenarios the seed has chosen to replay through specifications."""
    at_least_once: int = 0
    """How many scenarios were judged by mode instead of exactly_once."""
    milliseconds: float = 0.0
    """The run time of its scenarios, summed over the workers."""
    waited_milliseconds: float | None = None
    """How many of them were spent waiting for what stands trial to start; None: no scenario measured it."""
    phase_milliseconds: dict[str, float] = field(default_factory=dict)
    """How long each phase of its scenarios took, where they are runs of a program."""
    broken: Counter[str] = field(default_factory=Counter)
    """By property, how many scenarios broke it."""
    timers_before_end: int = 0
    """How many event-time timers fired before the end of the input."""
    timers_at_end: int = 0
    kills: int = 0
    kills_checked_twice: int = 0
    """In the scenarios that ``checked_twice`` counts; likewise the next three."""
    kills_continued: int = 0
    kills_of_replayed: int = 0
    kills_at_least_once: int = 0
    not_applicable: int = 0
    """How many planned faults the system cannot inject."""
    replayed: Counter[int] = field(default_factory=Counter)
    """By number of records read again, how many scenarios with more than one attempt."""
    situations: Counter[str] = field(default_factory=Counter)
    """By situation, how many scenarios were in it."""
    notes: Counter[str] = field(default_factory=Counter)
    """By what runs have noticed that breaks no property, in how many scenarios."""
    watched: Counter[str] = field(default_factory=Counter)
    """By what might have happened in a scenario, in how many of them."""
    happened: Counter[str] = field(default_factory=Counter)
    """By what might have happened in a scenario, in how many of them it did."""
    recovery_seconds: Counter[float] = field(default_factory=Counter)
    """By time from a kill to the first new rows after it; empty for systems that do not run in real time."""
    seeds: list[tuple[int, int]] = field(default_factory=list)
    """The first MOST_SEEDS of its scenarios: their numbers in the run, and their seeds."""

    @property
    def timers_only_at_end(self) -> int:
        """The number of its event-time timers, if only the end of the input made any of them fire."""
        return 0 if self.timers_before_end else self.timers_at_end


@dataclass(slots=True)
class Tally:
    """The counts of a run."""

    scenarios: int = 0
    failed: int = 0
    families: dict[str, FamilyTally] = field(default_factory=dict)
    groups: dict[tuple[str, Signature], Group] = field(default_factory=dict)
    fired: Counter[str] = field(default_factory=Counter)
    """By "kind/point", how many faults fired."""
    planned: Counter[str] = field(default_factory=Counter)
    """By "kind/point", how many faults were planned."""
    not_applicable: int = 0
    """How many planned faults the system cannot inject."""
    points: Counter[str] = field(default_factory=Counter)
    """How often each protocol point was passed."""
    kills: int = 0
    rescales: int = 0
    replayed: Counter[int] = field(default_factory=Counter)
    """By number of records read again, how many scenarios with more than one attempt."""
    recovery_steps: Counter[int] = field(default_factory=Counter)
    """By number of steps of recovery, how many scenarios with more than one attempt."""
    examples: list[ExampleKey] = field(default_factory=list)
    """The candidates for the report's example, the best first."""
    traces: int = 0
    """The sum over the traces of all scenarios, from which their hash is made."""

    @property
    def seconds_of_scenarios(self) -> float:
        """The run time of all scenarios, summed over the workers."""
        return sum(family.milliseconds for family in self.families.values()) / 1000

    def add(self, outcome: Outcome, number: int | None = None) -> None:
        """Count one outcome.

        Args:
            number: its place in the order of the run; None: behind all that were added.
        """
        family = self.families.get(outcome.family)
        if family is None:
            family = self.families[outcome.family] = FamilyTally()
        if number is None:
            number = self.scenarios
        if len(family.seeds) < MOST_SEEDS and outcome.seed is not None:
            family.seeds.append((number, outcome.seed))
        self.scenarios += 1
        family.scenarios += 1
        family.milliseconds += outcome.milliseconds
        if outcome.waited_milliseconds is not None:
            family.waited_milliseconds = (family.waited_milliseconds or 0.0) + outcome.waited_milliseconds
        for phase, milliseconds in outcome.phase_milliseconds.items():
            family.phase_milliseconds[phase] = family.phase_milliseconds.get(phase, 0.0) + milliseconds
        if is_checked_twice(outcome.seed):
            family.checked_twice += 1
            family.kills_checked_twice += outcome.kills
        if is_continued(outcome.seed) and _passed_before_continuations(outcome):
            family.continued += 1
            family.kills_continued += outcome.kills
        if is_replayed(outcome.seed):
            family.machines_replayed += 1
            family.kills_of_replayed += outcome.kills
        if AT_LEAST_ONCE in outcome.points:
            family.at_least_once += 1
            family.kills_at_least_once += outcome.kills
        family.timers_before_end += outcome.timers_before_end
        family.timers_at_end += outcome.timers_at_end
        family.notes.update(outcome.notes)
        for name, happened in outcome.watched.items():
            family.watched[name] += 1
            family.happened[name] += happened
        self.kills += outcome.kills
        self.rescales += outcome.rescales
        _add_counts(self.fired, outcome.coverage)
        _add_counts(self.planned, outcome.planned)
        _add_counts(self.points, outcome.points)
        not_applicable = sum(outcome.not_applicable.values())
        self.not_applicable += not_applicable
        family.kills += outcome.kills
        family.not_applicable += not_applicable
        for name in outcome.situations:
            family.situations[name] = family.situations.get(name, 0) + 1
        for seconds in outcome.recovery_seconds:
            family.recovery_seconds[seconds] += 1
        self.traces += trace_number(outcome)
        if outcome.attempts > 1:
            self.replayed[outcome.records_replayed] += 1
            family.replayed[outcome.records_replayed] += 1
            self.recovery_steps[outcome.recovery_steps] += 1
        if outcome.passed:
            self._consider_as_example(outcome)
        else:
            self._add_failure(family, outcome, number)

    def _add_failure(self, family: FamilyTally, outcome: Outcome, number: int) -> None:
        self.failed += 1
        family.failed += 1
        broken = {violation[0] for violation in outcome.violations}
        family.broken.update(broken)
        assert outcome.signature is not None
        key = (outcome.family, outcome.signature)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(outcome, outcome.signature, number)
        group.count += 1
        group.broken.update(broken)

    def _consider_as_example(self, outcome: Outcome) -> None:
        """Keep a scenario with one kill, one rescale, replayed records and two to four checkpoints."""
        if (
            outcome.kills != 1
            or outcome.rescales != 1
            or outcome.attempts != 2
            or outcome.checkpoints not in (2, 3, 4)
            or sum(outcome.coverage.values()) != 1
            # A kill of the job master alone does not show on the lanes of tasks.
            or any(pair.startswith("kill_master/") for pair in outcome.coverage)
            or outcome.records not in EXAMPLE_RECORDS
            or not outcome.records_replayed
            or outcome.seed is None
        ):
            return
        examples = self.examples
        insort(examples, (outcome.steps, outcome.family, outcome.seed))
        del examples[MOST_EXAMPLES:]

    def merge(self, other: Tally) -> None:
        """Add the outcomes of another tally."""
        _add_fields(self, other, _SUMS_OF_A_RUN)
        for name, family in other.families.items():
            own = self.families.setdefault(name, FamilyTally())
            _add_fields(own, family, _SUMS_OF_A_FAMILY)
            own.seeds = sorted(own.seeds + family.seeds)[:MOST_SEEDS]
        for key, group in other.groups.items():
            mine = self.groups.setdefault(key, Group(group.first, group.signature, group.number))
            if group.number < mine.number:
                mine.first, mine.number = group.first, group.number
            mine.count += group.count
            mine.broken.update(group.broken)
        self.examples = sorted(self.examples + other.examples)[:MOST_EXAMPLES]

    def situations(self) -> Counter[str]:
        """Return by situation how many scenarios were in it."""
        return sum([family.situations for family in self.families.values()], Counter())

    @property
    def scenario_seconds(self) -> float:
        """The run time of a scenario, on average."""
        milliseconds = sum(family.milliseconds for family in self.families.values())
        return milliseconds / 1000 / self.scenarios if self.scenarios else 0.0

    @property
    def phase_seconds(self) -> dict[str, float]:
        """How long each phase of a scenario took, on average; empty for systems without phases."""
        phases: dict[str, float] = {}
        for family in self.families.values():
            for phase, milliseconds in family.phase_milliseconds.items():
                phases[phase] = phases.get(phase, 0.0) + milliseconds / 1000 / self.scenarios
        return phases

    @property
    def waiting_share(self) -> float | None:
        """The share of the run time that was waiting for what stands trial; None: not measured."""
        return waiting_share(*self.families.values())

    def trace_hash(self) -> str:
        """Return one hash over the traces of all scenarios, independent of their order."""
        return hash_text(self.traces)


def waiting_share(*families: FamilyTally) -> float | None:
    """Return the share of some families' run time that was waiting; None: not measured."""
    waited = [each.waited_milliseconds for each in families if each.waited_milliseconds is not None]
    milliseconds = sum(each.milliseconds for each in families)
    return min(1.0, sum(waited) / milliseconds) if waited and milliseconds else None


def _passed_before_continuations(outcome: Outcome) -> bool:
    return outcome.passed or outcome.violations[0][0] in CONTINUATIONS


def _add_counts(total: dict[Any, Any], counts: Mapping[Any, Any]) -> None:
    # Counter.update takes three times as long for mappings of this size.
    for name, count in counts.items():
        total[name] = total.get(name, 0) + count


# What is merged by adding: numbers, and counts by name.
_SUMS_OF_A_FAMILY: Final = tuple([each.name for each in fields(FamilyTally) if each.name != "seeds"])
_SUMS_OF_A_RUN: Final = tuple(
    [each.name for each in fields(Tally) if each.name not in ("families", "groups", "examples")]
)


def _add_fields(total: Any, more: Any, names: Sequence[str]) -> None:
    for name in names:
        own, others = getattr(total, name), getattr(more, name)
        if isinstance(own, dict):
            _add_counts(own, others)
        elif others is not None:
            setattr(total, name, (own or 0) + others)
