"""The families with two streams: rows by hand, what a run may declare, and that a correct engine passes."""

from __future__ import annotations

from typing import Any

import pytest

from onceproof.engine.connectors.collection import CollectionSource
from onceproof.harness.model.family import NOTHING_DECLARED, Declared
from onceproof.scenarios import behaviour_patterns, flight_delays, full_join, interval_join
from onceproof.scenarios._streams import StreamSource, part_of
from onceproof.scenarios.flight_delays import BOUND_MS, DAY_MS
from tests.scenarios.asking import asked
from tests.scenarios.passing_runs import passing_runs

FAMILIES = ("behaviour_patterns", "flight_delays", "full_join", "interval_join")


def declaring(*rows: tuple[Any, ...]) -> Declared:
    return Declared(rows)


def so_far(*rows: tuple[Any, ...]) -> Declared:
    return Declared(rows, is_whole=False)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_sound_engine_passes_and_gives_rows_after_rescales(name: str) -> None:
    has_late_rows = name in ("flight_delays", "interval_join")
    transactions, rescales = passing_runs(name, 60 if has_late_rows else 20)
    assert sum(map(len, transactions)) > 50
    assert rescales > 1
    if has_late_rows:
        assert "late" in {row[0] for rows in transactions for row in rows}


def test_a_stream_reads_the_splits_that_are_named_for_it() -> None:
    splits = {"orders-0": [(1, 0)], "payments-0": [(2, 0)], "orders-1": [], "order-2": []}
    source = StreamSource(CollectionSource(splits), "orders")
    assert sorted(source.splits()) == ["orders-0", "orders-1"]
    assert source.open_split("orders-0", None).read(5) == [(1, 0)]
    assert sorted(part_of(dict.fromkeys(splits, ()), "payments")) == ["payments-0"]


# A full join.


def test_every_order_of_a_customer_is_paired_with_every_payment() -> None:
    records = {
        "orders-0": [(0, ("ann", 1)), (1, ("bob", 2)), (2, ("ann", 3))],
        "payments-0": [(0, ("ann", 4)), (1, ("cid", 5))],
        "payments-1": [(0, ("bob", 6)), (0, ("bob", 7))],
    }
    rows = full_join.expected(records, NOTHING_DECLARED)
    assert sorted(rows) == [("ann", 1, 4), ("ann", 3, 4), ("bob", 2, 6), ("bob", 2, 7)]


# Patterns of behaviour.

ACTIONS = {
    "actions-0": [(0, ("ann", "login")), (1, ("ann", "pay")), (2, ("bob", "login")), (3, ("ann", "login"))],
    "patterns-0": [(0, ("login", "pay")), (1, ("pay", "login"))],
}


def judged(place: int, action: str, pattern: int, is_match: bool, then: str) -> tuple[Any, ...]:
    return "actions-0", "ann", place, action, pattern, is_match, then


def test_actions_are_judged_by_the_declared_patterns() -> None:
    rows = [
        judged(1, "login", 0, False, ""),
        judged(2, "pay", 1, True, "pay"),
        judged(3, "login", 2, True, "login"),
    ]
    bob = ("actions-0", "bob", 1, "login", 1, False, "pay")
    assert sorted(behaviour_patterns.expected(ACTIONS, declaring(*rows, bob))) == sorted([*rows, bob])
    unsaid = behaviour_patterns.expected(ACTIONS, NOTHING_DECLARED)
    assert {row[4:] for row in unsaid} == {(0, False, "")}


@pytest.mark.parametrize(
    "rows",
    [
        [judged(1, "login", 2, False, "login"), judged(2, "pay", 1, True, "pay")],
        [judged(2, "pay", 1, False, "pay")],
        [judged(2, "pay", 3, False, "login")],
        [judged(3, "login", 1, True, "pay")],
        [judged(4, "login", 1, False, "pay")],
        [judged(1, "login", None, False, "")],  # type: ignore[arg-type]
    ],
    ids=["an older pattern", "a match unseen", "no such pattern", "no match", "no such action", "null"],
)
def test_a_judgement_that_cannot_be_is_not_expected(rows: list[tuple[Any, ...]]) -> None:
    assert rows[-1] not in behaviour_patterns.expected(ACTIONS, declaring(*rows))


