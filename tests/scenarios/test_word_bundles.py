"""Word count in bundles: the counts that a run may show, and those that it must."""

from __future__ import annotations

from onceproof.harness.model.family import NOTHING_DECLARED, Declared
from onceproof.scenarios import word_bundles

THREE = {"words-0": ((0, "ant"), (1, "bee")), "words-1": ((0, "ant"),)}


def test_the_whole_count_of_a_word_is_expected_whatever_is_declared() -> None:
    assert sorted(word_bundles.expected(THREE, NOTHING_DECLARED)) == [("ant", 2), ("bee", 1)]
    assert sorted(word_bundles.expected(THREE, Declared([("ant", 2)]))) == [("ant", 2), ("bee", 1)]


def test_a_count_on_the_way_is_the_runs_own_choice() -> None:
    declared = [("ant", 1), ("ant", 2), ("bee", 1)]
    assert sorted(word_bundles.expected(THREE, Declared(declared))) == declared


def test_a_count_that_cannot_be_and_one_that_is_there_twice_are_not_expected() -> None:
    declared = [
        ("ant", 3),
        ("ant", 0),
        ("ant", -1),
        ("ant", None),
        ("cat", 1),
        (None, 1),
        ("ant", 1),
        ("ant", 1),
    ]
    assert sorted(word_bundles.expected(THREE, Declared(declared))) == [("ant", 1), ("ant", 2), ("bee", 1)]


def test_nothing_is_held_back_at_a_cut() -> None:
    assert sorted(word_bundles.expected(THREE, Declared((), is_whole=False))) == [("ant", 2), ("bee", 1)]
