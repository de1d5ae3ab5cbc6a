"""state_equivalence: the state of two checkpoints, compared key group by key group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from onceproof.harness.checkers.state_equivalence import (
    CheckpointState,
    StateAddress,
    WholeContent,
    check_backends,
    check_equivalence,
)
from onceproof.harness.explanation.sentences import sentence_of

COUNT: StateAddress = ("count", "total", 3)
TIMER: StateAddress = ("count", "_timer_state/event_user", 3)


def anomalies(
    here: Mapping[StateAddress, list[str]],
    there: Mapping[StateAddress, list[str]],
    progress: tuple[Any, Any] = ((7,), (7,)),
) -> list[str]:
    kept, undisturbed = (
        CheckpointState(
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
    ("here", "there", "expected"),
    [
        ({}, {COUNT: ["a 1"]}, ["missing entry"]),
        ({COUNT: ["a 1"], TIMER: ["a at 9"]}, {COUNT: ["a 1"]}, ["surplus entry"]),
        ({COUNT: ["a 1"]}, {COUNT: ["a 2"]}, ["other value"]),
        ({COUNT: ["a 1"]}, {TIMER: ["a at 9"]}, ["missing entry", "surplus entry"]),
        ({COUNT: ["a 1", "a 1"]}, {COUNT: ["a 1"]}, ["surplus entry"]),
    ],
)
def test_missing_surplus_and_different_entries_are_distinguished(
    here: Mapping[StateAddress, list[str]], there: Mapping[StateAddress, list[str]], expected: list[str]
) -> None:
    assert anomalies(here, there) == expected


def test_an_operator_with_another_event_time_is_not_compared() -> None:
    assert anomalies({TIMER: ["a at 9"]}, {}, ((7,), (12,))) == []
    assert anomalies({TIMER: ["a at 9"]}, {}, (None, None)) == ["surplus entry"]


def of_two_stages(entries: list[str], progress: Mapping[str, Any]) -> CheckpointState:
    upstream = {"closed": frozenset[str](), "count": frozenset({"closed"})}
    return CheckpointState({COUNT: Counter(entries)}, progress, upstream)


def test_an_operator_is_compared_only_if_its_upstream_timers_are() -> None:
    def expected(here: Mapping[str, Any], there: Mapping[str, Any]) -> int:
        kept, undisturbed = of_two_stages(["a 1"], here), of_two_stages([], there)
        return len(check_equivalence(5, {"words": 2}, kept, undisturbed))

    equally_far = {"closed": (7,), "count": (7,)}
    assert expected(equally_far, equally_far) == 1
    assert expected({"closed": (9,), "count": (7,)}, equally_far) == 0
    # At its end it is not compared itself.
    assert expected({"count": (7,)}, equally_far) == 0
    assert expected(equally_far, {"count": (7,)}) == 0


def test_all_of_a_checkpoint_is_compared_with_the_other_backend() -> None:
    here = WholeContent({COUNT: Counter(["a 1"]), TIMER: Counter(["a at 9"])})
    there = WholeContent({COUNT: Counter(["a 1"]), TIMER: Counter(["a at 8"])})
    assert not check_backends(5, {"words": 2}, here, here, "hashmap")
    [violation] = check_backends(5, {"words": 2}, here, there, "hashmap")
    assert (violation.property, violation.anomaly) == ("state_equivalence", "other value")
    assert sentence_of(violation) == (
        "Checkpoint 5 differs from the same run on the backend hashmap: state _timer_state/event_user of"
        " count in key group 3 has an extra a at 9 and no a at 8."
    )


def test_what_follows_from_order_or_chance_is_not_compared_across_backends() -> None:
    here, there = WholeContent({COUNT: Counter(["a 1"])}), WholeContent({}, frozenset({"count"}))
    assert not check_backends(5, {"words": 2}, here, there, "rocksdb")
    assert not check_backends(5, {"words": 2}, here, WholeContent({}), "rocksdb", {("count", "total")})
    assert check_backends(5, {"words": 2}, here, WholeContent({}), "rocksdb", {("count", "other")})
