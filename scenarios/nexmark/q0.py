"""Nexmark q0, pass through: every bid unchanged.

The job has no keyed state, so only offsets and commits can go wrong: a bid that is read twice is a row twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows
from onceproof.scenarios.nexmark import _events as nexmark

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "nexmark_q0"
generator_version = 2
options = FamilyOptions(at_least_once="rows")
tasks: dict[str, Role] = {"events -> bids -> rows": "source", "table": "sink"}
record_schema = nexmark.RECORD_SCHEMA
row_schema = "channel STRING, url STRING, auction BIGINT, bidder BIGINT, price BIGINT"
oracle_sql = f"WITH {nexmark.VIEWS} SELECT scenario_id, channel, url, auction, bidder, price FROM bid"
generate = nexmark.draw


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> bids -> rows -> table."""
    bids = nexmark.bids(nexmark.source(env, io), io)
    rows = bids.map(_row).name("rows").uid("rows").set_parallelism(io.source_parallelism)
    nexmark.into_table(rows, io, column=2)


def _row(bid: tuple[int, int, int, str, str]) -> tuple[str, str, int, int, int]:
    auction, bidder, price, channel, url = bid
    return channel, url, auction, bidder, price


def expected(records: Records, declared: Declared) -> Rows:
    """Return every bid."""
    bids = nexmark.all_bids(records)
    return [(bid.channel, bid.url, bid.auction, bid.bidder, bid.price) for _, bid in bids]
