"""Nexmark q8, monitor new users: people who open an auction in the ten seconds in which they registered.

A join over windows: people and auctions wait together until their window is over, and each pair is a row, as
in Beam's ``Query8``. Both streams come from one source over two edges; the watermark is that of the slower.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from onceproof.engine.connected_functions import JoinFunction
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios.nexmark import _events as nexmark
from onceproof.scenarios.nexmark import _windows as windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "nexmark_q8"
generator_version = 2
tasks: dict[str, Role] = {
    "events": "source",
    "people -> Map": "keyed",
    "auctions -> Map": "keyed",
    "join": "keyed",
    "table": "sink",
}
record_schema = nexmark.RECORD_SCHEMA
row_schema = "person BIGINT, name STRING, reserve BIGINT"
oracle_sql = f"""
WITH {nexmark.VIEWS}
SELECT person.scenario_id, person.id AS person, name, reserve
FROM person JOIN auction
ON person.scenario_id = auction.scenario_id AND person.id = seller
  AND {windows.start_sql("person.timestamp")} = {windows.start_sql("auction.timestamp")}
"""

LONG = Types.LONG()
Side: TypeAlias = tuple[int, int, str, int]
"""Person or seller, whether it is an auction, the name of the person, the reserve of the auction."""


def generate(random: Random) -> Workload:
    """Draw events with many people among them."""
    return nexmark.draw(random, nexmark.MORE_PEOPLE, first_auctions=(0, 0, 95))


class NewSeller(JoinFunction):
    """Makes a row of a person and an auction."""

    def join(
        self, first: tuple[int, str, str, str], second: tuple[int, int, int, int, int, int]
    ) -> tuple[int, str, int]:
        """Return (person, name, reserve)."""
        return first[0], first[1], second[4]


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> people and auctions -> join -> table."""
    events = nexmark.source(env, io)
    # With the parallelism of the join, whose own maps are chained to them. The edges are named: one that is
    # forward at some parallelism and not at another could not take over what is in flight.
    people = nexmark.people(events.rebalance(), io).set_parallelism(io.parallelism)
    auctions = nexmark.auctions(events.rebalance(), io).set_parallelism(io.parallelism)
    rows = (
        people.join(auctions)
        .where(nexmark.first, LONG)
        .equal_to(nexmark.second)
        .window(TumblingEventTimeWindows.of(windows.SIZE))
        .apply(NewSeller(), Types.TUPLE([LONG, Types.STRING(), LONG]))
    )
    nexmark.into_table(nexmark.named(rows, "join", io), io, column=0)


class PeopleWithAuctions(ProcessWindowFunction):
    """Pairs the people in a window with its auctions, of one key each."""

    def process(
        self, key: int, context: WindowContext, elements: Iterable[Side]
    ) -> Iterator[tuple[int, str, int]]:
        """Yield (person, name, reserve)."""
        sides = list(elements)
        for _, is_auction, name, _ in sides:
            if not is_auction:
                yield from ((key, name, reserve) for _, other, _, reserve in sides if other)


def flink_job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> people and auctions -> join -> table for PyFlink, which has no joins of windows.

    Both go through one window, which pairs them.
    """
    side = Types.TUPLE([LONG, LONG, Types.STRING(), LONG])
    events = nexmark.source(env, io)
    people = nexmark.people(events.rebalance(), io).map(_side_of_person, side)
    auctions = nexmark.auctions(events.rebalance(), io).map(_side_of_auction, side)
    rows = (
        nexmark.named(people, "sides of people", io)
        .union(nexmark.named(auctions, "sides of auctions", io))
        .key_by(nexmark.first, LONG)
        .window(TumblingEventTimeWindows.of(windows.SIZE))
        .process(PeopleWithAuctions(), Types.TUPLE([LONG, Types.STRING(), LONG]))
    )
    nexmark.into_table(nexmark.named(rows, "join", io), io, column=0)


options = FamilyOptions(declares=True, any_backend=True, jobs={"flink": flink_job})


def _side_of_person(person: tuple[int, str, str, str]) -> Side:
    return person[0], 0, person[1], 0


def _side_of_auction(auction: tuple[int, int, int, int, int, int]) -> Side:
    return auction[1], 1, "", auction[4]


def expected(records: Records, declared: Declared) -> Rows:
    """Pair people with their auctions of the same window."""
    reserves: dict[tuple[int, int], list[int]] = defaultdict(list)
    for time, auction in nexmark.all_auctions(records):
        reserves[auction.seller, windows.start_of(time)].append(auction.reserve)
    rows = [
        (person.id, person.name, reserve)
        for time, person in nexmark.all_people(records)
        for reserve in reserves[person.id, windows.start_of(time)]
    ]
    return declared.so_far(rows)
