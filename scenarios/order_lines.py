"""Orders and refunds of a shop, booked and taken apart: two inputs by every function that keeps no state.

A map books each order and refund, a flat map gives the lines of an order, and a process function puts both
together with their timestamps. Between them are rescale, rebalance and forward edges. Each record gives rows
of its own, so one that is lost, read twice or taken for the other input shows.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.connected_functions import CoFlatMapFunction, CoMapFunction, CoProcessFunction
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._streams import StreamSource, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
    from onceproof.harness.model.scenario import InputRecord

name = "order_lines"
generator_version = 1
options = FamilyOptions(any_backend=True, at_least_once="rows")
tasks: dict[str, Role] = {
    "orders": "source",
    "refunds": "source",
    "booked": "keyed",
    "lines": "keyed",
    "ledger": "keyed",
    "table": "sink",
}
record_schema = "item STRING, number BIGINT, pieces BIGINT"
row_schema = "origin STRING, kind STRING, item STRING, number BIGINT, pieces BIGINT, at BIGINT"
oracle_sql = """
WITH marked AS (
  SELECT *, startswith(split, 'orders-') AS is_order FROM records
)
SELECT scenario_id, 'booked' AS origin, if(is_order, 'order', 'refund') AS kind, item, number,
  if(is_order, pieces, -pieces) AS pieces, timestamp AS at
FROM marked
UNION ALL
SELECT scenario_id, 'lines', 'line', item, number, explode(sequence(1L, pieces)), timestamp
FROM marked WHERE is_order AND pieces > 0
UNION ALL
SELECT scenario_id, 'lines', 'return', item, number, pieces, timestamp
FROM marked WHERE NOT is_order AND pieces > 0
"""

ITEMS = ("apple", "bread", "cheese")
LINE = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
ROW = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])


def generate(random: Random) -> Workload:
    """Draw up to two splits of each stream; some orders are of no piece."""
    chance = Chance(random)
    longest = chance.weighted([(4, 1), (10, 3), (20, 3)])
    number = 0
    records: dict[str, tuple[InputRecord, ...]] = {}
    for stream in ("orders", "refunds"):
        for split in range(chance.integer(1, 2)):
            drawn: list[InputRecord] = []
            for time in range(chance.integer(0, longest)):
                number += 1
                drawn.append((time * 7, (chance.choice(ITEMS), number, chance.integer(0, 3))))
            records[f"{stream}-{split}"] = tuple(drawn)
    return Workload(records, {"records": number})


class Book(CoMapFunction):
    """Books the pieces of an order, and takes those of a refund off."""

    def map1(self, value: tuple[str, int, int]) -> tuple[str, str, int, int]:
        return "order", *value

    def map2(self, value: tuple[str, int, int]) -> tuple[str, str, int, int]:
        item, number, pieces = value
        return "refund", item, number, -pieces


class Lines(CoFlatMapFunction):
    """Emits a line for each piece of an order, and one for a refund that is not empty."""

    def flat_map1(self, value: tuple[str, int, int]) -> Iterator[tuple[str, str, int, int]]:
        item, number, pieces = value
        for piece in range(pieces):
            yield "line", item, number, piece + 1

    def flat_map2(self, value: tuple[str, int, int]) -> Iterator[tuple[str, str, int, int]]:
        if value[2]:
            yield "return", *value


class Ledger(CoProcessFunction):
    """Adds to what is booked and to lines where they come from, and their timestamp."""

    def process_element1(
        self, value: tuple[str, str, int, int], ctx: CoProcessFunction.Context
    ) -> Iterator[tuple[Any, ...]]:
        yield "booked", *value, ctx.timestamp()

    def process_element2(
        self, value: tuple[str, str, int, int], ctx: CoProcessFunction.Context
    ) -> Iterator[tuple[Any, ...]]:
        yield "lines", *value, ctx.timestamp()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build orders and refunds -> booked and lines -> ledger -> table."""
    orders, refunds = _stream(env, io, "orders"), _stream(env, io, "refunds")
    booked = orders.rescale().connect(refunds.rescale()).map(Book(), LINE)
    lines = orders.rebalance().connect(refunds.rebalance()).flat_map(Lines(), LINE)
    booked, lines = _named(booked, "booked", io), _named(lines, "lines", io)
    ledger = _named(booked.forward().connect(lines.forward()).process(Ledger(), ROW), "ledger", io)
    table = ledger.rebalance().add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _stream(env: StreamExecutionEnvironment, io: JobIO, stream: str) -> DataStream:
    records = env.from_source(StreamSource(io.source(stream), stream), None, stream)
    return records.uid(stream).set_parallelism(io.source_parallelism)


def _named(stream: DataStream, name: str, io: JobIO) -> DataStream:
    return stream.name(name).uid(name).set_parallelism(io.parallelism)


def expected(records: Records, declared: Declared) -> Rows:
    """Book each record, and take orders apart."""
    rows: list[tuple[Any, ...]] = []
    for stream in ("orders", "refunds"):
        is_order = stream == "orders"
        for split in part_of(records, stream).values():
            for at, value in split:
                assert isinstance(value, tuple)
                item, number, pieces = value
                count = int(pieces or 0)
                if is_order:
                    rows.append(("booked", "order", item, number, count, at))
                    rows += [("lines", "line", item, number, piece, at) for piece in range(1, count + 1)]
                else:
                    rows.append(("booked", "refund", item, number, -count, at))
                    rows += [("lines", "return", item, number, count, at)] * (count > 0)
    return rows
