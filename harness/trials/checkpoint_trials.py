"""What becomes of a run's checkpoints: the properties restore_anywhere and state_equivalence of a scenario.

The rules this module lives by:

- A share of the scenarios pays for it, as their seeds decide, and one checkpoint and one parallelism of each
  are drawn from the seed. A scenario without a seed was shrunk or written by hand, and its replay must show
  all that can be shown: there every checkpoint is restored at every parallelism.
- A savepoint may be complete only when a later checkpoint is complete and committed, as in Flink. What it
  lacks is visible then, so nobody may ask that a job which goes on from it should end in each row once.
- The scenario is run once more for it, since a bulk run keeps nothing of its checkpoints; determinism makes
  that the same run.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from onceproof.engine.messages import CHECKPOINT
from onceproof.harness.checkers.base import Violation
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.restore_anywhere import RestoredRun, check_restored
from onceproof.harness.checkers.state_equivalence import CheckpointState, check_equivalence
from onceproof.harness.generation.fault_patterns import HIGHEST_PARALLELISM
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.scenario import Scenario, StateBackend
from onceproof.harness.systems.simulation.checkpoint_recorder import Kept, contents_of
from onceproof.harness.systems.simulation.comparison_runs import kept_checkpoints, restored, undisturbed

OTHER_BACKEND: Final = 5
"""Of so many scenarios with a seed, savepoints of one are restored on the other backend, too."""


def check_continuations(family: Family, scenario: Scenario) -> tuple[Violation, ...]:
    """Restore kept checkpoints of a scenario elsewhere, and compare them with undisturbed ones.

    Returns the violations of the first checkpoint that has some.
    """
    kept = kept_checkpoints(family, scenario)
    for checkpoint, parallelisms in _drawn(scenario, kept):
        found = [*_compared(family, scenario, checkpoint)]
        for parallelism in () if checkpoint.is_overtaken else parallelisms:
            for backend in _backends(family, scenario, checkpoint):
                found += _restored(family, scenario, checkpoint, parallelism, backend)
                if found:
                    return tuple(found)
    return ()


def _backends(family: Family, scenario: Scenario, kept: Kept) -> tuple[StateBackend | None, ...]:
    """Return on which backends it is restored: its own, and of a savepoint now and then the other one."""
    is_rare = bool((scenario.seed or 0) % OTHER_BACKEND)
    if kept.metadata.kind == CHECKPOINT or is_rare or not options_of(family).any_backend:
        return (None,)
    other: StateBackend = "hashmap" if scenario.state_backend == "rocksdb" else "rocksdb"
    return (None, other)


def _drawn(scenario: Scenario, kept: list[Kept]) -> Iterator[tuple[Kept, list[int]]]:
    """Yield checkpoints, each with the parallelisms at which it is restored."""
    most = min(HIGHEST_PARALLELISM, scenario.max_parallelism)
    if scenario.seed is None:
        for checkpoint in kept:
            yield checkpoint, list(range(1, most + 1))
    elif kept:
        chance = Chance(Random(scenario.seed))
        # What was asked for is rarer than what the interval brings.
        savepoints = [each for each in kept if each.metadata.kind != CHECKPOINT]
        yield chance.choice(savepoints or kept), [chance.integer(1, most)]


def _restored(
    family: Family, scenario: Scenario, kept: Kept, parallelism: int, backend: StateBackend | None
) -> Iterator[Violation]:
    history = restored(family, scenario, kept, parallelism, backend)
    result = RestoredRun(kept.metadata.checkpoint_id, parallelism, history)
    yield from check_restored(scenario, result, PythonOracle(family, scenario))


def _compared(family: Family, scenario: Scenario, kept: Kept) -> Iterator[Violation]:
    if kept.metadata.records_in_flight or not scenario.is_exactly_once:
        # Records in flight are before the cut, their effects are not; at-least-once has some from behind it.
        return
    control = undisturbed(family, scenario, kept.cut)
    if control is not None:
        # Where the order of arrival decides, it decides the order within lists, too.
        options = options_of(family)
        ordered = not options.declares
        without = options.arrival_states_with(scenario.parameters)
        here, there = (CheckpointState(*contents_of(each, ordered, without)) for each in (kept, control))
        yield from check_equivalence(kept.metadata.checkpoint_id, kept.cut, here, there)
