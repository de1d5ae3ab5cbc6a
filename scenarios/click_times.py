"""Click times: the average time of every five clicks of a user, from an AggregatingState and a ValueState.

The AggregatingState holds the sum and the number of the times so far, from which ``get`` computes the
average; the ValueState counts the clicks. At the fifth click the average is emitted and both are cleared, so
both states of a key are set and removed in turn, and must be restored together.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.functions import AggregateFunction, KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import AggregatingStateDescriptor, ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "click_times"
generator_version = 1
tasks: dict[str, Role] = {"clicks": "source", "averages": "keyed", "table": "sink"}
record_schema = "person STRING, clicked BIGINT"
row_schema = "split STRING, person STRING, batch BIGINT, average DOUBLE"
oracle_sql = """
SELECT scenario_id, split, person, batch, avg(clicked) AS average
FROM (
  SELECT *, ceil(row_number() OVER (PARTITION BY scenario_id, split, person ORDER BY offset) / 5) AS batch
  FROM records
)
GROUP BY scenario_id, split, person, batch
HAVING count(*) = 5
"""

PERSONS = ("Alice", "Bob", "Cary", "Dana", "Erin", "Finn")
BATCH = 5


def generate(random: Random) -> Workload:
    """Draw the clicks of a few users, many at the same time."""
    return draw_keyed(random, PERSONS, _click)


def _click(chance: Chance, person: str, now: int) -> tuple[str, int]:
    return person, now


class AverageOfTimes(AggregateFunction):
    """Accumulates (sum, number)."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class AverageTime(KeyedProcessFunction):
    """Emits the average at every fifth click."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind both states, and a third that numbers the batches."""
        times = Types.TUPLE([Types.LONG(), Types.LONG()])
        self._average = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("average", AverageOfTimes(), times)
        )
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self._batches = runtime_context.get_state(ValueStateDescriptor("batches", Types.LONG()))

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, float]]:
        split, person, clicked = value
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        self._average.add(clicked)
        if count == BATCH:
            batch = (self._batches.value() or 0) + 1
            self._batches.update(batch)
            yield split, person, batch, self._average.get()
            self._average.clear()
            self._count.clear()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build clicks -> averages -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.DOUBLE()])
    clicks = keyed_records(env, io, "clicks")
    into_table(named(clicks.process(AverageTime(), row), "averages", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Average the times of each five clicks in a row."""
    rows = []
    for split, clicks in records.items():
        times: dict[str, list[int]] = {}
        for _, click in clicks:
            assert isinstance(click, tuple)
            times.setdefault(str(click[0]), []).append(int(click[1] or 0))
        for person, clicked in times.items():
            for batch in range(len(clicked) // BATCH):
                five = clicked[batch * BATCH : (batch + 1) * BATCH]
                rows.append((split, person, batch + 1, sum(five) / BATCH))
    return rows
