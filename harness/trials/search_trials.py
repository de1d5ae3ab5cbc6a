"""Search trials: how many scenarios, and how much processor time, a strategy needs to kill a planted bug.

The rules this module lives by:

- All strategies get the same families, bugs, seeds and limits, and each trial begins without memory.
- The processor time is that of the whole search: drawing or mutating a scenario, running it with the bug,
  judging it, and reading off what it reached where the strategy learns from that.
- A kill is one by the rules of `mutant_trials.py`: the scenario fails with the bug, passes without it, and
  fails again. A scenario that fails without the bug, too, is a false alarm and counted.
- Of a mutated scenario, which has no seed, as many are restored from their checkpoints as of drawn ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from random import Random
from time import process_time
from typing import Final

import msgspec
from msgspec.structs import replace

from onceproof.harness.model.chance import derived_seed
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.mutants import Mutant, find_mutant
from onceproof.harness.model.mutants.registry import SMALL_JOBS
from onceproof.harness.model.scenario import Scenario, to_json
from onceproof.harness.search.drawn_strategies import DRAWINGS, DrawnScenarios
from onceproof.harness.search.kept_scenarios import COUNTED, KeptScenarios
from onceproof.harness.search.search_strategy import Strategy, reached_in
from onceproof.harness.trials.enumeration.enumerated_strategy import SMALL_SCOPE, SmallScope
from onceproof.harness.trials.mutant_trials import failure_of, tried

STRATEGIES: Final = (*DRAWINGS, *COUNTED, SMALL_SCOPE)
"""The names, in the order of tables."""


class SearchResult(msgspec.Struct, frozen=True):
    """What a strategy made of a planted bug, from one seed."""

    strategy: str
    bug: str
    seed: int
    killed: bool
    scenarios: int
    """How many were run, the killing one included."""
    cpu_seconds: float
    false_alarms: int = 0


def make_strategy(name: str, families: Sequence[Family]) -> Strategy:
    """Return a strategy without memory by its name, one of STRATEGIES."""
    if name in DRAWINGS:
        return DrawnScenarios(families, DRAWINGS[name])
    if name in COUNTED:
        return KeptScenarios(families, COUNTED[name])
    return SmallScope(families)


def families_for(mutant: Mutant) -> tuple[str, ...]:
    """Return the families on which a bug is searched: those that it names, else small ones."""
    return mutant.families or SMALL_JOBS


def search(
    name: str,
    mutant: Mutant,
    families: Sequence[Family],
    seed: int,
    budget: int,
    make: Callable[[str, Sequence[Family]], Strategy] = make_strategy,
) -> SearchResult:
    """Run the scenarios of a strategy until one kills the bug, ``budget`` at the most."""
    by_name = {family.name: family for family in families}
    random = Random(derived_seed("search", name, mutant.id, seed))
    started = process_time()
    strategy = make(name, families)
    alarms = 0
    for count in range(1, budget + 1):
        scenario = strategy.next(random)
        family = by_name[scenario.family]
        seeded = scenario if scenario.seed is not None else _checked_by_seed(scenario)
        if mutant.on_databases:
            seeded = replace(seeded, state_backend="rocksdb", incremental=True)
        verdict, history = tried(family, seeded, mutant)
        if not verdict.passed:
            if failure_of(family, seeded) is not None:
                alarms += 1
            elif failure_of(family, seeded, mutant) is not None:
                return SearchResult(name, mutant.id, seed, True, count, process_time() - started, alarms)
        if strategy.watches:
            strategy.observe(scenario, reached_in(seeded, history))
    return SearchResult(name, mutant.id, seed, False, budget, process_time() - started, alarms)


def _checked_by_seed(scenario: Scenario) -> Scenario:
    """Return a scenario that no seed gives, with a seed that follows from its content.

    The seed decides how a scenario is checked: with it as many mutated scenarios are restored from their
    checkpoints as drawn ones. Without one all checkpoints would be restored, which takes long.
    """
    return replace(scenario, seed=derived_seed("checked", to_json(scenario)))


def search_all(
    mutants: Sequence[Mutant], strategies: Sequence[str], seed: int, seeds: int, budget: int, workers: int = 1
) -> Iterator[SearchResult]:
    """Yield the result of each bug, seed and strategy; the strategies of a seed follow each other.

    :param workers: how many processes
    """
    wanted = [
        (name, mutant, each)
        for mutant in mutants
        for each in range(seed, seed + seeds)
        for name in strategies
    ]
    if workers <= 1:
        for name, mutant, each in wanted:
            yield search(name, mutant, list(map(load_family, families_for(mutant))), each, budget)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting: list[Future[SearchResult]] = [
            pool.submit(_search_by_id, name, mutant.id, mutant.path, each, budget)
            for name, mutant, each in wanted
        ]
        try:
            for result in waiting:
                yield result.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _search_by_id(name: str, mutant_id: str, path: str | None, seed: int, budget: int) -> SearchResult:
    mutant = find_mutant(mutant_id, path)
    return search(name, mutant, list(map(load_family, families_for(mutant))), seed, budget)