def test_no_action_is_judged_by_a_pattern_behind_the_cut() -> None:
    cut = {**ACTIONS, "patterns-0": ACTIONS["patterns-0"][:1]}
    row = judged(3, "login", 2, True, "login")
    assert row in behaviour_patterns.expected(ACTIONS, so_far(row))
    assert row not in behaviour_patterns.expected(cut, so_far(row))


# An interval join.


def pair(at: int, order: int, click: int, user: str = "ann") -> tuple[Any, ...]:
    return "pair", user, at, order, click


def test_clicks_from_five_seconds_before_to_two_after_an_order_are_its_partners() -> None:
    records = {
        "orders-0": [(10_000, ("ann", 1)), (10_000, ("bob", 2))],
        "clicks-0": [(4_999, ("ann", 3)), (5_000, ("ann", 4)), (12_000, ("ann", 5)), (12_001, ("ann", 6))],
    }
    assert sorted(interval_join.expected(records, NOTHING_DECLARED)) == [
        pair(10_000, 1, 4),
        pair(12_000, 1, 5),
    ]


BEHIND = {
    "orders-0": [(10_000, ("ann", 1))],
    "clicks-0": [(60_000, ("ann", 2)), (10_000, ("ann", 3)), (57_999, ("ann", 4))],
}
"""The watermark after 60,000 is 57,999."""


def test_a_record_behind_its_watermark_may_be_late_or_have_its_partner() -> None:
    late, met = ("late", "ann", 10_000, 3, 0), pair(10_000, 1, 3)
    assert asked(interval_join, BEHIND, late) == [late]
    assert asked(interval_join, BEHIND, met) == [met]
    assert asked(interval_join, BEHIND) == [met]
    assert met not in asked(interval_join, BEHIND, late, met)
    # A record at the watermark is not late, nor is the one that came first.
    for in_time in (
        ("late", "ann", 57_999, 4, 0),
        ("late", "ann", 60_000, 2, 0),
        ("late", "ann", 10_000, 1, 0),
    ):
        assert in_time not in asked(interval_join, BEHIND, in_time)
    in_order = {**BEHIND, "clicks-0": BEHIND["clicks-0"][1:2]}
    assert asked(interval_join, in_order, late) == [met]


def test_a_record_may_miss_a_partner_that_was_removed_before_the_restore() -> None:
    met = pair(10_000, 1, 3)
    assert asked(interval_join, BEHIND, resumed_at={"orders-0": 1, "clicks-0": 1}) == []
    assert asked(interval_join, BEHIND, resumed_at={"orders-0": 1}) == [met]
    near = {**BEHIND, "clicks-0": [(14_000, ("ann", 2)), (10_000, ("ann", 3))]}
    # The watermark is at 11,999, and the order waits up to 12,000.
    assert asked(interval_join, near, resumed_at={"orders-0": 1, "clicks-0": 1}) == [met]


def test_a_record_at_the_watermark_may_miss_a_partner_that_this_removes() -> None:
    clicks = [(14_001, ("ann", 2)), (12_000, ("ann", 3))]
    # The watermark is at 12,000: the click is not late, and the order waits no longer.
    assert asked(interval_join, {**BEHIND, "clicks-0": clicks}) == []
    clicks[0] = (14_000, ("ann", 2))
    assert asked(interval_join, {**BEHIND, "clicks-0": clicks}) == [pair(12_000, 1, 3)]
    clicks = [(20_000, ("ann", 2)), (11_999, ("ann", 3))]
    assert asked(interval_join, {**BEHIND, "clicks-0": clicks}) == [pair(11_999, 1, 3)]


# Delays of flights.

NOON = DAY_MS + DAY_MS // 2
FLIGHTS = {
    "airlines-0": [(0, ("AA", None, None, "American"))],
    "flights-EWR": [
        (NOON, ("AA", 1, 30, None)),
        (NOON + 1, ("UA", 2, 10, None)),
        (NOON + 2, ("AA", 3, None, None)),
        (NOON + 3, ("AA", 4, -5, None)),
        (NOON + DAY_MS + BOUND_MS, ("AA", 5, 0, None)),
        (NOON + 4, ("AA", 6, 800, None)),
    ],
    "flights-JFK": [(NOON, ("AA", 7, 1, None))],
}
FIRST_DAY = ("day", "EWR American", DAY_MS, "1,3,4", 25, 30)
NEXT_DAY = ("day", "EWR American", 2 * DAY_MS, "5", 0, 0)
AT_JFK = ("day", "JFK American", DAY_MS, "7", 1, 1)
LATE_FLIGHT = ("late", "EWR AA", NOON + 4, "6", 0, 0)


