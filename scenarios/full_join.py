"""A full join of two keyed streams: each side keeps all records of a key in a ListState.

An order and a payment of the same customer make a pair, whichever comes first: each is stored and paired with
the stored records of the other side. So each pair is emitted once, whichever input is ahead. Both inputs must
find the same state: under one key, in one key group, on one subtask, before and after a rescale, with the
barriers of both inputs before the snapshot.

The records of a customer come from one split of each stream, so the order within a list is fixed.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.connected_functions import KeyedCoProcessFunction
from onceproof.engine.functions import RuntimeContext
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._streams import StreamSource, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import KeyedStream, StreamExecutionEnvironment
    from onceproof.harness.model.scenario import InputRecord

name = "full_join"
generator_version = 1
tasks: dict[str, Role] = {"orders": "source", "payments": "source", "join": "keyed", "table": "sink"}
record_schema = "customer STRING, number BIGINT"
row_schema = "customer STRING, purchase BIGINT, payment BIGINT"
oracle_sql = """
SELECT orders.scenario_id, orders.customer, orders.number AS purchase, payments.number AS payment
FROM records AS orders
JOIN records AS payments
ON orders.scenario_id = payments.scenario_id AND orders.customer = payments.customer
WHERE startswith(orders.split, 'orders-') AND startswith(payments.split, 'payments-')
"""

CUSTOMERS = ("ann", "bob", "cid", "dora", "eva", "fay")
STREAMS = ("orders", "payments")


def generate(random: Random) -> Workload:
    """Draw up to two splits of each stream; some customers never pay, some pay without an order."""
    chance = Chance(random)
    customers = CUSTOMERS[: chance.weighted([(1, 2), (2, 3), (6, 4)])]
    records: dict[str, tuple[InputRecord, ...]] = {}
    number = 0
    for stream in STREAMS:
        splits = chance.integer(1, 2)
        home = {customer: chance.integer(0, splits - 1) for customer in customers}
        taking_part = chance.sample(customers, chance.weighted([(1, 1), (2, 1), (6, 5)]))
        drawn: list[list[InputRecord]] = [[] for _ in range(splits)]
        for time in range(chance.weighted([(0, 1), (chance.integer(1, 8), 3), (chance.integer(9, 24), 5)])):
            number += 1
            customer = chance.choice(taking_part)
            drawn[home[customer]].append((time, (customer, number)))
        for split, own in enumerate(drawn):
            records[f"{stream}-{split}"] = tuple(own)
    return Workload(records, {"customers": len(customers)})


class FullJoin(KeyedCoProcessFunction):
    """Pairs every order of a customer with every payment."""

    def open(self, runtime_context: RuntimeContext) -> None:
        number = Types.LONG()
        self._orders = runtime_context.get_list_state(ListStateDescriptor("orders", number))
        self._payments = runtime_context.get_list_state(ListStateDescriptor("payments", number))

    def process_element1(
        self, value: tuple[str, int], ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[str, int, int]]:
        """Pair an order with the payments that came before it."""
        customer, order = value
        self._orders.add(order)
        for payment in self._payments.get():
            yield customer, order, payment

    def process_element2(
        self, value: tuple[str, int], ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[str, int, int]]:
        """Pair a payment with the orders that came before it."""
        customer, payment = value
        self._payments.add(payment)
        for order in self._orders.get():
            yield customer, order, payment


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build orders and payments -> join -> table, all edges keyed by the customer."""
    row = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
    orders, payments = [_by_customer(env, io, stream) for stream in STREAMS]
    pairs = orders.connect(payments).process(FullJoin(), row)
    pairs = pairs.name("join").uid("join").set_parallelism(io.parallelism)
    table = pairs.key_by(_customer, Types.STRING()).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _by_customer(env: StreamExecutionEnvironment, io: JobIO, stream: str) -> KeyedStream:
    source = StreamSource(io.source(stream), stream)
    records = env.from_source(source, None, stream).uid(stream).set_parallelism(io.source_parallelism)
    return records.key_by(_customer, Types.STRING())


def _customer(value: tuple[str, ...]) -> str:
    return value[0]


def expected(records: Records, declared: Declared) -> Rows:
    """Pair all orders with all payments of each customer."""
    numbers: dict[str, dict[object, list[object]]] = {}
    for stream in STREAMS:
        of_customer = numbers[stream] = defaultdict(list)
        for split in part_of(records, stream).values():
            for _, value in split:
                assert isinstance(value, tuple)
                customer, number = value
                of_customer[customer].append(number)
    orders, payments = [numbers[stream] for stream in STREAMS]
    return [
        (customer, order, payment)
        for customer, placed in orders.items()
        for order in placed
        for payment in payments[customer]
    ]
