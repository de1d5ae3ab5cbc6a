"""Records stay in their split, unless the original scenario shows that splits may exchange them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from onceproof.harness.checkers import Signature
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.shrinking.reductions import fewer_subtasks, fewer_values
from onceproof.harness.shrinking.shrinker import shrink
from onceproof.harness.shrinking.small_scope import small_scenarios
from onceproof.harness.shrinking.splits import exchanging_splits

Make = Callable[..., Scenario]
LOST: Signature = ("exactly_once", "lost")

# A split is a shop, as in the family of the docs: no value stands in two of them.
SHOPS = {
    "shop-0": tuple((time, ("shop-0", cents)) for time, cents in enumerate((3, 1, 4, 1))),
    "shop-1": tuple((time, ("shop-1", cents)) for time, cents in enumerate((5, 9, 2))),
    "shop-2": (),
}


def all_in_own_split(scenario: Scenario) -> bool:
    return all(value[0] == split for split, records in scenario.records.items() for _, value in records)  # type: ignore[index]


def test_splits_without_a_common_value_are_separate_groups(make_scenario: Make) -> None:
    found = make_scenario(records=SHOPS)
    assert exchanging_splits(found) == {"shop-0": "shop-0", "shop-1": "shop-1", "shop-2": "shop-2"}


def test_splits_linked_by_common_values_form_one_group(make_scenario: Make) -> None:
    records = {
        "a": ((0, "ant"),),
        "b": ((0, "bee"),),
        "c": ((0, "cat"), (1, "bee")),
        "d": ((0, "dog"),),
        "e": ((0, "cat"), (1, "ant")),
    }
    assert exchanging_splits(make_scenario(records=records)) == {
        "a": "a",
        "b": "a",
        "c": "a",
        "d": "d",
        "e": "a",
    }


def test_no_candidate_moves_a_record_between_groups(make_scenario: Make) -> None:
    found = make_scenario(records=SHOPS)
    candidates = [
        *fewer_subtasks(found),
        *fewer_values(found),
        *islice(small_scenarios(found), 300),
        *islice(small_scenarios(make_scenario(records={"shop-1": ()}), found), 100),
    ]
    assert all(map(all_in_own_split, candidates))
    assert any(len(scenario.records) == 2 and scenario.record_count() > 2 for scenario in candidates)


def test_splits_that_exchange_records_are_merged(make_scenario: Make) -> None:
    words = {"a": ((0, "ant"), (2, "bee")), "b": ((1, "bee"),), "c": ((3, "cat"),)}
    merged = {"a": ((0, "ant"), (1, "bee"), (2, "bee")), "c": ((3, "cat"),)}
    assert merged in [candidate.records for candidate in fewer_subtasks(make_scenario(records=words))]
    # The rest has no common value any more; the original scenario has one.
    left = make_scenario(records={"a": ((0, "ant"),), "b": ((1, "bee"),)})
    assert not [candidate for candidate in fewer_subtasks(left) if len(candidate.records) == 1]
    found = make_scenario(records=words)
    assert [candidate for candidate in fewer_subtasks(left, found) if len(candidate.records) == 1]


def test_a_failure_made_only_by_a_moved_record_is_refused(make_scenario: Make) -> None:
    """The oracle of such a family depends on splits, so it disagrees with the job on a moved record."""

    def fails(candidate: Scenario) -> Signature | None:
        enough = sum(value == ("shop-0", 1) for _, value in candidate.records.get("shop-0", ())) == 2
        return LOST if enough or not all_in_own_split(candidate) else None

    small = shrink(make_scenario(records=SHOPS), fails, LOST).scenario
    assert [value for _, value in small.records["shop-0"]] == [("shop-0", 1)] * 2
    assert small.record_count() == 2
