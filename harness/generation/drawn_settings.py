"""Settings of a job that few scenarios have: its restart strategy, and who decides its maximum parallelism.

Rules:

- They are drawn by chances of their own, which follow from the seed: a scenario without them is as it is
  without this module. GENERATION counts them as a part of the shared draw.
- A strategy allows so few restarts that a share of the jobs ends by it. Such a job is submitted anew, and
  everything is judged as after a kill of its process.
- A process that takes its maximum parallelism from a checkpoint computes the same as one that sets it.
"""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.model.chance import Chance, derived_seed
from onceproof.harness.model.job_settings import LOOK_AT_TIME, Restarts, RestartStrategy
from onceproof.harness.model.scenario import Scenario

RESTARTS: Final = 0.06
"""The share of the scenarios whose job has a restart strategy that may give up."""
LEFT_TO_THE_ENGINE: Final = 0.1
"""The share of those whose maximum parallelism comes from the checkpoint."""
STRATEGIES: Final[tuple[tuple[RestartStrategy, int], ...]] = (
    ("none", 1),
    ("fixed_delay", 2),
    ("failure_rate", 3),
    ("exponential_delay", 3),
)
MOST_RESTARTS: Final = ((0, 5), (1, 4), (2, 1))
WINDOWS_MS: Final = (1, 1000)
"""As long as a few failures in a row, up to as long as most runs."""


def with_settings(scenario: Scenario, seed: int, sets_sizes: bool = False) -> Scenario:
    """Return a drawn scenario with the settings that its seed gives to a few.

    Args:
        seed: the one from which the scenario was drawn.
        sets_sizes: whether the job sizes its operators by the maximum parallelism that it sets.
    """
    chance = Chance(Random(derived_seed("settings of the job", seed)))
    restarts = draw_restarts(chance) if chance.chance(RESTARTS) else UNSET
    leaves = (chance.chance(LEFT_TO_THE_ENGINE) and not sets_sizes) or UNSET
    if restarts is UNSET and leaves is UNSET:
        return scenario
    return replace(scenario, restarts=restarts, leaves_max_parallelism=leaves)


def draw_restarts(chance: Chance) -> Restarts:
    """Draw a restart strategy that allows few restarts."""
    strategy = chance.weighted(STRATEGIES)
    most = 0 if strategy == "none" else chance.weighted(MOST_RESTARTS)
    if strategy not in LOOK_AT_TIME:
        return Restarts(strategy, most)
    # Both need a failure to begin with.
    return Restarts(strategy, max(1, most), chance.integer(*WINDOWS_MS))
