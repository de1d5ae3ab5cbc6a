"""Computes the turns of the built-in families: ``python -m tests.planted.turns`` writes their file.

Rules:

- The more processor time a family has, the sooner the bugs die that its scenarios kill. The sum of these
  times over all recorded kills is least when shares of the time are as the square roots of (what a scenario
  costs x how many scenarios the kills took).
- A kill counts for at most ``MOST_COUNTED`` scenarios, so that no single bug decides.
- Each family has at least one turn, and random jobs have ``OF_RANDOM_JOBS``: a bug that nobody has planted
  yet may need what only they do.
- A scenario's cost is measured on the machine that runs this command; only proportions count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from math import sqrt
from time import process_time
from typing import Final

from onceproof.harness.model.family_places import TURNS, family_names, load_family
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.trials.trial import scenario_of, try_scenario
from tests.planted.kills import SEED, Kill, recorded_kills

MOST_COUNTED: Final = 50
ROUND: Final = 190
"""About how many turns a round has, before each family is given one."""
MEASURED: Final = 24
"""How many scenarios of each family are measured."""
OF_RANDOM_JOBS: Final = 30


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
    taken: Counter[str] = Counter()
    for kill in kills.values():
        taken[kill["family"]] += min(kill["index"], MOST_COUNTED)
    weights = {name: sqrt(taken[name] / cost) for name, cost in costs.items()}
    unit = sum(weights.values()) / ROUND
    turns = {name: round(weight / unit) for name, weight in weights.items()}
    turns["random_job"] = max(turns.get("random_job", 0), OF_RANDOM_JOBS)
    return {name: own for name, own in sorted(turns.items()) if own > 1}


def main() -> None:
    """Write the file anew."""
    turns = turns_by(recorded_kills(), {name: cost_of(name) for name in family_names()})
    TURNS.write_text(json.dumps(turns, indent=1) + "\n", encoding="utf-8")
    print(f"{TURNS}: {len(turns)} families have several turns")


if __name__ == "__main__":
    main()
