"""`onceproof bench search`: strategies of choosing scenarios, compared by what a planted bug takes them.

The rules this module lives by:

- What counts is bugs for each second of processor time; the number of scenarios stands beside it, because a
  strategy may choose dear ones.
- A search that killed nothing within its budget took longer than that: it counts as infinite in a median, and
  its whole time counts in bugs per second. A median that is infinite is printed as more than the budget.
- The intervals are those of a bootstrap over the seeds: 95 of 100 resamples of the seeds give a figure in it.
  The resamples are the same for all strategies, so a ratio of two is one over equal seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from random import Random
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from onceproof.harness.model.chance import Chance
from onceproof.harness.search.drawn_strategies import SITUATIONS
from onceproof.harness.trials.search_trials import SearchResult
from onceproof.reports.summaries import quantile

BUGS: Final = (
    "restart-without-progress-goes-one-back",
    "failover-forgets-the-savepoint-of-the-stop",
    "latest-checkpoint-by-the-wall-clock",
    "two-metadata-writes-at-a-time",
    "failure-of-the-last-commit-is-ignored",
    "refused-stop-ends-the-checkpoints",
    "key-groups-come-back-as-they-were",
    "old-master-publishes",
    "checkpoint-folder-not-synced",
    "finished-task-keeps-its-queues",
    "FLINK-31963",
    "FLINK-7784",
)
"""Bugs that take a run between ten and some hundred scenarios, in small jobs: a comparison ends in time."""

SEEDS: Final = 10
BUDGET: Final = 400
"""Scenarios of each search."""
BASELINE: Final = SITUATIONS
"""What a run does; ratios are against it."""
RESAMPLES: Final = 1000


class Figure(NamedTuple):
    """A figure and the interval in which it lies."""

    value: float
    low: float
    high: float


Trials: TypeAlias = Sequence[Mapping[str, SearchResult]]
"""For each seed, the result of each bug."""


class StrategyFigures(msgspec.Struct, frozen=True):
    """What one strategy takes."""

    strategy: str
    killed: int
    searches: int
    scenarios: Figure
    """The median over the bugs of the median over the seeds."""
    cpu_seconds: Figure
    """The same of the processor time."""
    kills_per_cpu_minute: Figure
    against_baseline: Figure
    """Kills for each second of processor time, as a multiple of those of the baseline."""
    scenario_ms: float
    """The processor time of a scenario."""
    false_alarms: int


class BugFigures(msgspec.Struct, frozen=True):
    """What one strategy takes for one bug."""

    bug: str
    strategy: str
    killed: int
    scenarios: Figure
    cpu_seconds: Figure


class Comparison(msgspec.Struct, frozen=True):
    """A comparison of strategies."""

    strategies: tuple[StrategyFigures, ...]
    bugs: tuple[BugFigures, ...]
    seeds: int
    budget: int


def compare(results: Sequence[SearchResult], budget: int) -> Comparison:
    """Return the figures of each strategy, and of each bug with each strategy."""
    seeds = sorted({each.seed for each in results})
    bugs = list(dict.fromkeys(each.bug for each in results))
    names = list(dict.fromkeys(each.strategy for each in results))
    trials = {
        name: [
            {each.bug: each for each in results if each.strategy == name and each.seed == seed}
            for seed in seeds
        ]
        for name in names
    }
    samples = _resamples(len(seeds))
    baseline = trials[BASELINE if BASELINE in trials else names[0]]
    return Comparison(
        tuple([_of_strategy(name, trials[name], baseline, bugs, samples) for name in names]),
        tuple([_of_bug(bug, name, trials[name], samples) for bug in bugs for name in names]),
        len(seeds),
        budget,
    )


def _resamples(seeds: int) -> list[list[int]]:
    """Return places of seeds, drawn with repetition; the same in each comparison of as many seeds."""
    chance = Chance(Random(seeds))
    return [[chance.integer(0, seeds - 1) for _ in range(seeds)] for _ in range(RESAMPLES)]


def _figure(samples: Sequence[Sequence[int]], of: Callable[[Sequence[int]], float]) -> Figure:
    """Return a figure over all seeds with its interval over the resamples."""
    ordered = sorted(map(of, samples))
    places = range(len(samples[0]))
    return Figure(of(places), _at(ordered, 0.025), _at(ordered, 0.975))


def _at(ordered: Sequence[float], share: float) -> float:
    """Return a quantile; without interpolation where it would lie between a number and infinity."""
    value = quantile(ordered, share)
    return ordered[round(share * (len(ordered) - 1))] if value != value or value == inf else value


def _of_strategy(
    name: str, trials: Trials, baseline: Trials, bugs: Sequence[str], samples: Sequence[Sequence[int]]
) -> StrategyFigures:
    everything = [each for of_seed in trials for each in of_seed.values()]

    def middle(taken: Callable[[SearchResult], float], places: Sequence[int]) -> float:
        return median([median([_taken(trials[place][bug], taken) for place in places]) for bug in bugs])

    return StrategyFigures(
        strategy=name,
        killed=sum(each.killed for each in everything),
        searches=len(everything),
        scenarios=_figure(samples, lambda places: middle(_scenarios, places)),
        cpu_seconds=_figure(samples, lambda places: middle(_cpu_seconds, places)),
        kills_per_cpu_minute=_figure(samples, lambda places: 60 * _kill_rate(trials, places)),
        against_baseline=_figure(
            samples, lambda places: _ratio(_kill_rate(trials, places), _kill_rate(baseline, places))
        ),
        scenario_ms=1000 * sum(map(_cpu_seconds, everything)) / sum(each.scenarios for each in everything),
        false_alarms=sum(each.false_alarms for each in everything),
    )


def _of_bug(bug: str, name: str, trials: Trials, samples: Sequence[Sequence[int]]) -> BugFigures:
    def middle(taken: Callable[[SearchResult], float], places: Sequence[int]) -> float:
        return median([_taken(trials[place][bug], taken) for place in places])

    return BugFigures(
        bug=bug,
        strategy=name,
        killed=sum(of_seed[bug].killed for of_seed in trials),
        scenarios=_figure(samples, lambda places: middle(_scenarios, places)),
        cpu_seconds=_figure(samples, lambda places: middle(_cpu_seconds, places)),
    )


def _scenarios(result: SearchResult) -> float:
    return result.scenarios


def _cpu_seconds(result: SearchResult) -> float:
    return result.cpu_seconds


def _taken(result: SearchResult, taken: Callable[[SearchResult], float]) -> float:
    return taken(result) if result.killed else inf


def _kill_rate(trials: Trials, places: Sequence[int]) -> float:
    results = [each for place in places for each in trials[place].values()]
    return _ratio(sum(each.killed for each in results), sum(map(_cpu_seconds, results)))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else inf if part else 0.0


def document_of(comparison: Comparison, machine: str) -> dict[str, Any]:
    """Return what --json prints: the fields of every benchmark, and the figures with their intervals."""
    rates = {each.strategy: each.kills_per_cpu_minute.value for each in comparison.strategies}
    floor = rates.get(BASELINE)
    return {
        "name": "search",
        "figures": {f"{name}: kills per CPU minute": _finite(rate) for name, rate in rates.items()},
        "floors": {} if floor is None else {f"{BASELINE}: kills per CPU minute": _finite(floor)},
        "ratios": {
            f"{each.strategy} against {BASELINE}": _finite(each.against_baseline.value)
            for each in comparison.strategies
        },
        "machine": machine,
        "seeds": comparison.seeds,
        "budget": comparison.budget,
        "strategies": [_row(each) for each in comparison.strategies],
        "bugs": [_row(each) for each in comparison.bugs],
    }


def _row(figures: StrategyFigures | BugFigures) -> dict[str, Any]:
    """Return figures as JSON holds them: {"value", "low", "high"}, null for more than the budget."""
    return {
        name: {part: _finite(each) for part, each in value._asdict().items()}
        if isinstance(value, Figure)
        else value
        for name, value in msgspec.structs.asdict(figures).items()
    }


def _finite(value: float) -> float | None:
    return None if value == inf else round(value, 4)
