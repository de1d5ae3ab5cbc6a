"""The Nexmark generator: people register, open auctions and bid, in the published proportions.

The rules this module lives by:

- It follows Apache Beam's ``org.apache.beam.sdk.nexmark.sources.generator`` (``GeneratorConfig``,
  ``Generator``, and of ``model`` the ``PersonGenerator``, ``AuctionGenerator``, ``BidGenerator`` and
  ``PriceGenerator``) and the defaults in ``NexmarkConfiguration``. Channels and addresses of bids, which Beam
  lacks, are those of ``com.github.nexmark.flink.generator.model.BidGenerator``; that one adds the first id to
  bidders twice, which is not followed.
- An event's kind, id and time follow from its number; the rest is drawn, through ``random()`` alone. So the
  same seed gives the same events in every Python.
- Of 50 events one is a person, three are auctions and 46 bids, in this order. Half of the bids go to the hot
  auction, the first of the last hundred; three of four are by the hot bidder, and three of four auctions by
  the hot seller, of the last hundred people. Ids may run ahead of what exists, so that bids come before
  their auctions and auctions before their sellers.
- Some events are held back: they keep their time, and come later.
- What no query reads is left out: e-mail address, credit card, description, item name, and padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final, NamedTuple, TypeAlias

from onceproof.harness.model.chance import Chance, derived_seed

FIRST_ID: Final = 1000
"""The first id of people and of auctions."""
FIRST_CATEGORY: Final = 10
CATEGORIES: Final = 5
HOT_BATCH: Final = 100
"""One of this many people or auctions is hot."""
ID_LEAD: Final = 10
"""Bids and auctions may refer to ids up to this many ahead of those that exist."""
MOST_CHANNELS: Final = 10_000
HOT_CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")
STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
# fmt: off
CITIES: Final = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent",
    "Cheyenne",
)
FIRST_NAMES: Final = (
    "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
)
LAST_NAMES: Final = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
# fmt: on


class Person(NamedTuple):
    """A person who registers."""

    id: int
    name: str
    city: str
    state: str


class Auction(NamedTuple):
    """An auction that a person opens."""

    id: int
    seller: int
    category: int
    initial_bid: int
    reserve: int
    expires: int
    """The last millisecond in which bids count."""


class Bid(NamedTuple):
    """A bid that a person makes."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str