def test_delays_are_added_up_per_airport_airline_and_day_where_the_name_is_known() -> None:
    rows = [FIRST_DAY, NEXT_DAY, AT_JFK, LATE_FLIGHT]
    assert sorted(asked(flight_delays, FLIGHTS, *rows)) == sorted(rows)
    in_time = ("day", "EWR American", DAY_MS, "1,3,4,6", 825, 800)
    assert sorted(asked(flight_delays, FLIGHTS)) == sorted([in_time, NEXT_DAY, AT_JFK])


def test_a_late_flight_may_open_its_day_again_after_a_restore() -> None:
    again = ("day", "EWR American", DAY_MS, "6", 800, 800)
    rows = [FIRST_DAY, again, NEXT_DAY, AT_JFK]
    resumed_at = {"airlines-0": 1, "flights-EWR": 5}
    assert sorted(asked(flight_delays, FLIGHTS, *rows, resumed_at=resumed_at)) == sorted(rows)
    for resumed_at in ({}, {"airlines-0": 1, "flights-EWR": 4}):
        # No watermark before the restore was far enough for the day to be over.
        assert again not in asked(flight_delays, FLIGHTS, *rows, resumed_at=resumed_at)
    assert again not in asked(flight_delays, FLIGHTS, *rows)


def test_a_flight_whose_day_is_not_over_is_not_late_though_its_airline_is_unknown() -> None:
    flights = FLIGHTS["flights-EWR"]
    behind = (NOON + 4, ("UA", 6, 800, None))
    late = ("late", "EWR UA", NOON + 4, "6", 0, 0)
    nameless = {"airlines-0": [], "flights-EWR": [*flights[:5], behind]}
    assert asked(flight_delays, nameless, late) == [late]
    same_day = {"airlines-0": [], "flights-EWR": [(NOON + 2 * BOUND_MS, flights[0][1]), behind]}
    assert asked(flight_delays, same_day, late) == []


def test_a_name_is_never_late() -> None:
    named = {"airlines-0": [(NOON, ("AA", None, None, "American")), (0, ("UA", None, None, "United"))]}
    late = ("late", " UA", 0, "None", 0, 0)
    assert late not in asked(flight_delays, {**FLIGHTS, **named}, late)


def test_before_the_end_a_day_may_be_out_or_not() -> None:
    assert asked(flight_delays, FLIGHTS, is_whole=False) == []
    rows = [FIRST_DAY, LATE_FLIGHT]
    assert sorted(asked(flight_delays, FLIGHTS, *rows, is_whole=False)) == rows
    # A late flight that was read before an aligned cut is there as a row of its own.
    assert asked(flight_delays, FLIGHTS, FIRST_DAY, is_whole=False) == []
    nameless = {**FLIGHTS, "airlines-0": []}
    assert asked(flight_delays, nameless, FIRST_DAY, is_whole=False) == []


@pytest.mark.parametrize(
    "rows",
    [
        [("day", "EWR American", DAY_MS, "1,3", 30, 30), ("day", "EWR American", DAY_MS, "4,6", 795, 800)],
        [("day", "EWR American", DAY_MS, "1,3,4", 26, 30), LATE_FLIGHT],
        [("day", "EWR American", DAY_MS, "3,1,4", 25, 30), LATE_FLIGHT],
        [FIRST_DAY],
        [FIRST_DAY, FIRST_DAY, LATE_FLIGHT],
        [("day", "EWR United", DAY_MS, "2", 10, 10)],
        [("day", "EWR American", DAY_MS, None, 25, 30), LATE_FLIGHT],
        [("late", "EWR AA", NOON, "1", 0, 0)],
    ],
    ids=["torn", "wrong sum", "unsorted", "lost", "twice", "no such airline", "null", "not late"],
)
def test_a_day_that_cannot_be_is_not_expected(rows: list[tuple[Any, ...]]) -> None:
    expected = asked(flight_delays, FLIGHTS, *rows, NEXT_DAY, AT_JFK)
    assert sorted(expected, key=str) != sorted([*rows, NEXT_DAY, AT_JFK], key=str)
