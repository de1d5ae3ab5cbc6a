"""Nexmark q7, highest bid: of every ten seconds the bids with the highest price.

The highest bids of each auction are found first, then those of all auctions: the last stage has one subtask,
and the first stage reduces its input. Bids of the same price are all emitted, as in a join of the prices with
their maximum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from onceproof.engine.functions import AggregateFunction
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.engine.windows.window_functions import AllWindowFunction
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows
from onceproof.scenarios.nexmark import _events as nexmark
from onceproof.scenarios.nexmark import _windows as windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.engine.windows.windows import TimeWindow

name = "nexmark_q7"
generator_version = 2
options = FamilyOptions(declares=True, any_backend=True)
tasks: dict[str, Role] = {
    "events -> bids": "source",
    "by auction": "keyed",
    "highest": "keyed",
    "table": "sink",
}
record_schema = nexmark.RECORD_SCHEMA
row_schema = "start BIGINT, auction BIGINT, bidder BIGINT, price BIGINT"
oracle_sql = f"""
WITH {nexmark.VIEWS},
  cut AS (SELECT *, {windows.start_sql("timestamp")} AS start FROM bid)
SELECT scenario_id, start, auction, bidder, price
FROM (SELECT *, max(price) OVER (PARTITION BY scenario_id, start) AS highest FROM cut)
WHERE price = highest
"""
generate = nexmark.draw

LONG = Types.LONG()
Bids: TypeAlias = list[tuple[int, int, int]]
BIDS = Types.LIST(Types.TUPLE([LONG, LONG, LONG]))
"""(auction, bidder, price) of bids of equal price."""


class Highest(AggregateFunction):
    """Accumulates the bids with the highest price, in an order that does not depend on arrival."""

    def create_accumulator(self) -> Bids:
        return []

    def add(self, value: Any, accumulator: Bids) -> Bids:
        if accumulator and value[2] < accumulator[0][2]:
            return accumulator
        return self.merge(accumulator, [value[:3]])

    def get_result(self, accumulator: Bids) -> Bids:
        return accumulator

    def merge(self, acc_a: Bids, acc_b: Bids) -> Bids:
        """Return the higher ones, or both if they are equal."""
        if not acc_a or not acc_b:
            return acc_a or acc_b
        price, other = acc_a[0][2], acc_b[0][2]
        if price == other:
            return sorted(acc_a + acc_b)
        return acc_a if price > other else acc_b


class HighestOfAll(Highest):
    """Accumulates the highest of the highest bids of auctions."""

    def add(self, value: Any, accumulator: Bids) -> Bids:
        return self.merge(accumulator, value)


class BidRows(AllWindowFunction):
    """Adds the window start to the highest bids."""

    def apply(self, window: TimeWindow, inputs: Iterable[Bids]) -> Iterator[tuple[int, int, int, int]]:
        for bids in inputs:
            for bid in bids:
                yield window.start, *bid


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> bids -> highest by auction -> highest -> table."""
    bids = nexmark.bids(nexmark.source(env, io), io)
    by_auction = (
        bids.key_by(nexmark.first, LONG)
        .window(TumblingEventTimeWindows.of(windows.SIZE))
        .aggregate(Highest(), None, BIDS, BIDS)
    )
    highest = (
        nexmark.named(by_auction, "by auction", io)
        .window_all(TumblingEventTimeWindows.of(windows.SIZE))
        .aggregate(HighestOfAll(), BidRows(), BIDS, Types.TUPLE([LONG, LONG, LONG, LONG]))
        .name("highest")
        .uid("highest")
    )
    nexmark.into_table(highest, io, column=1)


def expected(records: Records, declared: Declared) -> Rows:
    """Find the highest price of each window, and all bids that have it."""
    highest: dict[int, int] = {}
    for time, bid in nexmark.all_bids(records):
        start = windows.start_of(time)
        highest[start] = max(bid.price, highest.get(start, 0))
    rows = []
    for time, bid in nexmark.all_bids(records):
        start = windows.start_of(time)
        if bid.price == highest[start]:
            rows.append((start, bid.auction, bid.bidder, bid.price))
    return declared.so_far(rows)
