"""The families of the wrong jobs: orders come in, rows go out, and what lies between is wrong.

An order is (number, customer, cents). Shops retry: the same order may come again. All orders of a customer
come in one split, so their order within a customer is that of the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from onceproof import Chance, FamilyOptions, Workload
from onceproof.engine import Duration, Types, WatermarkStrategy

ORDER = Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()])
ROW = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
AMOUNT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
Order = tuple[int, str, int]
Rows = list[tuple[Any, ...]]
MINUTE = 60_000
CUSTOMERS = 3


def draw_orders(random: Random) -> Workload:
    """Draw orders of three customers, some of them retried."""
    chance = Chance(random)
    splits: dict[str, list[tuple[int, Order]]] = {"orders-0": [], "orders-1": []}
    now = 0
    for number in range(chance.integer(4, 16)):
        now += chance.integer(0, MINUTE // 2)
        customer = chance.integer(0, CUSTOMERS - 1)
        orders = splits[f"orders-{customer % 2}"]
        if orders and chance.chance(0.3):
            orders.append((now, chance.choice(orders)[1]))
        else:
            orders.append((now, (number, f"c{customer}", chance.integer(1, 99))))
    return Workload(splits)


@dataclass(frozen=True)
class WrongJob:
    """A family whose job is wrong.

    Args:
        name: its name.
        build: makes the rows of the orders, in a vertex that is named work.
        rows: the rows that the orders of each split should give, all splits together.
        held_back: whether rows may come later than the order that they follow from.
        sink: what stands before the sink of the harness.
        vertices: those between orders and rows.
    """

    name: str
    build: Callable[..., Any]
    rows: Callable[[list[tuple[int, Order]]], Rows]
    held_back: bool = False
    sink: Callable[[Any], Any] = lambda sink: sink
    generate: Callable[[Random], Workload] = draw_orders
    row_schema: str = "customer STRING, what BIGINT, value BIGINT"
    vertices: tuple[str, ...] = ("work",)
    generator_version: int = 1
    record_schema: str = "number BIGINT, customer STRING, cents BIGINT"
    oracle_sql: str = "SELECT scenario_id, customer, what, value FROM declared"

    @property
    def tasks(self) -> Mapping[str, str]:
        """The vertices of the job."""
        return {"orders": "source", **dict.fromkeys(self.vertices, "keyed"), "rows": "sink"}

    @property
    def options(self) -> FamilyOptions:
        """Rows that may come later are declared by the run."""
        return FamilyOptions(declares=True, barriers="aligned") if self.held_back else FamilyOptions()

    def job(self, env: Any, io: Any) -> None:
        """Build orders -> work -> rows."""
        times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))
        orders = env.from_source(io.source("orders"), times, "orders").uid("orders")
        orders.set_parallelism(io.source_parallelism)
        rows = self.build(orders).name("work").uid("work").set_parallelism(io.parallelism)
        sink = rows.key_by(lambda row: row[0], Types.STRING()).add_sink(self.sink(io.sink("rows")))
        sink.name("rows").uid("rows").set_parallelism(io.sink_parallelism)

    def expected(self, records: Mapping[str, Sequence[Any]], declared: Any) -> Rows:
        """Return the rows; those that are held back are not asked for before the end."""
        orders = [record for split in sorted(records) for record in records[split]]
        rows = self.rows(orders)
        return declared.so_far(rows) if self.held_back else rows


def first_orders(orders: list[tuple[int, Order]]) -> list[Order]:
    """Return each order once."""
    return list(dict.fromkeys(order for _, order in orders))


def counted(orders: list[tuple[int, Order]]) -> Rows:
    """Return for each order how many its customer has placed so far, and for how much."""
    counts: Counter[str] = Counter()
    cents: Counter[str] = Counter()
    rows: Rows = []
    for _, (_, customer, amount) in orders:
        counts[customer] += 1
        cents[customer] += amount
        rows.append((customer, counts[customer], cents[customer]))
    return rows


def deduplicated(orders: list[tuple[int, Order]]) -> Rows:
    """Return a row for each order, retries left out."""
    return [(customer, number, cents) for number, customer, cents in first_orders(orders)]


def differences(orders: list[tuple[int, Order]]) -> Rows:
    """Return for each order by how much it is more than the customer's last one."""
    last: Counter[str] = Counter()
    rows: Rows = []
    for _, (number, customer, cents) in orders:
        rows.append((customer, number, cents - last[customer]))
        last[customer] = cents
    return rows


def by_minute(orders: list[tuple[int, Order]]) -> Rows:
    """Return for each minute what each customer has ordered in it."""
    cents: Counter[tuple[str, int]] = Counter()
    for at, (_, customer, amount) in orders:
        cents[customer, at // MINUTE] += amount
    return [(customer, minute, amount) for (customer, minute), amount in cents.items()]


def held_back_rows(orders: list[tuple[int, Order]]) -> Rows:
    """Return a row for each order, retries included."""
    return [(customer, number, cents) for _, (number, customer, cents) in orders]


def passed_on(orders: Any) -> Any:
    """Return a row for each order."""
    return orders.key_by(lambda order: order[0], Types.LONG()).map(
        lambda order: (order[1], order[0], order[2]), ROW
    )


def draw_late_orders(random: Random) -> Workload:
    """Draw orders of which some are a few minutes late."""
    chance = Chance(random)
    splits = {
        split: [
            (max(0, at - chance.integer(0, 3) * MINUTE), order) if chance.chance(0.3) else (at, order)
            for at, order in orders
        ]
        for split, orders in draw_orders(random).records.items()
    }
    return Workload(splits)
