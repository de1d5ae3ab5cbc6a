"""The oracle of visit_previews goes along the firings of a visit: which may follow each other."""

from __future__ import annotations

import pytest

from onceproof.harness.model.family import Declared
from onceproof.scenarios.visit_previews import expected

# Firings are due at 15, at 30, then every 15 ms to the end of the visit so far: 41 ms behind its last click.
RECORDS = {"part-0": ((0, ("ada", 1)), (20, ("ada", 2)), (36, ("ada", 4)))}
ONE = (41, 1, 1)
TWO = (61, 2, 3)
ALL = (77, 3, 7)


def rows(*firings):
    return [("part-0", "ada", 0, *firing) for firing in firings]


@pytest.mark.parametrize(
    "firings",
    [
        # Due at 15, 30, 45, 60, 75 and at the end, 76.
        [ONE, TWO, ALL, ALL, ALL, ALL],
        [ALL] * 6,
        [TWO, TWO, ALL, ALL, ALL, ALL],
    ],
)
def test_firings_that_follow_each_other_are_possible(firings):
    assert sorted(expected(RECORDS, Declared(rows(*firings), is_whole=True))) == sorted(rows(*firings))


@pytest.mark.parametrize(
    "firings",
    [
        [],
        [ALL],
        [ONE, TWO, ALL, ALL, ALL],
        [ONE, TWO, ALL, ALL, ALL, ALL, ALL],
        # At 30 the click at 20 is in the visit.
        [ONE, ONE, ALL, ALL, ALL, ALL],
        [ONE, TWO, ALL, ALL, ALL, (77, 3, 8)],
        [ONE, TWO, ALL, ALL, ALL, (78, 3, 7)],
    ],
)
def test_firings_that_lack_one_or_have_one_too_many_are_not(firings):
    assert expected(RECORDS, Declared(rows(*firings), is_whole=True)) == rows(ALL)


def test_before_the_end_the_first_firings_are_enough():
    assert expected(RECORDS, Declared(rows(ONE, TWO), is_whole=False)) == rows(ONE, TWO)
    assert expected(RECORDS, Declared(rows(ONE, ONE), is_whole=False)) == rows(ALL)
