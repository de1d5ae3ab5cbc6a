"""Bonuses for accounts and payments: each account and each payment gets each bonus once, whichever is first.

The bonuses are broadcast and kept in BroadcastState. An account that is known when a bonus comes gets it by
``apply_to_keyed_state``; an account that comes later finds the bonus in the broadcast state. Payments are
paired by a function without a key, which keeps them in operator state. So the rows do not depend on which
input is ahead. A copy of the broadcast state that lost a bonus gives fewer rows, and so does a rescale that
loses an account or a payment; one that is restored twice gives rows twice.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.broadcast_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from onceproof.engine.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
)
from onceproof.engine.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._streams import StreamSource, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
    from onceproof.harness.model.scenario import InputRecord

name = "bonuses"
generator_version = 2
tasks: dict[str, Role] = {
    "payments": "source",
    "bonuses": "source",
    "accounts": "keyed",
    "paid": "keyed",
    "table": "sink",
}
record_schema = "account STRING, number BIGINT"
row_schema = "kind STRING, account STRING, payment BIGINT, bonus BIGINT"
oracle_sql = """
WITH bonuses AS (
  SELECT scenario_id, number AS bonus FROM records WHERE startswith(split, 'bonuses-')
), payments AS (
  SELECT scenario_id, account, number AS payment FROM records WHERE startswith(split, 'payments-')
)
SELECT scenario_id, 'account' AS kind, account, 0L AS payment, bonus
FROM (SELECT DISTINCT scenario_id, account FROM payments) JOIN bonuses USING (scenario_id)
UNION ALL
SELECT scenario_id, 'payment', account, payment, bonus FROM payments JOIN bonuses USING (scenario_id)
"""

ACCOUNTS = ("ann", "bob", "cid", "dora", "eva", "fay")
BANK = "bank"
"""The account in the records of bonuses."""

NUMBER = Types.LONG()
PAYMENT = Types.TUPLE([Types.STRING(), NUMBER])
ROW = Types.TUPLE([Types.STRING(), Types.STRING(), NUMBER, NUMBER])
BONUSES = MapStateDescriptor("bonuses", NUMBER, NUMBER)
ACCOUNT = ValueStateDescriptor("account", Types.STRING())


def generate(random: Random) -> Workload:
    """Draw up to three splits of payments, and a few bonuses in one split."""
    chance = Chance(random)
    accounts = ACCOUNTS[: chance.weighted([(1, 2), (2, 3), (6, 4)])]
    longest = chance.weighted([(3, 1), (8, 3), (14, 3)])
    number = 0
    records: dict[str, tuple[InputRecord, ...]] = {}
    for split in range(chance.integer(1, 3)):
        drawn: list[InputRecord] = []
        for time in range(chance.integer(0, longest)):
            number += 1
            drawn.append((time, (chance.choice(accounts), number)))
        records[f"payments-{split}"] = tuple(drawn)
    bonuses = chance.weighted([(0, 1), (1, 1), (2, 2), (chance.integer(3, 6), 3), (chance.integer(7, 14), 3)])
    records["bonuses-0"] = tuple([(time, (BANK, time + 1)) for time in range(bonuses)])
    return Workload(records, {"accounts": len(accounts), "bonuses": bonuses})


class Credit(KeyedStateFunction):
    """Collects the rows of a bonus for the accounts that it is called for."""

    def __init__(self, bonus: int) -> None:
        self._bonus = bonus
        self.rows: list[tuple[str, str, int, int]] = []

    def process(self, key: str, state: Any) -> None:
        """Credit the account in the state."""
        self.rows.append(("account", state.value(), 0, self._bonus))


class Accounts(KeyedBroadcastProcessFunction):
    """Gives each account each bonus."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._account = runtime_context.get_state(ACCOUNT)

    def process_element(
        self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[str, str, int, int]]:
        """Give a new account all bonuses so far."""
        if self._account.value() is None:
            self._account.update(value[0])
            for bonus, _ in ctx.get_broadcast_state(BONUSES).items():
                yield "account", value[0], 0, bonus

    def process_broadcast_element(
        self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.Context
    ) -> list[tuple[str, str, int, int]]:
        """Give the bonus to all accounts so far."""
        ctx.get_broadcast_state(BONUSES).put(value[1], value[1])
        credit = Credit(value[1])
        ctx.apply_to_keyed_state(ACCOUNT, credit)
        return credit.rows


class Paid(BroadcastProcessFunction, CheckpointedFunction):
    """Gives each payment each bonus; the payments so far are in operator state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register the payments, and read those of a checkpoint."""
        descriptor = ListStateDescriptor("payments", PAYMENT)
        self._state = context.get_operator_state_store().get_list_state(descriptor)
        self._payments = list(self._state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(self._payments)

    def process_element(
        self, value: tuple[str, int], ctx: BroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[str, str, int, int]]:
        """Give a payment all bonuses so far."""
        self._payments.append(value)
        for bonus, _ in ctx.get_broadcast_state(BONUSES).items():
            yield "payment", *value, bonus

    def process_broadcast_element(
        self, value: tuple[str, int], ctx: BroadcastProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, int]]:
        """Give the bonus to all payments so far."""
        ctx.get_broadcast_state(BONUSES).put(value[1], value[1])
        for account, payment in self._payments:
            yield "payment", account, payment, value[1]


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build payments -> accounts and paid -> table; the bonuses are broadcast to both."""
    payments, bonuses = _stream(env, io, "payments"), _stream(env, io, "bonuses").broadcast(BONUSES)
    accounts = payments.key_by(_account, Types.STRING()).connect(bonuses).process(Accounts(), ROW)
    accounts = accounts.name("accounts").uid("accounts").set_parallelism(io.parallelism)
    paid = payments.rebalance().connect(bonuses).process(Paid(), ROW)
    paid = paid.name("paid").uid("paid").set_parallelism(io.parallelism)
    table = accounts.union(paid).key_by(_account_of_row, Types.STRING()).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _stream(env: StreamExecutionEnvironment, io: JobIO, stream: str) -> DataStream:
    records = env.from_source(StreamSource(io.source(stream), stream), None, stream, PAYMENT)
    return records.uid(stream).set_parallelism(io.source_parallelism)


def _account(value: tuple[str, int]) -> str:
    return value[0]


def _account_of_row(row: tuple[str, ...]) -> str:
    return row[1]


def expected(records: Records, declared: Declared) -> Rows:
    """Pair all accounts and all payments with all bonuses."""
    payments, bonuses = [
        [value for split in part_of(records, stream).values() for _, value in split]
        for stream in ("payments", "bonuses")
    ]
    rows: list[tuple[Any, ...]] = []
    for bonus in bonuses:
        assert isinstance(bonus, tuple)
        paid = [value for value in payments if isinstance(value, tuple)]
        rows += [("account", account, 0, bonus[1]) for account in sorted({str(value[0]) for value in paid})]
        rows += [("payment", *value, bonus[1]) for value in paid]
    return rows
