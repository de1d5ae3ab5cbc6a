"""Orders get the region of their customer from a table of PostgreSQL, and each region has a running total.

Requests for regions are asynchronous: they overtake each other, and those in flight at a checkpoint are made
again after a restore. So an order may be looked up twice, and must count once. In which order the orders
come to their region is the run's choice: each row declares its place. An order that is counted twice has two
places, one that is lost has none, and a total that forgets or repeats an order fits no place.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onceproof.engine.api.async_data_stream import AsyncDataStream
from onceproof.engine.async_functions import AsyncFunction, AsyncRetryStrategy
from onceproof.engine.async_retry_predicates import exception_type_predicate
from onceproof.engine.connectors.jdbc.two_phase_database import DatabaseUnavailable
from onceproof.engine.durations import Time
from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import (
    POSTGRES,
    Declared,
    FamilyOptions,
    JobIO,
    Records,
    Role,
    Rows,
    Workload,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment

Order: TypeAlias = tuple[int, int, int]
"""Id, customer and amount."""
OrderOfRegion: TypeAlias = tuple[str, int, int]
"""Region, id and amount."""
Total: TypeAlias = tuple[str, int, int, int]
"""Region, place in it, id, and the total up to there."""

CUSTOMERS: Final = (
    (1, "north"),
    (2, "north"),
    (3, "north"),
    (4, "south"),
    (5, "south"),
    (6, "east"),
    (7, "east"),
    (8, "west"),
)
"""The rows of the table: customer and region."""
STRANGER: Final = 9
"""A customer that the table does not have."""
NOWHERE: Final = "unknown"
TRIES: Final = 8
LONGEST_LOOKUP_SECONDS: Final = 60

name = "orders_with_lookup"
generator_version = 1
options = FamilyOptions(declares=True, arrival_states=("total",), servers=(POSTGRES,))
"""How far a total is at a cut depends on which lookups are in flight."""
tasks: dict[str, Role] = {"orders": "source", "regions": "keyed", "totals": "keyed", "table": "sink"}
record_schema = "order_id BIGINT, customer BIGINT, amount BIGINT"
row_schema = "region STRING, place BIGINT, order_id BIGINT, total BIGINT"
oracle_sql = f"""
WITH customers AS (SELECT * FROM VALUES {", ".join(map(str, CUSTOMERS))} AS customers(customer, region)),
orders AS (
    SELECT records.scenario_id, order_id, amount, coalesce(customers.region, '{NOWHERE}') AS region
    FROM records LEFT JOIN customers ON customers.customer = records.customer
),
seen AS (
    SELECT scenario_id, order_id, min(place) AS first_place FROM declared GROUP BY scenario_id, order_id
)
SELECT orders.scenario_id, region, row_number() OVER turns AS place, orders.order_id,
       sum(amount) OVER turns AS total
