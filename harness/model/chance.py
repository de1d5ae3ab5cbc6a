"""Random draws that are the same on every machine and in every Python version.

The rules this module lives by:

- Every draw goes through ``random.Random(seed).random()``, the one method whose results Python promises to
  keep. ``randint``, ``choice`` and ``shuffle`` have changed between versions and may change again; then a
  seed in last year's report would give another scenario.
- One draw costs one call of ``random()``, whatever it returns: a reader can count the draws of a generator,
  and an unneeded draw can be made all the same, to keep the later ones in place.
- Among kinds of faults and patterns, each name has a seed of its own, and the best tickets win: a further
  name changes nothing but the draws that it wins.
- Derived seeds come from SHA-256 over names and numbers, never from adding to another seed: the shards of two
  campaigns must not overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from random import Random
from struct import Struct
from typing import TypeVar

Item = TypeVar("Item")
Named = TypeVar("Named", bound="str | Callable[..., object]")

BOUNDARIES = 0.3
"""The share of values that are drawn at a boundary on purpose."""

TICKETS = 2**32
_TICKETS_OF_WEIGHT = [Struct(f">{weight}I") for weight in range(9)]
"""A name has as many tickets as its weight, up to 8, all from one SHA-256."""

SEED_LIMIT = 10**13
"""Derived seeds stay below this: thirteen digits are short enough to type."""


class Chance:
    """Draws over one stream of random numbers."""

    __slots__ = ("unit",)

    def __init__(self, random: Random) -> None:
        # Bound once: it is called some two hundred times for each scenario.
        self.unit = random.random
        """A float in [0, 1)."""

    def integer(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included."""
        return low + int(self.unit() * (high - low + 1))

    def choice(self, items: Sequence[Item]) -> Item:
        """Return one of the items, each as likely as the others."""
        return items[int(self.unit() * len(items))]

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.unit() < probability

    def weighted(self, items: Sequence[tuple[Item, int]]) -> Item:
        """Return one of the items; each comes with a weight, a whole number."""
        point = self.unit() * sum(weight for _, weight in items)
        for item, weight in items:
            point -= weight
            if point < 0:
                return item
        return items[-1][0]

    def at_boundary(self, value: int, size: int) -> int:
        """Return the value, or in three of ten draws one at a multiple of ``size`` that is not less.

        That one is the next multiple, or 1 before or after it: where a window ends, a timer is due, a limit
        is reached. Values that are drawn in ascending order stay in order.
        """
        draw = self.unit()
        if draw >= BOUNDARIES:
            return value
        multiple = -(-value // size) * size
        return max(value, multiple + int(draw / BOUNDARIES * 3) - 1)

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return count different items, in the order of the given ones."""
        kept = []
        wanted = min(count, len(items))
        for index, item in enumerate(items):
            # The chance of each item is the number still wanted over the number still to come.
            if self.unit() * (len(items) - index) < wanted:
                kept.append(item)
                wanted -= 1
        return kept


class Lots:
    """Draws by name, each from a seed of its own that is derived from one draw of a stream and the name.

    A function has the name that it is defined with: under another one it draws something else.
    """

    __slots__ = ("_draw",)

    def __init__(self, chance: Chance) -> None:
        self._draw = b"%d " % int(chance.unit() * 2**53)

    def first(self, weights: Mapping[Named, int]) -> Named:
        """Return one of the names. A further name changes the draw only where it is the one returned."""
        return self.ranked(weights)[0]

    def ranked(self, weights: Mapping[Named, int]) -> list[Named]:
        """Return the names ordered by their best tickets; a name without a weight has none.

        A name comes first as often as its weight says, and a further name leaves the others in their order.
        """
        best = {
            name: max(_TICKETS_OF_WEIGHT[weight].unpack_from(self._digest(name)))
            for name, weight in weights.items()
            if weight
        }
        return sorted(best, key=best.__getitem__, reverse=True)

    def chance(self, name: str, probability: float) -> bool:
        """Return True with the given probability, whatever is drawn for other names."""
        (ticket,) = _TICKETS_OF_WEIGHT[1].unpack_from(self._digest(name))
        return bool(ticket < probability * TICKETS)

    def stream(self, name: str | Callable[..., object]) -> Chance:
        """Return the stream of a name."""
        return Chance(Random(int.from_bytes(self._digest(name)[:8], "big")))

    def _digest(self, name: str | Callable[..., object]) -> bytes:
        return sha256(self._draw + (name if isinstance(name, str) else name.__name__).encode()).digest()


def derived_seed(*parts: str | int) -> int:
    """Return a seed derived from the parts, such as names and numbers of a scenario in a campaign."""
    text = "\n".join(f"{type(part).__name__} {part}" for part in parts)
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") % SEED_LIMIT
