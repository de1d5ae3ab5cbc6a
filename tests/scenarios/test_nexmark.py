"""The Nexmark queries as families: rows by hand, what a run may declare, and that a correct engine passes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from onceproof.harness.model.family import NOTHING_DECLARED, Declared, Records, options_of
from onceproof.harness.model.family_places import address_of, family_names, load_family
from onceproof.scenarios._event_time import with_progress
from onceproof.scenarios.nexmark import q0, q1, q2, q3, q4, q5, q7, q8, q11, q12
from onceproof.scenarios.nexmark._events import BOUND_MS, auctions_of, bids_of, people_of, value_of
from onceproof.scenarios.nexmark._generator import Auction, Bid, Person
from tests.scenarios.passing_runs import passing_runs, rows_after_a_rescale

FAMILIES = tuple(f"nexmark_q{number}" for number in (0, 1, 2, 3, 4, 5, 7, 8, 11, 12))

ANN = Person(1, "Ann", "Bend", "OR")
BOB = Person(2, "Bob", "Kent", "WA")


def bid(auction: int, bidder: int, price: int, channel: str = "Apple") -> Bid:
    return Bid(auction, bidder, price, channel, "url")


def records(*splits: list[tuple[int, Any]]) -> Records:
    return {
        f"events-{number}": [(time, value_of(event)) for time, event in split]
        for number, split in enumerate(splits)
    }


def test_a_query_is_found_by_the_name_of_its_module() -> None:
    names = [name for name in family_names() if name.startswith("nexmark")]
    assert names == sorted(FAMILIES)
    assert load_family("nexmark_q5") is q5
    assert address_of(q5) == "nexmark_q5"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_sound_engine_passes_and_gives_rows_after_rescales(name: str) -> None:
    transactions, _ = passing_runs(name, 12)
    assert sum(map(len, transactions)) > 4
    assert rows_after_a_rescale(name, 100)


@pytest.mark.parametrize("name", ["nexmark_q3", "nexmark_q5"])
def test_no_event_is_behind_the_watermark_of_its_split(name: str) -> None:
    behind = 0
    for seed in range(100):
        drawn = load_family(name).generate(Random(seed)).records
        for time, _, watermark in with_progress(drawn, BOUND_MS):
            assert time > watermark
            behind += time <= watermark + BOUND_MS
    assert behind > 250


def test_events_are_taken_apart_by_their_kind() -> None:
    opened = Auction(7, 1, 10, 100, 200, 5_000)
    for event, taking in ((ANN, people_of), (opened, auctions_of), (bid(7, 2, 300), bids_of)):
        for each in (people_of, auctions_of, bids_of):
            assert list(each(value_of(event))) == ([tuple(event)] if each is taking else [])


def test_bids_are_passed_through_converted_and_selected() -> None:
    drawn = records([(0, ANN), (1, bid(123, 2, 199))], [(2, bid(124, 1, 100, "Google"))])
    assert list(q0.expected(drawn, NOTHING_DECLARED)) == [
        ("Apple", "url", 123, 2, 199),
        ("Google", "url", 124, 1, 100),
    ]
    assert list(q1.expected(drawn, NOTHING_DECLARED)) == [("Apple", 123, 2, 177), ("Google", 124, 1, 89)]
    assert list(q2.expected(drawn, NOTHING_DECLARED)) == [("Apple", 123, 199)]


def test_sellers_nearby_are_paired_with_their_auctions_of_category_ten() -> None:
    auctions = [
        (0, Auction(7, 1, 10, 1, 2, 3)),
        (1, Auction(8, 1, 11, 1, 2, 3)),
        (2, Auction(9, 2, 10, 1, 2, 3)),
    ]
    drawn = records([*auctions, (5, BOB)], [(9, ANN)])
    assert q3.expected(drawn, NOTHING_DECLARED) == [("Ann", "Bend", "OR", 7)]


def test_what_auctions_went_for_is_averaged_over_two_windows_of_their_end() -> None:
    drawn = records(
        [(1_000, Auction(7, 1, 10, 1, 2, 6_000)), (1_000, Auction(8, 1, 10, 1, 2, 12_000))],
        [
            (999, bid(7, 2, 9_999)),
            (1_000, bid(7, 2, 100)),
            (6_000, bid(7, 2, 400)),
            (6_001, bid(7, 2, 9_999)),
        ],
        [(12_000, bid(8, 2, 201)), (12_000, bid(9, 2, 700))],
    )
    assert sorted(q4.expected(drawn, NOTHING_DECLARED)) == [(10, 0, 400), (10, 5_000, 300), (10, 10_000, 201)]


def test_all_auctions_with_the_most_bids_of_a_window_are_hot() -> None:
    drawn = records(
        [(0, bid(7, 1, 1)), (4_999, bid(8, 1, 1))], [(5_000, bid(8, 1, 1)), (5_001, bid(7, 1, 1))]
    )
    drawn = {**drawn, **{"events-2": records([(9_999, bid(7, 1, 1))])["events-0"]}}
    assert sorted(q5.expected(drawn, NOTHING_DECLARED)) == [
        (-5_000, 7, 1),
        (-5_000, 8, 1),
        (0, 7, 3),
        (5_000, 7, 2),
    ]


def test_all_bids_of_the_highest_price_of_a_window_are_emitted() -> None:
    drawn = records([(0, bid(7, 1, 5)), (9_999, bid(8, 2, 9)), (10_000, bid(8, 2, 1))], [(1, bid(7, 3, 9))])
    assert sorted(q7.expected(drawn, NOTHING_DECLARED)) == [(0, 7, 3, 9), (0, 8, 2, 9), (10_000, 8, 2, 1)]


def test_a_person_who_registers_and_sells_in_one_window_is_emitted_per_reserve() -> None:
    auctions = [Auction(number, 1, 10, 1, 20 + number, 3) for number in range(3)]
    drawn = records(
        [(9_000, ANN), (9_000, BOB)], [(0, auctions[0]), (9_999, auctions[1]), (10_000, auctions[2])]
    )
    assert sorted(q8.expected(drawn, NOTHING_DECLARED)) == [(1, "Ann", 20), (1, "Ann", 21)]


def test_a_session_ends_after_ten_seconds_without_a_bid() -> None:
    drawn = records(
        [(1_000, bid(7, 1, 1)), (21_001, bid(7, 1, 1))], [(11_000, bid(8, 1, 1)), (0, bid(8, 2, 1))]
    )
    assert sorted(q11.expected(drawn, NOTHING_DECLARED)) == [
        (1, 1, 21_001, 31_001),
        (1, 2, 1_000, 21_000),
        (2, 1, 0, 10_000),
    ]


TWO_BIDS = records([(0, bid(7, 1, 1)), (50, bid(8, 1, 1))])


@pytest.mark.parametrize(
    "rows",
    [
        [(1, 40, 60, 2)],
        [(1, 40, 60, 1), (1, 40, 60, 1)],
        [(1, 0, 20, 1), (1, 30_000, 30_020, 1)],
        [(1, 500, 1_000, 2)],
    ],
    ids=str,
)
def test_the_clock_decides_in_which_windows_bids_are(rows: list[tuple[Any, ...]]) -> None:
    assert q12.expected(TWO_BIDS, Declared(rows)) == rows
    assert q12.expected(TWO_BIDS, Declared(rows[:1], is_whole=False)) == rows[:1]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(1, 40, 60, 1)],
        [(1, 40, 60, 3)],
        [(1, 50, 70, 2)],
        [(1, 40, 70, 2)],
        [(1, 40, 60, 2), (1, 60, 80, 0)],
        [(1, 40, 60, 3), (1, 60, 80, -1)],
        [(1, None, 60, 2)],
        [(1, 40, 60, None)],
    ],
    ids=str,
)
def test_windows_of_the_clock_that_cannot_be_are_not_expected(rows: list[tuple[Any, ...]]) -> None:
    assert q12.expected(TWO_BIDS, Declared(rows)) == [(1, 0, 10_000, 2)]


def test_before_the_end_of_a_run_windows_may_wait_but_not_count_too_much() -> None:
    assert q12.expected(TWO_BIDS, Declared((), is_whole=False)) == []
    too_many = Declared([(1, 40, 60, 3)], is_whole=False)
    assert q12.expected(TWO_BIDS, too_many) == [(1, 0, 10_000, 2)]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_row_that_is_missing_twice_or_wrong_is_seen(name: str) -> None:
    family = load_family(name)
    seen = 0
    for seed in range(40):
        drawn = dict(family.generate(Random(seed)).records)
        rows = list(family.expected(drawn, NOTHING_DECLARED))
        if not rows:
            continue
        seen += 1
        wrong = (*rows[0][:-1], rows[0][-1] + 1)
        for committed in (rows[1:], [*rows, rows[0]], [wrong, *rows[1:]]):
            declared = Declared(committed) if options_of(family).declares else NOTHING_DECLARED
            assert sorted(family.expected(drawn, declared)) != sorted(committed)
    assert seen > 15
