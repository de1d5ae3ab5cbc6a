"""Payments in the order of their time and all bonuses before them, in the runtime mode BATCH.

The input has the payments of an account in no order, in several splits. The job numbers them in the order of
their timestamps, with the one before and the number of bonuses, and adds them up at the end of the account.
The bonuses are broadcast. So a row shows whether a payment came in its place, and whether a bonus was late.
In some scenarios the payments are sorted in temporary files, because there is too little memory for them.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.api.batch_execution import RuntimeExecutionMode
from onceproof.engine.broadcast_functions import KeyedBroadcastProcessFunction
from onceproof.engine.configuration.options import SORTED_INPUTS_MEMORY
from onceproof.engine.functions import RuntimeContext
from onceproof.engine.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._streams import StreamSource, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
    from onceproof.harness.model.scenario import InputRecord

name = "ordered_payments"
generator_version = 2
options = FamilyOptions(batch=True, any_backend=True)
tasks: dict[str, Role] = {
    "payments": "source",
    "bonuses": "source",
    "ordered": "keyed",
    "table": "sink",
}
record_schema = "account STRING, number BIGINT"
row_schema = "kind STRING, account STRING, place BIGINT, number BIGINT, previous BIGINT, bonuses BIGINT"
oracle_sql = """
WITH bonuses AS (
  SELECT scenario_id, count(*) AS bonuses FROM records
  WHERE startswith(split, 'bonuses-') GROUP BY scenario_id
), payments AS (
  SELECT scenario_id, account, number, timestamp, coalesce(bonuses, 0L) AS bonuses
  FROM records LEFT JOIN bonuses USING (scenario_id) WHERE startswith(split, 'payments-')
)
SELECT scenario_id, 'payment' AS kind, account, CAST(row_number() OVER own AS BIGINT) AS place, number,
       lag(number, 1, 0L) OVER own AS previous, bonuses
FROM payments WINDOW own AS (PARTITION BY scenario_id, account ORDER BY timestamp)
UNION ALL
SELECT scenario_id, 'total', account, count(*), sum(number), 0L, max(bonuses)
FROM payments GROUP BY scenario_id, account
"""

ACCOUNTS = ("ann", "bob", "cid", "dora", "eva", "fay")
MEMORY = "memory_bytes"
"""Of a subtask's sorted input; 0: the usual."""
BANK = "bank"
"""The account in the records of bonuses."""

NUMBER = Types.LONG()
PAYMENT = Types.TUPLE([Types.STRING(), NUMBER])
ROW = Types.TUPLE([Types.STRING(), Types.STRING(), NUMBER, NUMBER, NUMBER, NUMBER])
BONUSES = MapStateDescriptor("bonuses", NUMBER, NUMBER)


def generate(random: Random) -> Workload:
    """Draw up to three splits of payments, each at a time of its own, and a few bonuses in one split."""
    chance = Chance(random)
    accounts = ACCOUNTS[: chance.weighted([(1, 2), (2, 3), (6, 4)])]
    sizes = [
        chance.integer(0, chance.weighted([(3, 1), (8, 3), (14, 3)])) for _ in range(chance.integer(1, 3))
    ]
    times = list(range(sum(sizes)))
    random.shuffle(times)
    records: dict[str, tuple[InputRecord, ...]] = {}
    for split, size in enumerate(sizes):
        records[f"payments-{split}"] = tuple(
            [(times.pop(), (chance.choice(accounts), chance.integer(1, 1000))) for _ in range(size)]
        )
    bonuses = chance.weighted([(0, 1), (1, 1), (2, 2), (chance.integer(3, 14), 4)])
    records["bonuses-0"] = tuple([(time, (BANK, time + 1)) for time in range(bonuses)])
    memory_bytes = chance.choice((0, 0, 400, 1_500))
    return Workload(records, {"accounts": len(accounts), "bonuses": bonuses, MEMORY: memory_bytes})


class Ordered(KeyedBroadcastProcessFunction):
    """Numbers the payments of an account, and adds them up when its first timer fires."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._place = runtime_context.get_state(ValueStateDescriptor("place", NUMBER))
        self._total = runtime_context.get_state(ValueStateDescriptor("total", NUMBER))
        self._previous = runtime_context.get_state(ValueStateDescriptor("previous", NUMBER))

    def process_element(
        self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[str, str, int, int, int, int]]:
        """Emit the payment in its place; the first one registers the timer, at its own time."""
        account, number = value
        place = (self._place.value() or 0) + 1
        timestamp = ctx.timestamp()
        if place == 1 and timestamp is not None:
            ctx.timer_service().register_event_time_timer(timestamp)
        yield "payment", account, place, number, self._previous.value() or 0, self._bonuses(ctx)
        self._place.update(place)
        self._previous.update(number)
        self._total.update((self._total.value() or 0) + number)

    def process_broadcast_element(
        self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.Context
    ) -> None:
        ctx.get_broadcast_state(BONUSES).put(value[1], value[1])

    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext
    ) -> Iterator[tuple[str, str, int, int, int, int]]:
        """Emit the total. The timer that it registers never fires: the account is at its end."""
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        yield "total", ctx.get_current_key(), self._place.value(), self._total.value(), 0, self._bonuses(ctx)

    def _bonuses(self, ctx: Any) -> int:
        return len(list(ctx.get_broadcast_state(BONUSES).items()))


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build payments -> ordered -> table; the bonuses are broadcast to ordered."""
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    if io.parameters[MEMORY]:
        env.get_configuration().set(SORTED_INPUTS_MEMORY, io.parameters[MEMORY])
    payments, bonuses = _stream(env, io, "payments"), _stream(env, io, "bonuses").broadcast(BONUSES)
    ordered = payments.key_by(_account, Types.STRING()).connect(bonuses).process(Ordered(), ROW)
    ordered = ordered.name("ordered").uid("ordered").set_parallelism(io.parallelism)
    table = ordered.key_by(_account_of_row, Types.STRING()).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _stream(env: StreamExecutionEnvironment, io: JobIO, stream: str) -> DataStream:
    records = env.from_source(StreamSource(io.source(stream), stream), None, stream, PAYMENT)
    return records.uid(stream).set_parallelism(io.source_parallelism)


def _account(value: tuple[str, int]) -> str:
    return value[0]


def _account_of_row(row: tuple[str, ...]) -> str:
    return row[1]


def expected(records: Records, declared: Declared) -> Rows:
    """Sort the payments of each account by time."""
    bonuses = sum(map(len, part_of(records, "bonuses").values()))
    payments: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for split in part_of(records, "payments").values():
        for time, value in split:
            assert isinstance(value, tuple)
            payments[str(value[0])].append((time, int(value[1] or 0)))
    rows: list[tuple[Any, ...]] = []
    for account, own in payments.items():
        numbers = [number for _, number in sorted(own)]
        for place, (number, previous) in enumerate(zip(numbers, [0, *numbers], strict=False), start=1):
            rows.append(("payment", account, place, number, previous, bonuses))
        rows.append(("total", account, len(numbers), sum(numbers), 0, bonuses))
    return rows
