"""What becomes of a run's checkpoints: the properties restore_anywhere and state_equivalence of a scenario.

The rules this module lives by:

- A share of the scenarios pays for it, as their seeds decide, and one checkpoint and one parallelism of each
  are drawn from the seed. A scenario without a seed was shrunk or written by hand, and its replay must show
  all that can be shown: there every checkpoint is restored at every parallelism.
- The scenario is run once more for it, since a bulk run keeps nothing of its checkpoints; determinism makes
  that the same run.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from harness.chance import Chance
from harness.checkers.base import Violation
from harness.checkers.restore_anywhere import Restored, check_restored
from harness.checkers.state_equivalence import Holdings, check_equivalence
from harness.family import Family, declares
from harness.nemesis.plots import HIGHEST_PARALLELISM
from harness.oracle import PythonOracle
from harness.scenario import Scenario
from harness.simulation.continuing import kept_checkpoints, restored, undisturbed
from harness.simulation.keeping import Kept, contents_of


def check_continuations(family: Family, scenario: Scenario) -> tuple[Violation, ...]:
    """Restore kept checkpoints of a scenario elsewhere, and compare them with undisturbed ones.

    Returns the violations of the first checkpoint that has some.
    """
    kept = kept_checkpoints(family, scenario)
    for checkpoint, parallelisms in _drawn(scenario, kept):
        found = [*_compared(family, scenario, checkpoint)]
        for parallelism in parallelisms:
            found += _restored(family, scenario, checkpoint, parallelism)
            if found:
                return tuple(found)
    return ()


def _drawn(scenario: Scenario, kept: list[Kept]) -> Iterator[tuple[Kept, list[int]]]:
    """Yield checkpoints, each with the parallelisms at which it is restored."""
    most = min(HIGHEST_PARALLELISM, scenario.max_parallelism)
    if scenario.seed is None:
        for checkpoint in kept:
            yield checkpoint, list(range(1, most + 1))
    elif kept:
        chance = Chance(Random(scenario.seed))
        yield chance.choice(kept), [chance.integer(1, most)]


def _restored(family: Family, scenario: Scenario, kept: Kept, parallelism: int) -> Iterator[Violation]:
    history = restored(family, scenario, kept, parallelism)
    result = Restored(kept.metadata.checkpoint_id, parallelism, history)
    yield from check_restored(scenario, result, PythonOracle(family, scenario))


def _compared(family: Family, scenario: Scenario, kept: Kept) -> Iterator[Violation]:
    if kept.metadata.records_in_flight or not scenario.is_exactly_once:
        # Records in flight are before the cut, their effects are not; at-least-once has some from behind it.
        return
    control = undisturbed(family, scenario, kept.cut)
    if control is not None:
        # Where the order of arrival decides, it decides the order within lists, too.
        ordered = not declares(family)
        here, there = Holdings(*contents_of(kept, ordered)), Holdings(*contents_of(control, ordered))
        yield from check_equivalence(kept.metadata.checkpoint_id, kept.cut, here, there)
