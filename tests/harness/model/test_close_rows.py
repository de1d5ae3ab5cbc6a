"""Which visible row stands for which expected one, where numbers may differ a little."""

from __future__ import annotations

from decimal import Decimal

import pytest

from onceproof.harness.model.close_rows import forms_of, lacks_rows, nearest_row
from onceproof.harness.model.columns import Amounts, Comparison, Comparisons
from onceproof.harness.model.history import Row


def within(amounts: Amounts) -> Comparisons:
    """Return how rows of an only output are compared."""
    return Comparisons({"": Comparison((), amounts, None)})


@pytest.mark.parametrize(
    ("expected", "visible", "is_close"),
    [
        (1.0, 1.0 + 1e-10, True),
        (1.0, 1.0 + 1e-8, False),
        # By this part of a large number, and by this much of a small one.
        (1e12, 1e12 + 100, True),
        (0.0, 1e-10, True),
        (5, 5.0, True),
        (10**12, 10**12 + 1, False),
        (0.3, Decimal("0.3"), True),
        (float("nan"), float("nan"), True),
        (float("inf"), float("inf"), True),
        (float("inf"), -float("inf"), False),
        (1.0, None, False),
        (True, 1.0 + 1e-10, False),
        ("2026-01-01T00:00:00.1", "2026-01-01T00:00:00.1", True),
        ("2026-01-01T00:00:00.1", "2026-01-01T00:00:00.10", False),
    ],
)
def test_numbers_are_close_by_a_tolerance(expected: object, visible: object, is_close: bool) -> None:
    assert lacks_rows({("ant", expected): 1}, [("ant", visible)], within({1: 1e-9})) is not is_close


def test_columns_without_a_tolerance_are_compared_exactly() -> None:
    assert lacks_rows({(0.3, 0.3): 1}, [(0.1 + 0.2, 0.3)], within({1: 1e-9}))
    assert not lacks_rows({(0.3, 0.3): 1}, [(0.3, 0.1 + 0.2)], within({1: 1e-9}))


@pytest.mark.parametrize("visible", [[(0.4,), (0.8,)], [(0.8,), (0.4,)]])
def test_as_many_rows_as_possible_are_paired(visible: list[Row]) -> None:
    # The nearest row of 0.4 is that of which 0.8 is the only one.
    expected = {(0.0,): 1, (0.45,): 1}
    assert forms_of(expected, visible, within({0: 0.42}).amounts_of) == {(0.4,): [(0.0,)], (0.8,): [(0.45,)]}


def test_two_columns_with_a_tolerance_need_a_chain_of_exchanges() -> None:
    expected: dict[Row, int] = {(0.0, 0.0): 1, (0.3, 0.3): 1, (0.6, 0.0): 1}
    visible: list[Row] = [(0.1, 0.1), (0.3, 0.1), (0.2, 0.2)]
    amounts = {0: 0.31, 1: 0.31}
    forms = forms_of(expected, visible, within(amounts).amounts_of)
    assert sorted(form for those in forms.values() for form in those) == sorted(expected)
    assert not lacks_rows(expected, visible, within(amounts))


def test_equal_rows_stand_for_different_expected_ones() -> None:
    assert forms_of({(0.4,): 1, (0.6,): 1}, [(0.5,), (0.5,)], within({0: 0.2}).amounts_of) == {
        (0.5,): [(0.4,), (0.6,)]
    }


def test_a_row_too_many_stands_for_the_nearest_once_more() -> None:
    expected: dict[Row, int] = {("ant", 0.3): 1, ("bee", 0.3): 1}
    seen: list[Row] = [("ant", 0.3), ("ant", 0.1 + 0.2), ("cat", 0.3)]
    forms = forms_of(expected, seen, within({1: 1e-9}).amounts_of)
    assert [form for those in forms.values() for form in those].count(("ant", 0.3)) == 2
    assert forms["cat", 0.3] == [("cat", 0.3)]
    assert lacks_rows(expected, seen, within({1: 1e-9}))


def test_the_nearest_known_row_is_taken() -> None:
    assert nearest_row((0.50,), [(0.4,), (0.55,)], {0: 0.2}) == (0.55,)
    assert nearest_row((0.50,), [(0.9,), (0.5, 1)], {0: 0.2}) == (0.50,)


def test_each_output_has_its_own_tolerance() -> None:
    outputs = {"means": Comparison((), {1: 1e-9}, None), "sums": Comparison((), {}, None)}
    expected: dict[Row, int] = {("means", 0.3): 1, ("sums", 0.3): 1}
    assert not lacks_rows(expected, [("means", 0.1 + 0.2), ("sums", 0.3)], Comparisons(outputs))
    assert lacks_rows(expected, [("means", 0.3), ("sums", 0.1 + 0.2)], Comparisons(outputs))


def test_a_thousand_rows_of_one_key_are_matched() -> None:
    expected: dict[Row, int] = {(float(number),): 1 for number in range(1000)}
    visible: list[Row] = [(number + 0.4,) for number in reversed(range(1000))]
    assert not lacks_rows(expected, visible, within({0: 0.45}))
