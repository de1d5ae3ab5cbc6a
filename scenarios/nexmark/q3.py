"""Nexmark q3, local item suggestion: people in Oregon, Idaho or California who sell items of category ten.

People and auctions may come in any order, so both sides keep all records for ever: a join whose state only
grows. The two streams come from one source over two edges, which race.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.connected_functions import KeyedCoProcessFunction
from onceproof.engine.functions import RuntimeContext
from onceproof.engine.state.descriptors import MapStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios.nexmark import _events as nexmark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "nexmark_q3"
generator_version = 2
options = FamilyOptions(any_backend=True)
tasks: dict[str, Role] = {
    "events": "source",
    "people": "source",
    "auctions": "source",
    "join": "keyed",
    "table": "sink",
}
record_schema = nexmark.RECORD_SCHEMA
row_schema = "name STRING, city STRING, state STRING, auction BIGINT"

STATES = ("OR", "ID", "CA")
CATEGORY = 10

oracle_sql = f"""
WITH {nexmark.VIEWS}
SELECT scenario_id, name, city, state, auction
FROM (SELECT DISTINCT scenario_id, id, name, city, state FROM person WHERE state IN {STATES})
JOIN (
  SELECT DISTINCT scenario_id, id AS auction, seller AS id FROM auction WHERE category = {CATEGORY}
) USING (scenario_id, id)
"""

MORE_SELLERS = ((nexmark.PUBLISHED, 1), ((5, 15, 1), 6), ((12, 24, 1), 12))
ROW = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG()])


def generate(random: Random) -> Workload:
    """Draw events with many people among them."""
    return nexmark.draw(random, MORE_SELLERS, first_auctions=(0,), hot_sellers=(1, 2))


class Suggest(KeyedCoProcessFunction):
    """Pairs each person with each of the auctions."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the known people and auctions of a seller; each of the maps serves as a set."""
        person = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING()])
        self._people = runtime_context.get_map_state(MapStateDescriptor("people", person, Types.BOOLEAN()))
        self._auctions = runtime_context.get_map_state(
            MapStateDescriptor("auctions", Types.LONG(), Types.BOOLEAN())
        )

    def process_element1(
        self, value: tuple[int, str, str, str], ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[str, str, str, int]]:
        """Pair a person with the auctions that came before."""
        _id, person, city, state = value
        if state in STATES and not self._people.contains((person, city, state)):
            self._people.put((person, city, state), True)
            for auction in self._auctions.keys():  # noqa: SIM118 (a state, not a dict)
                yield person, city, state, auction

    def process_element2(
        self, value: tuple[int, int, int, int, int, int], ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[str, str, str, int]]:
        """Pair an auction with its seller, if the person is known."""
        auction, _seller, category, *_ = value
        if category == CATEGORY and not self._auctions.contains(auction):
            self._auctions.put(auction, True)
            for person in self._people.keys():  # noqa: SIM118
                yield *person, auction


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> people and auctions -> join -> table."""
    events = nexmark.source(env, io)
    people = nexmark.people(events, io).key_by(nexmark.first, Types.LONG())
    auctions = nexmark.auctions(events, io).key_by(nexmark.second, Types.LONG())
    rows = nexmark.named(people.connect(auctions).process(Suggest(), ROW), "join", io)
    nexmark.into_table(rows, io, column=3)


def expected(records: Records, declared: Declared) -> Rows:
    """Pair all people with all their auctions."""
    people = {person for _, person in nexmark.all_people(records) if person.state in STATES}
    sold: dict[int, set[int]] = {}
    for _, auction in nexmark.all_auctions(records):
        if auction.category == CATEGORY:
            sold.setdefault(auction.seller, set()).add(auction.id)
    return [
        (person.name, person.city, person.state, auction)
        for person in people
        for auction in sold.get(person.id, ())
    ]