FROM orders LEFT JOIN seen ON seen.scenario_id = orders.scenario_id AND seen.order_id = orders.order_id
WINDOW turns AS (
    PARTITION BY orders.scenario_id, region ORDER BY first_place IS NULL, first_place, orders.order_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
)
"""


def generate(random: Random) -> Workload:
    """Draw up to three splits of orders, and how their customers are looked up."""
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 3), (3, 2)])
    longest = chance.weighted([(4, 1), (12, 3), (24, 2)])
    customers = chance.weighted([(2, 1), (5, 2), (STRANGER, 3)])
    records = {}
    for split in range(splits):
        timestamp = 0
        drawn: list[tuple[int, Order]] = []
        for place in range(chance.integer(0, longest)):
            timestamp += chance.integer(0, 20)
            order = split * 1000 + place, chance.integer(1, customers), chance.integer(1, 500)
            drawn.append((timestamp, order))
        records[f"orders-{split}"] = tuple(drawn)
    parameters = {
        "ordered": chance.chance(0.5),
        "capacity": chance.weighted([(1, 2), (2, 2), (4, 2), (16, 2)]),
        "grows": chance.chance(0.5),
    }
    return Workload(records, parameters)


class RegionOfCustomer(AsyncFunction):
    """Replaces the customer of an order by its region. The lookup raises DatabaseUnavailable."""

    def __init__(self, regions: Any) -> None:
        self._regions = regions

    def open(self, runtime_context: RuntimeContext) -> None:
        self._regions.open(runtime_context)

    async def async_invoke(self, value: Order) -> list[OrderOfRegion]:
        order, customer, amount = value
        row = await self._regions.row_of(customer)
        return [(NOWHERE if row is None else row[1], order, amount)]

    def close(self) -> None:
        self._regions.close()


class RunningTotal(KeyedProcessFunction):
    """Adds an order to the total of its region, and says at which place it came."""

    def open(self, runtime_context: RuntimeContext) -> None:
        both = Types.TUPLE([Types.LONG(), Types.LONG()])
        self._total = runtime_context.get_state(ValueStateDescriptor("total", both))

    def process_element(self, value: OrderOfRegion, ctx: KeyedProcessFunction.Context) -> Iterator[Total]:
        region, order, amount = value
        place, total = self._total.value() or (0, 0)
        self._total.update((place + 1, total + amount))
        yield region, place + 1, order, total + amount


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build orders -> regions -> totals -> table."""
    orders = env.from_source(io.source("orders"), None, "orders").uid("orders")
    orders.set_parallelism(io.source_parallelism)
    regions = _looked_up(orders.rebalance(), io).name("regions").uid("regions")
    total = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])
    totals = (
        regions.set_parallelism(io.parallelism)
        .key_by(lambda order: order[0], key_type=Types.STRING())
        .process(RunningTotal(), total)
        .name("totals")
        .uid("totals")
        .set_parallelism(io.parallelism)
    )
    by_region = totals.key_by(lambda row: row[0], key_type=Types.STRING())
    table = by_region.add_sink(io.postgres_sink("totals"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _looked_up(orders: DataStream, io: JobIO) -> DataStream:
    """Ask for the regions of orders; again after a while, where the server is away."""
    asked: dict[str, Any] = dict(io.parameters)
    is_away = partial(exception_type_predicate, expected_error_type=DatabaseUnavailable)
    if asked["grows"]:
        strategy = AsyncRetryStrategy.exponential_backoff(TRIES, 2, 400, 2, exception_predicate=is_away)
    else:
        strategy = AsyncRetryStrategy.fixed_delay(TRIES, 10, exception_predicate=is_away)
    wait = (
        AsyncDataStream.ordered_wait_with_retry
        if asked["ordered"]
        else AsyncDataStream.unordered_wait_with_retry
    )
    return wait(
        orders,
        RegionOfCustomer(io.postgres_lookup("customers", CUSTOMERS)),
        Time.seconds(LONGEST_LOOKUP_SECONDS),
        strategy,
        asked["capacity"],
        Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]),
    )


def expected(records: Records, declared: Declared) -> Rows:
    """Return the totals with the orders as they have come; before the end, of those that have."""
    first_place: dict[object, int] = {}
    for _, place, order, _ in declared.rows:
        if not isinstance(place, int):
            # It is no place, so the row follows from nothing.
            continue
        first_place[order] = min(place, first_place.get(order, place))
    regions: dict[object, str] = dict(CUSTOMERS)
    orders: dict[str, list[tuple[bool, int, int, int]]] = {}
    for split in records.values():
        for _, value in split:
            assert isinstance(value, tuple)
            order, customer, amount = value
            place = first_place.get(order)
            if place is not None or declared.is_whole:
                came = place is None, place or 0, int(order or 0), int(amount or 0)
                orders.setdefault(regions.get(customer, NOWHERE), []).append(came)
    rows = []
    for region, all_of_it in orders.items():
        total = 0
        for number, (_, _, order, amount) in enumerate(sorted(all_of_it), 1):
            total += amount
            rows.append((region, number, order, total))
    return rows