Event: TypeAlias = Person | Auction | Bid


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the public generator, with its defaults."""

    people: int = 1
    auctions: int = 3
    bids: int = 46
    hot_auction_ratio: int = 2
    """Of this many bids all but one go to the hot auction."""
    hot_sellers_ratio: int = 4
    hot_bidders_ratio: int = 4
    auctions_in_flight: int = 100
    active_people: int = 1000
    first_event: int = 0
    """Number of the first event: ids follow from it, times do not."""
    events_per_second: float = 10_000.0
    out_of_order_group: int = 1
    """Size of the groups within which times are out of order; 1: none are."""
    delayed_share: float = 0.1
    longest_delay_ms: int = 3_000

    def time_ms(self, number: int) -> int:
        """Return the time of event number ``number``, in milliseconds."""
        return int(number * 1000 / self.events_per_second)

    def shuffled(self, number: int) -> int:
        """Return the number whose time event ``number`` has: another one where times are out of order."""
        size = self.out_of_order_group
        return number // size * size + number * 953 % size

    def event_of_auction(self, place: int) -> int:
        """Return the number of the first event of the round in which auction number ``place`` is opened."""
        return place // self.auctions * (self.people + self.auctions + self.bids)


def events(settings: Settings, count: int, random: Random) -> list[tuple[int, Event]]:
    """Return events with their times, in the order in which they come."""
    chance = Chance(random)
    coming = []
    for number, (time, event) in enumerate(_generated(settings, count, chance)):
        delay = 0
        if settings.delayed_share and chance.chance(settings.delayed_share):
            delay = chance.integer(1, settings.longest_delay_ms)
        coming.append((settings.time_ms(number) + delay, number, time, event))
    coming.sort(key=_arrival)
    return [(time, event) for _, _, time, event in coming]


def _arrival(coming: tuple[int, int, int, Event]) -> tuple[int, int]:
    return coming[:2]


def _generated(settings: Settings, count: int, chance: Chance) -> Iterator[tuple[int, Event]]:
    """Yield events with their times, before any is held back."""
    round_length = settings.people + settings.auctions + settings.bids
    for number in range(count):
        shuffled = settings.shuffled(number)
        time = settings.time_ms(shuffled)
        turn, place = divmod(settings.first_event + shuffled, round_length)
        last_person = turn * settings.people + min(place, settings.people - 1)
        if place < settings.people:
            yield time, _person(last_person, chance)
        elif place < settings.people + settings.auctions:
            auction = turn * settings.auctions + place - settings.people
            yield time, _auction(settings, auction, last_person, shuffled, chance)
        else:
            last_auction = (turn + 1) * settings.auctions - 1
            yield time, _bid(settings, last_auction, last_person, chance)


def _person(place: int, chance: Chance) -> Person:
    name = f"{chance.choice(FIRST_NAMES)} {chance.choice(LAST_NAMES)}"
    return Person(FIRST_ID + place, name, chance.choice(CITIES), chance.choice(STATES))


def _auction(settings: Settings, place: int, last_person: int, number: int, chance: Chance) -> Auction:
    if chance.integer(1, settings.hot_sellers_ratio) > 1:
        seller = last_person // HOT_BATCH * HOT_BATCH
    else:
        seller = _any_person(settings, last_person, chance)
    category = FIRST_CATEGORY + chance.integer(0, CATEGORIES - 1)
    initial_bid = _price(chance)
    # On average an auction lasts until a fixed number of further auctions has been opened.
    round_length = settings.people + settings.auctions + settings.bids
    ahead = settings.auctions_in_flight * round_length // settings.auctions
    time = settings.time_ms(number)
    horizon_ms = settings.time_ms(number + ahead) - time
    expires = time + 1 + chance.integer(0, max(2 * horizon_ms, 1) - 1)
    reserve = initial_bid + _price(chance)
    return Auction(FIRST_ID + place, FIRST_ID + seller, category, initial_bid, reserve, expires)


def _bid(settings: Settings, last_auction: int, last_person: int, chance: Chance) -> Bid:
    if chance.integer(1, settings.hot_auction_ratio) > 1:
        auction = last_auction // HOT_BATCH * HOT_BATCH
    else:
        auction = chance.integer(max(last_auction - settings.auctions_in_flight, 0), last_auction + ID_LEAD)
    if chance.integer(1, settings.hot_bidders_ratio) > 1:
        # The second of the batch, so that hot bidders and hot sellers differ.
        bidder = last_person // HOT_BATCH * HOT_BATCH + 1
    else:
        bidder = _any_person(settings, last_person, chance)
    price = _price(chance)
    if chance.integer(0, 1):
        channel = chance.choice(HOT_CHANNELS)
    else:
        channel = f"channel-{chance.integer(0, MOST_CHANNELS - 1)}"
    return Bid(FIRST_ID + auction, FIRST_ID + bidder, price, channel, url_of(channel))


def _any_person(settings: Settings, last_person: int, chance: Chance) -> int:
    """Return a person who is active, or who soon will be."""
    active = min(last_person + 1, settings.active_people)
    return last_person + 1 - active + chance.integer(0, active + ID_LEAD - 1)


def _price(chance: Chance) -> int:
    """Return a price in cents: as many prices lie between 1 and 10 as between 100,000 and a million."""
    return int(10.0 ** (chance.unit() * 6.0) * 100.0 + 0.5)


@cache
def url_of(channel: str) -> str:
    """Return the address of a channel, which follows from its name."""
    chance = Chance(Random(derived_seed("nexmark", channel)))
    path = "/".join(
        "".join(chr(ord("a") + chance.integer(0, 25)) for _ in range(chance.integer(3, 5))) for _ in range(3)
    )
    url = f"https://www.nexmark.com/{path}/item.htm?query=1"
    if channel in HOT_CHANNELS or not chance.chance(0.9):
        return url
    # Java: the number with its 32 bits reversed, as a signed number, made positive.
    turned = int(f"{int(channel.rpartition('-')[2]):032b}"[::-1], 2)
    return f"{url}&channel_id={min(turned, 2**32 - turned)}"
