"""Nexmark q4, average price for a category: the average of winning bids, in sliding windows.

An event-time timer closes an auction in its last millisecond, when all its bids have come; the bids wait
until then, also those that came before their auction. The winning price has the time of the timer, and falls
into two windows of its category. So a checkpoint holds bids, auctions, timers and windows of both, and an
auction that closes twice, or without one of its bids, changes the averages. As in Beam's ``Query4``, the
average is over sliding windows; here it is in whole cents, rounded down.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.connected_functions import KeyedCoProcessFunction
from onceproof.engine.functions import AggregateFunction, RuntimeContext
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import SlidingEventTimeWindows
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios.nexmark import _events as nexmark
from onceproof.scenarios.nexmark import _windows as windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "nexmark_q4"
generator_version = 2
options = FamilyOptions(declares=True, any_backend=True)
tasks: dict[str, Role] = {
    "events": "source",
    "auctions": "source",
    "bids": "source",
    "winning": "keyed",
    "averages": "keyed",
    "table": "sink",
}
record_schema = nexmark.RECORD_SCHEMA
row_schema = "category BIGINT, start BIGINT, average BIGINT"
oracle_sql = f"""
WITH {nexmark.VIEWS},
  winning AS (
    SELECT auction.scenario_id, category, expires, max(price) AS price
    FROM (SELECT DISTINCT scenario_id, id, category, timestamp, expires FROM auction) AS auction
    JOIN bid ON auction.scenario_id = bid.scenario_id AND auction.id = bid.auction
      AND bid.timestamp BETWEEN auction.timestamp AND auction.expires
    GROUP BY auction.scenario_id, auction.id, category, auction.timestamp, expires
  )
SELECT scenario_id, category, start, sum(price) div count(*) AS average
FROM (SELECT *, explode({windows.starts_sql("expires")}) AS start FROM winning)
GROUP BY scenario_id, category, start
"""

LONG = Types.LONG()
SECOND_MS = 1000


def generate(random: Random) -> Workload:
    """Draw events with more auctions among the bids than usual."""
    return nexmark.draw(random, nexmark.MORE_AUCTIONS)


class WinningBids(KeyedCoProcessFunction):
    """Emits (category, price) of each auction that is closed and had a bid."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the open auctions as (time, expires, category), and bids as (time, price)."""
        auction, bid = Types.TUPLE([LONG, LONG, LONG]), Types.TUPLE([LONG, LONG])
        self._auctions = runtime_context.get_list_state(ListStateDescriptor("auctions", auction))
        self._bids = runtime_context.get_list_state(ListStateDescriptor("bids", bid))

    def process_element1(
        self, value: tuple[int, int, int, int, int, int], ctx: KeyedCoProcessFunction.Context
    ) -> None:
        """Store an auction that is opened."""
        _id, _seller, category, _initial_bid, _reserve, expires = value
        time = ctx.timestamp()
        assert time is not None
        if (time, expires, category) not in self._auctions.get():
            self._auctions.add((time, expires, category))
            ctx.timer_service().register_event_time_timer(expires)

    def process_element2(
        self, value: tuple[int, int, int, str, str], ctx: KeyedCoProcessFunction.Context
    ) -> None:
        """Store a bid until its auction closes, or until its auction would have come."""
        time = ctx.timestamp()
        assert time is not None
        self._bids.add((time, value[2]))
        # One timer for all bids of a second.
        ctx.timer_service().register_event_time_timer(time - time % SECOND_MS + SECOND_MS)

    def on_timer(
        self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext
    ) -> Iterator[tuple[int, int]]:
        """Close expired auctions, and remove bids that no auction can need."""
        auctions, bids = list(self._auctions.get()), list(self._bids.get())
        still_open = []
        for opened, expires, category in auctions:
            if expires > timestamp:
                still_open.append((opened, expires, category))
                continue
            prices = [price for time, price in bids if opened <= time <= expires]
            if prices:
                yield category, max(prices)
        self._auctions.update(still_open)
        self._bids.update(
            [
                bid
                for bid in bids
                if bid[0] > timestamp or any(opened <= bid[0] <= expires for opened, expires, _ in still_open)
            ]
        )


class Average(AggregateFunction):
    """Accumulates (sum, number) of prices."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: tuple[int, int], accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> int:
        """Return the average, in whole cents."""
        return accumulator[0] // accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class AverageRow(ProcessWindowFunction):
    """Adds category and window start to an average."""

    def process(
        self, key: int, context: WindowContext, elements: Iterable[int]
    ) -> Iterator[tuple[int, int, int]]:
        for average in elements:
            yield key, context.window().start, average


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> auctions and bids -> winning -> averages -> table."""
    events = nexmark.source(env, io)
    auctions = nexmark.auctions(events, io).key_by(nexmark.first, LONG)
    bids = nexmark.bids(events, io).key_by(nexmark.first, LONG)
    winning = auctions.connect(bids).process(WinningBids(), Types.TUPLE([LONG, LONG]))
    averages = (
        nexmark.named(winning, "winning", io)
        .key_by(nexmark.first, LONG)
        .window(SlidingEventTimeWindows.of(windows.SIZE, windows.SLIDE))
        .aggregate(Average(), AverageRow(), Types.TUPLE([LONG, LONG]), Types.TUPLE([LONG, LONG, LONG]))
    )
    nexmark.into_table(nexmark.named(averages, "averages", io), io, column=0)


def expected(records: Records, declared: Declared) -> Rows:
    """Compute the winning price of each auction, and the averages."""
    bids: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for time, bid in nexmark.all_bids(records):
        bids[bid.auction].append((time, bid.price))
    prices: dict[tuple[int, int], list[int]] = defaultdict(list)
    for opened, auction in set(nexmark.all_auctions(records)):
        in_time = [price for time, price in bids[auction.id] if opened <= time <= auction.expires]
        if in_time:
            for start in windows.starts_of(auction.expires):
                prices[auction.category, start].append(max(in_time))
    rows = [(*window, sum(each) // len(each)) for window, each in prices.items()]
    return declared.so_far(rows)
