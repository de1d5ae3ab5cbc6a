"""The Nexmark generator: its proportions, ids, prices and times are those of the public one."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from random import Random
from statistics import mean

import msgspec
import pytest

from onceproof.scenarios.nexmark._generator import (
    FIRST_ID,
    HOT_CHANNELS,
    Auction,
    Bid,
    Event,
    Person,
    Settings,
    events,
    url_of,
)

AS_PUBLISHED = Settings(delayed_share=0.0)


@pytest.fixture(scope="module")
def many() -> list[tuple[int, Event]]:
    return events(AS_PUBLISHED, 20_000, Random(7))


def of_kind(drawn: list[tuple[int, Event]], kind: type) -> list[tuple[int, int, Event]]:
    return [(number, time, event) for number, (time, event) in enumerate(drawn) if type(event) is kind]


def test_a_seed_gives_the_same_events_for_ever(many: list[tuple[int, Event]]) -> None:
    text = msgspec.json.encode(many[:2_000])
    assert sha256(text).hexdigest()[:16] == "b79e207cd7b1002e"
    assert events(AS_PUBLISHED, 2_000, Random(7)) == many[:2_000]
    assert events(AS_PUBLISHED, 2_000, Random(8)) != many[:2_000]


def test_each_fifty_events_are_one_person_three_auctions_and_46_bids(many: list[tuple[int, Event]]) -> None:
    kinds = [Person, *3 * [Auction], *46 * [Bid]]
    assert [type(event) for _, event in many] == 400 * kinds


def test_ids_of_people_and_of_auctions_count_up_from_a_thousand(many: list[tuple[int, Event]]) -> None:
    for kind, count in ((Person, 400), (Auction, 1200)):
        ids = [event[0] for _, _, event in of_kind(many, kind)]
        assert ids == list(range(FIRST_ID, FIRST_ID + count))


def test_half_of_the_bids_go_to_the_hot_auction_and_three_of_four_come_of_hot_people(
    many: list[tuple[int, Event]],
) -> None:
    hot_auctions = hot_bidders = hot_sellers = 0
    for number, _, bid in of_kind(many, Bid):
        assert isinstance(bid, Bid)
        turn = number // 50
        hot_auctions += bid.auction == FIRST_ID + (3 * turn + 2) // 100 * 100
        hot_bidders += bid.bidder == FIRST_ID + turn // 100 * 100 + 1
    for number, _, auction in of_kind(many, Auction):
        assert isinstance(auction, Auction)
        hot_sellers += auction.seller == FIRST_ID + number // 50 // 100 * 100
    assert 0.49 < hot_auctions / 18_400 < 0.52
    assert 0.73 < hot_bidders / 18_400 < 0.77
    assert 0.72 < hot_sellers / 1_200 < 0.79


def test_other_bids_are_for_auctions_in_flight_and_may_run_ahead(many: list[tuple[int, Event]]) -> None:
    ahead = set()
    for number, _, bid in of_kind(many, Bid):
        assert isinstance(bid, Bid)
        last = FIRST_ID + 3 * (number // 50) + 2
        ahead.add(bid.auction - last)
    assert min(ahead) >= -100
    assert max(ahead) == 10


def test_prices_are_as_often_small_as_large(many: list[tuple[int, Event]]) -> None:
    prices = [bid.price for _, _, bid in of_kind(many, Bid) if isinstance(bid, Bid)]
    assert min(prices) >= 100
    assert max(prices) <= 10**8
    decades = Counter(len(str(price)) for price in prices)
    assert all(0.15 < decades[digits] / len(prices) < 0.185 for digits in range(3, 9))


def test_a_reserve_is_above_the_initial_bid_and_categories_are_five(many: list[tuple[int, Event]]) -> None:
    auctions = [auction for _, _, auction in of_kind(many, Auction) if isinstance(auction, Auction)]
    assert all(auction.reserve >= auction.initial_bid + 100 for auction in auctions)
    assert set(Counter(auction.category for auction in auctions)) == {10, 11, 12, 13, 14}


def test_auctions_last_on_average_until_a_hundred_more_are_opened(many: list[tuple[int, Event]]) -> None:
    lengths = [
        auction.expires - time for _, time, auction in of_kind(many, Auction) if isinstance(auction, Auction)
    ]
    # 1,666 events at 10,000 a second.
    assert min(lengths) >= 1
    assert max(lengths) <= 2 * 167
    assert 155 < mean(lengths) < 180


def test_half_of_the_bids_come_through_four_channels(many: list[tuple[int, Event]]) -> None:
    channels = Counter(bid.channel for _, _, bid in of_kind(many, Bid) if isinstance(bid, Bid))
    hot = sum(channels[channel] for channel in HOT_CHANNELS)
    assert 0.48 < hot / channels.total() < 0.52
    assert len(channels) > 5_000


def test_a_channel_has_one_address() -> None:
    assert url_of("channel-5") == url_of("channel-5") != url_of("channel-6")
    assert all(url_of(channel).endswith("item.htm?query=1") for channel in HOT_CHANNELS)
    marked = sum("&channel_id=" in url_of(f"channel-{number}") for number in range(500))
    assert 430 < marked < 470
    # The absolute value of the bit-reversed number, read as a signed one.
    numbered = next(url for number in range(1, 99, 2) if "&" in (url := url_of(f"channel-{number}")))
    assert 0 < int(numbered.rpartition("=")[2]) <= 2**31


def test_times_go_on_by_the_rate(many: list[tuple[int, Event]]) -> None:
    assert [time for time, _ in many[:31]] == [*10 * [0], *10 * [1], *10 * [2], 3]
    slow = events(Settings(delayed_share=0.0, events_per_second=2), 4, Random(0))
    assert [time for time, _ in slow] == [0, 500, 1000, 1500]


def test_times_are_out_of_order_within_groups_only() -> None:
    settings = Settings(delayed_share=0.0, events_per_second=1000, out_of_order_group=20)
    times = [time for time, _ in events(settings, 60, Random(0))]
    assert times != sorted(times)
    for begin in (0, 20, 40):
        assert sorted(times[begin : begin + 20]) == list(range(begin, begin + 20))


def test_some_events_keep_their_time_and_come_later() -> None:
    settings = Settings(events_per_second=100)
    times = [time for time, _ in events(settings, 5_000, Random(0))]
    assert sorted(times) == [10 * number for number in range(5_000)]
    behind = [max(times[:place], default=0) - time for place, time in enumerate(times)]
    late = [each for each in behind if each > 0]
    assert 0.08 < len(late) / 5_000 < 0.12
    assert 2_500 < max(late) <= 3_000


def test_ids_begin_where_the_first_event_says() -> None:
    settings = Settings(delayed_share=0.0, first_event=AS_PUBLISHED.event_of_auction(11_300))
    drawn = [event for _, event in events(settings, 100, Random(0))]
    assert drawn[0][0] == FIRST_ID + 11_300 // 3
    assert drawn[1][0] == FIRST_ID + 11_298
    assert drawn[4:50] != drawn[54:]
    hot = Counter(event.auction for event in drawn if isinstance(event, Bid)).most_common(1)
    # The first of its hundred in the second round, of the hundred before in the first.
    assert hot[0][0] == 12_300
