"""Draws at boundaries: at a multiple or one beside it, and never less than asked."""

from __future__ import annotations

from collections import Counter
from random import Random

from onceproof.harness.model.chance import Chance


def test_three_of_ten_values_are_at_a_boundary_or_beside_it() -> None:
    chance = Chance(Random(1))
    drawn = Counter(chance.at_boundary(123, 100) for _ in range(10_000))
    assert set(drawn) == {123, 199, 200, 201}
    assert 0.68 < drawn[123] / 10_000 < 0.72
    assert all(0.09 < drawn[each] / 10_000 < 0.11 for each in (199, 200, 201))


def test_values_in_ascending_order_stay_in_order() -> None:
    chance = Chance(Random(2))
    now = -50
    for _ in range(1000):
        later = chance.at_boundary(now + chance.integer(0, 7), 10)
        assert later >= now
        now = later
