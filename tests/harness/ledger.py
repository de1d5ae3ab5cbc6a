"""The ledger of a bank, as a new user writes it: event-time timers, and no word about what they decide.

At the end of each day the balance of each account is posted, then the running total of these balances. The
rows at the end follow from the input. When they come depends on watermarks, so the rows at a cut do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from onceproof import Chance, Workload
from onceproof.engine import (
    KeyedProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from onceproof.harness.model.family import Declared, JobIO, Records, Rows

name = "ledger"
generator_version = 1
tasks = {"postings": "source", "balance": "keyed", "total": "keyed", "book": "sink"}
record_schema = "account STRING, cents BIGINT"
row_schema = "account STRING, day BIGINT, total BIGINT"
oracle_sql = """
WITH days AS (
  SELECT scenario_id, account, timestamp - timestamp % 100 AS day, sum(cents) AS cents
  FROM records GROUP BY ALL
), balances AS (
  SELECT scenario_id, account, day, sum(cents) OVER (PARTITION BY scenario_id, account ORDER BY day) AS cents
  FROM days
)
SELECT scenario_id, account, day, sum(cents) OVER (PARTITION BY scenario_id, account ORDER BY day) AS total
FROM balances
"""

DAY_MS = 100


def generate(random: Random) -> Workload:
    """Draw the postings of up to three accounts, each a split of its own."""
    chance = Chance(random)
    accounts = ("ann", "bob", "cid")[: chance.integer(1, 3)]
    postings = {}
    for account in accounts:
        time, own = 0, []
        for _ in range(chance.integer(0, 12)):
            time += chance.integer(0, 60)
            own.append((time, (account, chance.integer(1, 99))))
        postings[account] = own
    return Workload(postings)


class Balance(KeyedProcessFunction):
    """Adds up the postings of each day, and posts the balance when the day is over."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.LONG()))
        days = MapStateDescriptor("days", Types.LONG(), Types.LONG())
        self._days = runtime_context.get_map_state(days)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        """Note a posting on its day."""
        timestamp = ctx.timestamp()
        assert timestamp is not None
        day = timestamp - timestamp % DAY_MS
        self._days.put(day, (self._days.get(day) or 0) + value[1])
        ctx.timer_service().register_event_time_timer(day + DAY_MS - 1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        """Post the balance of a day that is over."""
        day = timestamp - DAY_MS + 1
        self._balance.update((self._balance.value() or 0) + self._days.get(day))
        self._days.remove(day)
        yield ctx.get_current_key(), day, self._balance.value()


class Total(KeyedProcessFunction):
    """Adds up the balances of an account."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Emit the total with this balance."""
        self._total.update((self._total.value() or 0) + value[2])
        yield value[0], value[1], self._total.value()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build postings -> balance -> total -> book, all edges keyed by the account."""
    row = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    postings = env.from_source(io.source("postings"), in_order, "postings").uid("postings")
    postings.set_parallelism(io.source_parallelism)
    balances = postings.key_by(lambda posting: posting[0], Types.STRING()).process(Balance(), row)
    balances.name("balance").uid("balance").set_parallelism(io.parallelism)
    totals = balances.key_by(lambda row: row[0], Types.STRING()).process(Total(), row)
    totals.name("total").uid("total").set_parallelism(io.parallelism)
    book = totals.key_by(lambda row: row[0], Types.STRING()).add_sink(io.sink("book"))
    book.name("book").uid("book").set_parallelism(io.sink_parallelism)


def expected(records: Records, declared: Declared) -> Rows:
    """Return the total of each account after each of its days."""
    rows: list[Any] = []
    for account, postings in records.items():
        total = 0
        for day in sorted({time - time % DAY_MS for time, _ in postings}):
            amounts: list[Any] = [value for time, value in postings if time < day + DAY_MS]
            total += sum(cents for _, cents in amounts)
            rows.append((account, day, total))
    return rows
