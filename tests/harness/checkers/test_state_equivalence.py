"""state_equivalence: two holdings compared key group by key group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from onceproof.harness.checkers.state_equivalence import Holdings, Place, check_equivalence

COUNT: Place = ("count", "total", 3)
TIMER: Place = ("count", "_timer_state/event_user", 3)


def anomalies(
    here: Mapping[Place, list[str]],
    there: Mapping[Place, list[str]],
    progress: tuple[Any, Any] = ((7,), (7,)),
) -> list[str]:
    kept, undisturbed = (
        Holdings(
            {place: Counter(entries) for place, entries in entries.items()},
            {"count": reached},
            {"count": frozenset()},
        )
        for entries, reached in zip((here, there), progress, strict=True)
    )
    found = check_equivalence(5, {"words": 2}, kept, undisturbed)
    assert {(violation.property, violation.where) for violation in found} <= {
        ("state_equivalence", "checkpoint 5")
    }
    return sorted(violation.anomaly for violation in found)


def test_the_same_entries_in_another_order_are_equal() -> None:
    assert anomalies({COUNT: ["a 1", "b 2"]}, {COUNT: ["b 2", "a 1"]}) == []


@pytest.mark.parametrize(
    ("here", "there", "told"),
    [
        ({}, {COUNT: ["a 1"]}, ["missing entry"]),
        ({COUNT: ["a 1"], TIMER: ["a at 9"]}, {COUNT: ["a 1"]}, ["surplus entry"]),
        ({COUNT: ["a 1"]}, {COUNT: ["a 2"]}, ["other value"]),
        ({COUNT: ["a 1"]}, {TIMER: ["a at 9"]}, ["missing entry", "surplus entry"]),
        ({COUNT: ["a 1", "a 1"]}, {COUNT: ["a 1"]}, ["surplus entry"]),
    ],
)
def test_what_is_missing_what_is_too_much_and_what_differs_are_told_apart(
    here: Mapping[Place, list[str]], there: Mapping[Place, list[str]], told: list[str]
) -> None:
    assert anomalies(here, there) == told


def test_an_operator_in_which_time_had_come_less_far_is_not_compared() -> None:
    assert anomalies({TIMER: ["a at 9"]}, {}, ((7,), (12,))) == []
    assert anomalies({TIMER: ["a at 9"]}, {}, (None, None)) == ["surplus entry"]


def of_two_stages(entries: list[str], progress: Mapping[str, Any]) -> Holdings:
    upstream = {"closed": frozenset[str](), "count": frozenset({"closed"})}
    return Holdings({COUNT: Counter(entries)}, progress, upstream)


def test_what_reads_of_an_operator_with_timers_is_compared_where_that_one_is() -> None:
    def told(here: Mapping[str, Any], there: Mapping[str, Any]) -> int:
        kept, undisturbed = of_two_stages(["a 1"], here), of_two_stages([], there)
        return len(check_equivalence(5, {"words": 2}, kept, undisturbed))

    equally_far = {"closed": (7,), "count": (7,)}
    assert told(equally_far, equally_far) == 1
    assert told({"closed": (9,), "count": (7,)}, equally_far) == 0
    # At its end it is not compared itself.
    assert told({"count": (7,)}, equally_far) == 0
    assert told(equally_far, {"count": (7,)}) == 0
