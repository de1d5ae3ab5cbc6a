"""Nexmark's events in scenarios: how many are drawn, and how jobs and oracles read them.

The rules this module lives by:

- All events come through one source, dealt out to its splits in order. A query selects the events of a kind,
  like the views ``person``, ``auction`` and ``bid`` of ``nexmark-flink``; the time of an event is the
  timestamp of its record.
- One row type fits all kinds; columns that a kind lacks are null. ``VIEWS`` are the three views over it in
  SQL.
- Scenarios are small, so ids begin where something happens, time goes slower, and where a query needs people
  and auctions there are more of them among the bids. The public generator has settings for it.
- Watermarks are four seconds behind, as in the public generator. Records are held back for three at the most
  and out of order by less than one, so none is ever late: the contents of windows follow from the input. When
  a window is emitted does not, so families of windows declare (``declared.so_far``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

from onceproof.engine.durations import Duration
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import JobIO, Records, Workload
from onceproof.scenarios.nexmark._generator import Auction, Bid, Event, Person, Settings, events

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
    from onceproof.engine.types import TypeInformation
    from onceproof.harness.model.scenario import RecordValue

RECORD_SCHEMA: Final = (
    "kind STRING, id BIGINT, party BIGINT, amount BIGINT, reserve BIGINT, expires BIGINT, category BIGINT,"
    " label STRING, place STRING, state STRING"
)
PERSON, AUCTION, BID = "person", "auction", "bid"

VIEWS: Final = """
  person AS (
    SELECT scenario_id, split, offset, timestamp, id, label AS name, place AS city, state
    FROM records WHERE kind = 'person'
  ),
  auction AS (
    SELECT scenario_id, split, offset, timestamp, id, party AS seller, amount AS initial_bid, reserve,
      expires, category
    FROM records WHERE kind = 'auction'
  ),
  bid AS (
    SELECT scenario_id, split, offset, timestamp, id AS auction, party AS bidder, amount AS price,
      label AS channel, place AS url
    FROM records WHERE kind = 'bid'
  )"""

LONG, STRING = Types.LONG(), Types.STRING()
PERSON_TYPE: Final = Types.TUPLE([LONG, STRING, STRING, STRING])
AUCTION_TYPE: Final = Types.TUPLE([LONG, LONG, LONG, LONG, LONG, LONG])
BID_TYPE: Final = Types.TUPLE([LONG, LONG, LONG, STRING, STRING])

BOUND_MS: Final = 4_000
WATERMARKS: Final = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
MOST_DISORDER_MS: Final = 500
"""The greatest difference in time between neighbours of a group that is out of order, in milliseconds."""

PUBLISHED: Final = (1, 3, 46)
MORE_AUCTIONS: Final = ((PUBLISHED, 1), ((1, 3, 12), 3), ((1, 5, 5), 3))
"""People, auctions and bids, each with a weight."""
MORE_PEOPLE: Final = ((PUBLISHED, 1), ((1, 3, 4), 2), ((3, 5, 2), 5))


def draw(
    random: Random,
    proportions: Sequence[tuple[tuple[int, int, int], int]] = ((PUBLISHED, 1),),
    first_auctions: Sequence[int] = (0, 0, 95, 200),
    hot_sellers: Sequence[int] = (2, 4),
) -> Workload:
    """Draw up to some eighty events in one to three splits.

    ``first_auctions``: where ids may begin. ``hot_sellers``: the possible hot seller ratios; 1 means none is
    hot.
    """
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 4), (3, 3)])
    count = chance.weighted(
        [(chance.integer(0, 9), 1), (chance.integer(10, 40), 5), (chance.integer(41, 80), 3)]
    )
    people, auctions, bids = chance.weighted(proportions)
    gap_ms = chance.choice((20, 100, 400, 1500))
    group = chance.choice((1, 1, 5, 20))
    in_flight = chance.choice((2, 10, 100))
    first_auction = chance.choice(first_auctions)
    settings = Settings(
        people=people,
        auctions=auctions,
        bids=bids,
        hot_sellers_ratio=chance.choice(hot_sellers),
        auctions_in_flight=in_flight,
        active_people=chance.choice((5, 1000)),
        events_per_second=1000 / gap_ms,
        out_of_order_group=group if group * gap_ms <= MOST_DISORDER_MS else 1,
        delayed_share=chance.choice((0.0, 0.1, 0.3)),
    )
    first_event = settings.event_of_auction(first_auction)
    drawn = events(replace(settings, first_event=first_event), count, random)
    dealt: list[list[tuple[int, RecordValue]]] = [[] for _ in range(splits)]
    for time, event in drawn:
        chance.choice(dealt).append((time, value_of(event)))
    records = {f"events-{split}": tuple(own) for split, own in enumerate(dealt)}
    parameters = {
        "events": count,
        "splits": splits,
        "gap_ms": gap_ms,
        "first_event": first_event,
        "bids": bids,
    }
    return Workload(records, parameters)


def value_of(event: Event) -> tuple[Any, ...]:
    """Return an event as the row that fits all kinds."""
    if type(event) is Bid:
        auction, bidder, price, channel, url = event
        return BID, auction, bidder, price, None, None, None, channel, url, None
    if type(event) is Auction:
        number, seller, category, initial_bid, reserve, expires = event
        return AUCTION, number, seller, initial_bid, reserve, expires, category, None, None, None
    number, name, city, state = cast(Person, event)
    return PERSON, number, None, None, None, None, None, name, city, state


# What jobs read


def source(env: StreamExecutionEnvironment, io: JobIO) -> DataStream:
    """Read all events."""
    events = env.from_source(io.source("events"), WATERMARKS, "events").uid("events")
    return events.set_parallelism(io.source_parallelism)


def bids(events: DataStream, io: JobIO) -> DataStream:
    """Return the bids among the events: (auction, bidder, price, channel, url)."""
    return _taken(events, "bids", bids_of, BID_TYPE, io)


def auctions(events: DataStream, io: JobIO) -> DataStream:
    """Return the auctions among the events: (id, seller, category, initial bid, reserve, expires)."""
    return _taken(events, "auctions", auctions_of, AUCTION_TYPE, io)


def people(events: DataStream, io: JobIO) -> DataStream:
    """Return the people among the events: (id, name, city, state)."""
    return _taken(events, "people", people_of, PERSON_TYPE, io)


def _taken(events: DataStream, name: str, taking: Any, kind: TypeInformation, io: JobIO) -> DataStream:
    return events.flat_map(taking, kind).name(name).uid(name).set_parallelism(io.source_parallelism)


def named(stream: DataStream, name: str, io: JobIO) -> DataStream:
    """Set name and uid of a keyed operator, and the scenario's parallelism."""
    return stream.name(name).uid(name).set_parallelism(io.parallelism)


