"""Records stay in their split, unless the scenario that was found shows that splits exchange them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from onceproof.harness.checkers import Signature
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.shrinking.reductions import fewer_subtasks, plainer_values
from onceproof.harness.shrinking.shrinker import shrink
from onceproof.harness.shrinking.small_scope import small_scenarios
from onceproof.harness.shrinking.splits import exchanging_splits

Make = Callable[..., Scenario]
LOST: Signature = ("exactly_once", "lost")

# A split is a shop, as in the README: no value stands in two of them.
SHOPS = {
    "shop-0": tuple((time, ("shop-0", cents)) for time, cents in enumerate((3, 1, 4, 1))),
    "shop-1": tuple((time, ("shop-1", cents)) for time, cents in enumerate((5, 9, 2))),
    "shop-2": (),
}


def is_at_home(scenario: Scenario) -> bool:
    return all(value[0] == split for split, records in scenario.records.items() for _, value in records)  # type: ignore[index]


def test_splits_without_a_value_in_common_are_strangers(make_scenario: Make) -> None:
    found = make_scenario(records=SHOPS)
    assert exchanging_splits(found) == {"shop-0": "shop-0", "shop-1": "shop-1", "shop-2": "shop-2"}


def test_a_value_in_common_is_a_sign_and_signs_add_up(make_scenario: Make) -> None:
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


def test_no_candidate_moves_a_record_between_strangers(make_scenario: Make) -> None:
    found = make_scenario(records=SHOPS)
    candidates = [
        *fewer_subtasks(found),
        *plainer_values(found),
        *islice(small_scenarios(found), 300),
        *islice(small_scenarios(make_scenario(records={"shop-1": ()}), found), 100),
    ]
    assert all(map(is_at_home, candidates))
    assert any(len(scenario.records) == 2 and scenario.record_count() > 2 for scenario in candidates)


def test_splits_that_exchange_records_become_one(make_scenario: Make) -> None:
    words = {"a": ((0, "ant"), (2, "bee")), "b": ((1, "bee"),), "c": ((3, "cat"),)}
    merged = {"a": ((0, "ant"), (1, "bee"), (2, "bee")), "c": ((3, "cat"),)}
    assert merged in [candidate.records for candidate in fewer_subtasks(make_scenario(records=words))]
    # What is left shows no sign any more; the scenario that was found does.
    left = make_scenario(records={"a": ((0, "ant"),), "b": ((1, "bee"),)})
    assert not [candidate for candidate in fewer_subtasks(left) if len(candidate.records) == 1]
    found = make_scenario(records=words)
    assert [candidate for candidate in fewer_subtasks(left, found) if len(candidate.records) == 1]


def test_what_only_a_moved_record_would_make_fail_is_no_smaller_failure(make_scenario: Make) -> None:
    """A family whose oracle goes by splits disagrees with its own job on a record in a foreign split."""

    def fails(candidate: Scenario) -> Signature | None:
        enough = sum(value == ("shop-0", 1) for _, value in candidate.records.get("shop-0", ())) == 2
        return LOST if enough or not is_at_home(candidate) else None

    small = shrink(make_scenario(records=SHOPS), fails, LOST, limit_seconds=60).scenario
    assert [value for _, value in small.records["shop-0"]] == [("shop-0", 1)] * 2
    assert small.record_count() == 2
