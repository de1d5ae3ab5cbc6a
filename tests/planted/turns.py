"""Computes the turns of the built-in families: ``python -m tests.planted.turns`` writes their file.

Rules:

- A bug that dies in scenario number i of a family with t turns in a round dies in round i / t. A further turn
  is worth the more, the more bugs there are that take several rounds, and the less a scenario costs. Turns
  are worth the same in all families where t x cost is as the sum of i / (t + i) over the bugs of a family:
  each bug adds one at the most, so that no single bug decides.
- No family has fewer turns than ``LEAST``, or than one. What these families do they do alone, and a bug that
  is not planted yet may need it.
- A scenario's cost is measured on the machine that runs this command; only proportions count. Its square root
  counts: kills are recorded of one seed, and a dear family is dear because it does much.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import sqrt
from time import process_time
from typing import Final

from onceproof.harness.model.family_places import TURNS, family_names, load_family
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.trials.trial import scenario_of, try_scenario
from tests.planted.kills import SEED, Kill, recorded_kills

ROUND: Final = 191
"""How many turns a round has, apart from what ``LEAST`` adds."""
MEASURED: Final = 24
"""How many scenarios of each family are measured."""
LEAST: Final[Mapping[str, int]] = {
    "random_job": 35,
    "expiring_state": 9,
    **dict.fromkeys(("async_lookups", "closing_sums", "final_table", "interval_join"), 6),
    **dict.fromkeys(("bonuses", "full_join", "order_lines", "visit_previews"), 4),
    **dict.fromkeys(
        ("clock_windows", "deduplication", "pausing_sensors", "questions", "sliding_word_count"), 3
    ),
    **dict.fromkeys(("behaviour_patterns", "visits_and_purchases"), 2),
}
_PASSES: Final = 60


def cost_of(name: str) -> float:
    """Return how many seconds of processor time a scenario of a family takes."""
    family = load_family(name)
    started = process_time()
    for index in range(MEASURED):
        try_scenario(family, scenario_of(family, scenario_seed(SEED, name, index)), twice=False)
    return (process_time() - started) / MEASURED


def turns_by(kills: Mapping[str, Kill], costs: Mapping[str, float]) -> dict[str, int]:
    """Return the turns of the families that have more than one.

    Args:
        kills: by the id of a bug, where it dies.
        costs: by family, what a scenario costs.
    """
    indexes: dict[str, list[int]] = {name: [] for name in costs}
    for kill in kills.values():
        if kill["family"] in indexes:
            indexes[kill["family"]].append(kill["index"])
    lowest, highest = 1e-6, 1e6
    turns: dict[str, float] = {}
    for _ in range(_PASSES):
        worth = sqrt(lowest * highest)
        turns = {name: _worth(indexes[name], worth / sqrt(cost)) for name, cost in costs.items()}
        if sum(turns.values()) > ROUND:
            highest = worth
        else:
            lowest = worth
    most = {name: max(round(turns[name]), LEAST.get(name, 1)) for name in sorted(turns)}
    return {name: own for name, own in most.items() if own > 1}


def _worth(indexes: Sequence[int], factor: float) -> float:
    """Return the turns of a family: the t with t = factor x sum of i / (t + i), and one at least."""
    turns = 1.0
    for _ in range(_PASSES):
        wanted = factor * sum([index / (turns + index) for index in indexes])
        turns = (turns + max(1.0, wanted)) / 2
    return turns


def main() -> None:
    """Write the file anew."""
    turns = turns_by(recorded_kills(), {name: cost_of(name) for name in family_names()})
    TURNS.write_text(json.dumps(turns, indent=1) + "\n", encoding="utf-8")
    print(f"{TURNS}: {len(turns)} families have several turns")


if __name__ == "__main__":
    main()