def into_table(rows: DataStream, io: JobIO, column: int, kind: TypeInformation = LONG) -> None:
    """End the job in a sink, keyed by column number ``column``."""
    table = rows.key_by(lambda row: row[column], kind).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def bids_of(value: tuple[Any, ...]) -> Sequence[Any]:
    """Return the bid in an event, or nothing."""
    return ((*value[1:4], value[7], value[8]),) if value[0] == BID else ()


def auctions_of(value: tuple[Any, ...]) -> Sequence[Any]:
    """Return the auction in an event, or nothing."""
    if value[0] != AUCTION:
        return ()
    _, number, seller, initial_bid, reserve, expires, category, *_ = value
    return ((number, seller, category, initial_bid, reserve, expires),)


def people_of(value: tuple[Any, ...]) -> Sequence[Any]:
    """Return the person in an event, or nothing."""
    return ((value[1], *value[7:10]),) if value[0] == PERSON else ()


def first(value: tuple[Any, ...]) -> Any:
    """Return the first column: the id of a person or an auction, the auction of a bid."""
    return value[0]


def second(value: tuple[Any, ...]) -> Any:
    """Return the second column: the seller of an auction, the bidder of a bid."""
    return value[1]


# What Python oracles read


def all_bids(records: Records) -> Iterator[tuple[int, Bid]]:
    """Yield the bids with their times."""
    for split in records.values():
        for time, value in split:
            kind, auction, bidder, price, _, _, _, channel, url, _ = cast(tuple[Any, ...], value)
            if kind == BID:
                yield time, Bid(auction, bidder, price, channel, url)


def all_auctions(records: Records) -> Iterator[tuple[int, Auction]]:
    """Yield the auctions with their times."""
    for split in records.values():
        for time, value in split:
            kind, number, seller, amount, reserve, expires, category, *_ = cast(tuple[Any, ...], value)
            if kind == AUCTION:
                yield time, Auction(number, seller, category, amount, reserve, expires)


def all_people(records: Records) -> Iterator[tuple[int, Person]]:
    """Yield the people with the times at which they registered."""
    for split in records.values():
        for time, value in split:
            kind, number, _, _, _, _, _, name, city, state = cast(tuple[Any, ...], value)
            if kind == PERSON:
                yield time, Person(number, name, city, state)
