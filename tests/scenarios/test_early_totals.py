"""The oracle of early_totals: which firings of a window that is purged may follow each other."""

from __future__ import annotations

from typing import Any

import pytest

from onceproof.harness.model.family import Declared
from onceproof.scenarios.early_totals import PURGED, RUNNING, expected

WINDOW = ("part-0", "corner", 0)
WHOLE = (*WINDOW, 1, 3, 7)


def rows_of(form: str, *firings: tuple[int, int, int], is_whole: bool = True) -> Any:
    """Return the rows that follow from sales of 1, 2 and 4, if the run declares these firings."""
    records = {"part-0": [(time, ("corner", amount, form)) for time, amount in ((1, 1), (600, 2), (1999, 4))]}
    return expected(records, Declared([(*WINDOW, *firing) for firing in firings], is_whole=is_whole))


def test_a_purged_window_gives_each_sale_in_one_total() -> None:
    assert rows_of(PURGED, (1, 1, 1), (2, 2, 6)) == [(*WINDOW, 1, 1, 1), (*WINDOW, 2, 2, 6)]


def test_a_window_that_is_not_purged_gives_running_totals() -> None:
    assert rows_of(RUNNING, (1, 1, 1), (2, 3, 7)) == [(*WINDOW, 1, 1, 1), (*WINDOW, 2, 3, 7)]


@pytest.mark.parametrize(
    "firings",
    [
        pytest.param([(1, 1, 1), (2, 3, 7)], id="a-sale-is-in-two-totals"),
        pytest.param([(1, 1, 1), (2, 1, 2)], id="a-sale-is-in-no-total"),
        pytest.param([(1, 3, 7), (2, 0, 0)], id="a-total-of-nothing"),
        pytest.param([(1, 1, 1), (3, 2, 6)], id="a-firing-is-left-out"),
        pytest.param([(1, 1, 2), (2, 2, 5)], id="wrong-totals"),
        pytest.param([], id="no-total"),
    ],
)
def test_impossible_firings_of_a_purged_window_are_not_expected(firings: list[tuple[int, int, int]]) -> None:
    assert rows_of(PURGED, *firings) == [WHOLE]


def test_before_the_end_a_purged_window_may_have_given_some_totals() -> None:
    assert rows_of(PURGED, (1, 1, 1), is_whole=False) == [(*WINDOW, 1, 1, 1)]
