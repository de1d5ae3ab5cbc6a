"""A tenth of the scenarios goes where few others are: their faults lead to the least covered situations.

Rules:

- ``RARE_PATHS`` says in how many scenarios of a recorded run each situation was, and what leads there. A path
  is drawn the more often the fewer they were.
- The seed alone decides whether a scenario takes one, and which. So a run is the same whatever its workers
  are, a replay needs no run, and a scenario that takes none is what it is without this module.
- A path takes the place of the other patterns and of what the scenario is aimed at. What a family's oracle
  does not allow for is not drawn.
- A changed input is no path, for jobs end early by it. Discarded uploads have the share of late puts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final, NamedTuple, TypeAlias

from onceproof.harness.generation.drawn_faults import JobOutline, draw_checkpoint
from onceproof.harness.generation.drawn_operations import savepoint_and_kill, stop_and_fault, stop_and_kill
from onceproof.harness.generation.fault_patterns import commit_answers_with_an_error
from onceproof.harness.generation.recovery_patterns import kill_at_completion_and_while_restoring
from onceproof.harness.generation.storage_patterns import files_cannot_be_deleted
from onceproof.harness.model.chance import Chance, derived_seed
from onceproof.harness.model.scenario import ANY_TASK, Fault, Operation

Trouble: TypeAlias = tuple[tuple[Fault, ...], tuple[Operation, ...]]
QUOTA: Final = 0.1
"""The share of the scenarios."""
DIGITS: Final = 10
"""How many processes there are until their numbers have one digit more."""


class RarePath(NamedTuple):
    """In how many of the recorded scenarios a situation was, and what draws faults that lead there."""

    scenarios: int
    draw: Callable[[Chance, JobOutline, bool], Trouble]


def _faults(
    pattern: Callable[[Chance, JobOutline], list[Fault]],
) -> Callable[[Chance, JobOutline, bool], Trouble]:
    def draw(chance: Chance, stage: JobOutline, any_backend: bool) -> Trouble:
        return tuple(pattern(chance, stage)), ()

    return draw


def _one_process_for_each_trigger(chance: Chance, stage: JobOutline) -> list[Fault]:
    return [Fault("kill_process", "triggered")] * DIGITS


def _clock_back_between_checkpoints(chance: Chance, stage: JobOutline) -> list[Fault]:
    checkpoint, after = 1 + draw_checkpoint(chance, stage), chance.integer(0, stage.checkpoint_steps)
    return [Fault("clock_back", "triggered", ANY_TASK, checkpoint, 1, after, chance.integer(1, 60_000))]


RARE_PATHS: Final[Mapping[str, RarePath]] = {
    "restored behind a savepoint": RarePath(27, savepoint_and_kill),
    "clock set back between checkpoints": RarePath(39, _faults(_clock_back_between_checkpoints)),
    "more than nine processes": RarePath(42, _faults(_one_process_for_each_trigger)),
    "deletion failed, then another process": RarePath(59, _faults(files_cannot_be_deleted)),
    "stopped with something prepared": RarePath(59, stop_and_fault),
    "killed at completion, then while restoring": RarePath(
        70, _faults(kill_at_completion_and_while_restoring)
    ),
    "killed while stopping": RarePath(79, stop_and_kill),
    "commit failed at a restore": RarePath(132, _faults(commit_answers_with_an_error)),
}
"""By situation; counted in 6,560 scenarios of generation 22."""
_MOST: Final = max(path.scenarios for path in RARE_PATHS.values())


def draw_rare_path(seed: int, stage: JobOutline, any_backend: bool) -> Trouble:
    """Draw faults, and requests that they meet, for one scenario in ten; nothing for the others."""
    chance = Chance(Random(derived_seed("rare paths", seed)))
    if not chance.chance(QUOTA):
        return (), ()
    weights = tuple([(path, round(10 * _MOST / path.scenarios)) for path in RARE_PATHS.values()])
    faults, requests = chance.weighted(weights).draw(chance, stage, any_backend)
    return ((), ()) if any(fault.kind in stage.unfit for fault in faults) else (faults, requests)
