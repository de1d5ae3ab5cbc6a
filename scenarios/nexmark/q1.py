"""Nexmark q1, currency conversion: every bid with its price in euros.

A dollar is 0.89 euros, as in Beam's ``Query1``: prices are whole cents, rounded down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows
from onceproof.scenarios.nexmark import _events as nexmark

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "nexmark_q1"
generator_version = 2
options = FamilyOptions(at_least_once="rows")
tasks: dict[str, Role] = {"events -> bids -> euros": "source", "table": "sink"}
record_schema = nexmark.RECORD_SCHEMA
row_schema = "channel STRING, auction BIGINT, bidder BIGINT, euros BIGINT"
oracle_sql = f"""
WITH {nexmark.VIEWS}
SELECT scenario_id, channel, auction, bidder, price * 89 div 100 AS euros FROM bid
"""
generate = nexmark.draw


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> bids -> euros -> table."""
    bids = nexmark.bids(nexmark.source(env, io), io)
    euros = bids.map(_in_euros).name("euros").uid("euros").set_parallelism(io.source_parallelism)
    nexmark.into_table(euros, io, column=1)


def _in_euros(bid: tuple[int, int, int, str, str]) -> tuple[str, int, int, int]:
    auction, bidder, price, channel, _url = bid
    return channel, auction, bidder, price * 89 // 100


def expected(records: Records, declared: Declared) -> Rows:
    """Return every bid, converted."""
    bids = nexmark.all_bids(records)
    return [(bid.channel, bid.auction, bid.bidder, bid.price * 89 // 100) for _, bid in bids]
