"""Settings of a job that few scenarios have, such as its restart strategy or that it takes no checkpoints.

Rules:

- They are drawn by chances of their own, which follow from the seed: a scenario without them is as it is
  without this module. GENERATION counts them as a part of the shared draw.
- A strategy allows so few restarts that a share of the jobs ends by it. Such a job is submitted anew, and
  everything is judged as after a kill of its process.
- A job without checkpoints commits at its end or with the savepoint of a stop. Each attempt begins from such
  a savepoint, or anew. It is not cancelled with a savepoint: its tasks may end, and commit, in the meantime.
  Where the order of arrival decides about rows, attempts differ: of the families that declare their choices
  only drawn graphs, whose rows are certain, run in this way. A user's own family never does: its user wants
  it to survive failures.
- A stop or cancel may move keyed state to the other backend, in either direction.
- A process that takes its maximum parallelism from a checkpoint computes the same as one that sets it.
"""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.model.chance import Chance, derived_seed
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.family_places import is_built_in
from onceproof.harness.model.job_settings import LOOK_AT_TIME, Restarts, RestartStrategy
from onceproof.harness.model.scenario import OperationKind, Scenario, StateBackend

RESTARTS: Final = 0.06
"""The share of the scenarios whose job has a restart strategy that may give up."""
LEFT_TO_THE_ENGINE: Final = 0.1
"""The share of those whose maximum parallelism comes from the checkpoint."""
WITHOUT_CHECKPOINTS: Final = 0.03
"""The share of those whose job takes no checkpoints."""
OTHER_BACKEND: Final = 0.15
"""The share of the stops and cancels after which keyed state is on the other backend."""
STRATEGIES: Final[tuple[tuple[RestartStrategy, int], ...]] = (
    ("none", 1),
    ("fixed_delay", 2),
    ("failure_rate", 3),
    ("exponential_delay", 3),
)
HEAP: Final[StateBackend] = "hashmap"
DATABASE: Final[StateBackend] = "rocksdb"
MOVE: Final[tuple[OperationKind, ...]] = ("stop", "cancel")
"""The requests after which the job starts from a savepoint, which any backend can read."""
MOST_RESTARTS: Final = ((0, 5), (1, 4), (2, 1))
WINDOWS_MS: Final = (1, 1000)
"""As long as a few failures in a row, up to as long as most runs."""


def with_settings(family: Family, scenario: Scenario, seed: int) -> Scenario:
    """Return a drawn scenario with the settings that its seed gives to a few.

    Args:
        family: the one of which it is a case.
        scenario: the drawn one.
        seed: the one from which it was drawn.
    """
    options = options_of(family)
    chance = Chance(Random(derived_seed("settings of the job", seed)))
    restarts = draw_restarts(chance) if chance.chance(RESTARTS) else UNSET
    # A drawn graph sizes its operators by the maximum parallelism that the job sets.
    leaves = (chance.chance(LEFT_TO_THE_ENGINE) and not options.draws_graphs) or UNSET
    if restarts is not UNSET or leaves is not UNSET:
        scenario = replace(scenario, restarts=restarts, leaves_max_parallelism=leaves)
    if options.any_backend and scenario.asked:
        scenario = _with_other_backends(scenario, Chance(Random(derived_seed("other backends", seed))))
    chance = Chance(Random(derived_seed("no checkpoints", seed)))
    is_certain = options.draws_graphs or not options.declares
    if chance.chance(WITHOUT_CHECKPOINTS) and is_certain and is_built_in(family):
        stops = tuple([each for each in scenario.asked if each.kind != "cancel"])
        scenario = replace(scenario, without_checkpoints=True, operations=stops or UNSET)
    return scenario


def _with_other_backends(scenario: Scenario, chance: Chance) -> Scenario:
    """Return a scenario in which some stops and cancels move keyed state to the other backend."""
    backend: StateBackend = scenario.state_backend or HEAP
    operations = []
    for operation in scenario.asked:
        if operation.kind in MOVE and chance.chance(OTHER_BACKEND):
            operation = replace(operation, state_backend=HEAP if backend == DATABASE else DATABASE)
        backend = operation.state_backend or backend
        operations.append(operation)
    return replace(scenario, operations=tuple(operations))


def draw_restarts(chance: Chance) -> Restarts:
    """Draw a restart strategy that allows few restarts."""
    strategy = chance.weighted(STRATEGIES)
    most = 0 if strategy == "none" else chance.weighted(MOST_RESTARTS)
    if strategy not in LOOK_AT_TIME:
        return Restarts(strategy, most)
    # Both need a failure to begin with.
    return Restarts(strategy, max(1, most), chance.integer(*WINDOWS_MS))
