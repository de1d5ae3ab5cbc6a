"""Nexmark q2, selection: the bids for every 123rd auction.

Most records give no row, so checkpoints and transactions without rows are the rule here. In scenarios ids
begin near the selected auctions; in every second scenario the hot auction is one of them.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios.nexmark import _events as nexmark
from onceproof.scenarios.nexmark._generator import FIRST_ID

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "nexmark_q2"
generator_version = 2
options = FamilyOptions(at_least_once="rows")
tasks: dict[str, Role] = {"events -> bids -> chosen": "source", "table": "sink"}
record_schema = nexmark.RECORD_SCHEMA
row_schema = "channel STRING, auction BIGINT, price BIGINT"

EVERY = 123
HOT = 100 * EVERY - FIRST_ID
"""The number of auctions before the first that is both hot and a 123rd one."""

oracle_sql = f"""
WITH {nexmark.VIEWS}
SELECT scenario_id, channel, auction, price FROM bid WHERE auction % {EVERY} = 0
"""


def generate(random: Random) -> Workload:
    """Draw events around a selected auction."""
    return nexmark.draw(random, first_auctions=(9 * EVERY - FIRST_ID, HOT))


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> bids -> chosen -> table."""
    bids = nexmark.bids(nexmark.source(env, io), io)
    chosen = bids.flat_map(_chosen).name("chosen").uid("chosen").set_parallelism(io.source_parallelism)
    nexmark.into_table(chosen, io, column=1)


def _chosen(bid: tuple[int, int, int, str, str]) -> tuple[tuple[str, int, int], ...]:
    auction, _bidder, price, channel, _url = bid
    return () if auction % EVERY else ((channel, auction, price),)


def expected(records: Records, declared: Declared) -> Rows:
    """Return the bids for selected auctions."""
    bids = nexmark.all_bids(records)
    return [(bid.channel, bid.auction, bid.price) for _, bid in bids if bid.auction % EVERY == 0]
