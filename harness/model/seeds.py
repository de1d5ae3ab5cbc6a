"""The scenarios of a run: the seed of each, derived from the run's seed.

The rules this module lives by:

- The seed of a scenario follows from the run's seed, the family's name and an index only: not from the number
  of workers, the other families, or the duration of the run. So a shorter run is the beginning of a longer
  one, and equal indexes of two families have nothing in common.
- It comes from SHA-256 over the three: runs of neighbouring seeds have no scenario in common.
- It fits a signed 64-bit column, because campaigns store it in one.
- In a round each family has its turns, one of them or several, which are spread over the round. More turns
  of a family change how many of its scenarios run, and not which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import Final, NamedTuple

LEAST_SEED = -(2**63)
LARGEST_SEED = 2**63 - 1
"""The seeds of runs are signed 64-bit numbers, those of scenarios the ones of 0 and more among them."""

CHECKED_TWICE = 64
"""One scenario in this many is run twice, to check that it gives the same trace."""

CONTINUED = 32
"""Of one scenario in this many, the checkpoints are examined, and one of them is restored."""


def scenario_seed(run_seed: int, family: str, index: int) -> int:
    """Return the seed of a family's scenario number ``index``, counted from 0."""
    digest = sha256(f"{run_seed}/{family}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@cache
def turn_order(turns: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the turns of a round, each as the family's index and the number of the turn among its own.

    ``turns`` has how many turns each family has. Those of a family are as far apart as they can be.
    """
    size = len(turns)
    places = [
        ((nth + (place + 0.5) / size) / own, place, nth)
        for place, own in enumerate(turns)
        for nth in range(own)
    ]
    return tuple([(place, nth) for _, place, nth in sorted(places)])


class Share(NamedTuple):
    """One of the parts into which several machines split a run: every ``of``-th round of its families."""

    of: int = 1
    first: int = 0

    def scenarios_in(self, scenarios: int, turns: int) -> int:
        """Return how many of a run's scenarios are in this part; a round has as many ``turns``."""
        rounds, rest = divmod(scenarios, turns)
        last = rest if rounds % self.of == self.first else 0
        return len(range(self.first, rounds, self.of)) * turns + last


WHOLE: Final = Share()


def numbered(
    run_seed: int,
    families: Sequence[str],
    first: int,
    count: int,
    share: Share = WHOLE,
    turns: Sequence[int] = (),
) -> Iterator[tuple[int, int]]:
    """Yield (index of the family, seed) of ``count`` scenarios of a run; its families take turns.

    Numbers count the scenarios of the share. A round belongs to one share, so that each share has all
    families. ``turns`` has how many of a round each family has; empty: one each.
    """
    order = turn_order(tuple(turns) or (1,) * len(families))
    own = Counter(place for place, _ in order)
    for number in range(first, first + count):
        rounds, turn = divmod(number, len(order))
        place, nth = order[turn]
        index = (rounds * share.of + share.first) * own[place] + nth
        yield place, scenario_seed(run_seed, families[place], index)


def is_checked_twice(seed: int | None) -> bool:
    """Return whether the scenario of a seed is run a second time; one without a seed is not."""
    return seed is not None and seed % CHECKED_TWICE == 0


def is_replayed(seed: int | None) -> bool:
    """Return whether the machines of a scenario are replayed through specifications; they are without a seed.

    Every other one: all of them would cost three tenths of a run. The lowest bit decides other things.
    """
    return seed is None or seed % 4 < 2


def is_continued(seed: int | None) -> bool:
    """Return whether a scenario's checkpoints are examined, by its seed; they are if it has none."""
    return seed is None or seed % CONTINUED == CONTINUED - 1
