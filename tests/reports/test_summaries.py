"""Differences between rows, and distributions of values."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from onceproof.harness.checkers.exactly_once import classify_rows
from onceproof.reports.summaries import distribution, row_differences


def marks(expected, actual):
    return [(row.mark, row.expected, row.actual, row.times) for row in row_differences(expected, actual)]


def test_row_differences_distinguish_lost_duplicated_phantom_and_wrong_value():
    expected = [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
    actual = [("a", 1), ("a", 1), ("a", 1), ("b", 7), ("z", 9)]
    assert marks(expected, actual) == [
        ("duplicated", ("a", 1), ("a", 1), 2),
        ("lost", ("a", 2), None, 1),
        ("wrong value", ("b", 1), ("b", 7), 1),
        ("lost", ("c", 1), None, 1),
        ("phantom", None, ("z", 9), 1),
        ("equal", ("a", 1), ("a", 1), 1),
    ]


def test_surplus_row_without_a_missing_partner_is_a_phantom():
    assert marks([("a", 1)], [("a", 1), ("a", 2)])[0] == ("phantom", None, ("a", 2), 1)


def test_row_marks_equal_the_anomalies_of_the_checker():
    """The page uses the same word for a row as the checker for its violation."""
    for expected, actual in (
        ([("a", 1)], [("a", 1), ("a", 2)]),
        ([("a", 1)], [("a", 2)]),
        ([("a", 1), ("b", 1)], [("a", 1), ("a", 1)]),
        ([(1,)], [(2,)]),
        ([(1,)], [(1,), (2,)]),
    ):
        marked = classify_rows(Counter(expected), Counter(actual), finished=True)
        found = {anomaly for anomaly, rows in marked if rows}
        assert {row[0] for row in marks(expected, actual)} - {"equal"} == found


def test_rows_of_mixed_types_can_be_ordered():
    assert len(marks([(None, 1), ("x", 1), (3, 1), (True, "y")], [])) == 4


rows = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=8)


@given(rows, rows)
def test_row_differences_account_for_all_rows(expected, actual):
    wanted, found = Counter(), Counter()
    for row in row_differences(expected, actual, equal_limit=100):
        if row.mark == "duplicated":
            found[row.actual] += row.times
            continue
        if row.expected is not None:
            wanted[row.expected] += row.times
        if row.actual is not None:
            found[row.actual] += row.times
    assert wanted == Counter(expected)
    assert found == Counter(actual)


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=200))
def test_each_value_lies_in_exactly_one_bin(values):
    made = distribution("steps", "steps", Counter(values))
    assert sum(one.count for one in made.bins) == made.count == len(values)
    assert made.bins[0].low <= made.minimum
    assert made.maximum <= made.bins[-1].high
    assert len(made.bins) <= 30
    assert made.minimum <= made.lower_quartile <= made.median <= made.upper_quartile <= made.percentile_95
    assert made.percentile_95 <= made.maximum


def test_distribution_of_one_value_and_of_no_values():
    made = distribution("steps", "steps", {7: 3})
    assert (made.minimum, made.median, made.maximum) == (7, 7, 7)
    assert [one.count for one in made.bins] == [3]
    assert distribution("steps", "steps", {}) is None
    assert distribution("seconds", "s", {0.25: 1}).bins[0].count == 1
