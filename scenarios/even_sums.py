"""The sum of the even numbers among every three of a key: count windows with an evictor, then numbered rows.

A window that holds only odd numbers is empty after its evictor, and fires all the same: its sum is 0. One
operator numbers the sums. It is created while the environment has a parallelism of 1, and keeps it, although
the environment has another one when the job is built: several subtasks would give a number twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.functions import (
    AggregateFunction,
    CheckpointedFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import GlobalWindows
from onceproof.engine.windows.evictors import Evictor, TimestampedValue, WindowEvictorContext
from onceproof.engine.windows.triggers import CountTrigger, PurgingTrigger
from onceproof.engine.windows.window_functions import WindowFunction
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows
from onceproof.scenarios._keyed_job import groups_of, keyed_records, named
from onceproof.scenarios.averages import THREE, average_by_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "even_sums"
generator_version = 1
tasks: dict[str, Role] = {"values": "source", "sums": "keyed", "numbered": "keyed", "table": "sink"}
record_schema = average_by_list.record_schema
row_schema = "kind STRING, split STRING, key STRING, value BIGINT"
oracle_sql = f"""
WITH places AS (
    SELECT *, row_number() OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS place FROM records
  ),
  sums AS (
    SELECT scenario_id, split, key, sum(CASE WHEN number % 2 = 0 THEN number ELSE 0 END) AS value
    FROM places GROUP BY scenario_id, split, key, ceil(place / {THREE}) HAVING count(*) = {THREE}
  )
SELECT scenario_id, 'sum' AS kind, split, key, value FROM sums
UNION ALL
SELECT scenario_id, 'number' AS kind, '' AS split, '' AS key,
  row_number() OVER (PARTITION BY scenario_id ORDER BY split) AS value
FROM sums
"""
generate = average_by_list.generate
ROW: Final = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG()])


class OddOut(Evictor):
    """Removes odd numbers before the function sees a window."""

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: WindowEvictorContext
    ) -> None:
        elements[:] = [element for element in elements if element.value[2] % 2 == 0]

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: WindowEvictorContext
    ) -> None:
        pass


class Sum(AggregateFunction):
    """Adds numbers."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: tuple[str, str, int], accumulator: int) -> int:
        return accumulator + value[2]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class SumRow(WindowFunction):
    """Adds split and key to a sum."""

    def apply(
        self, key: tuple[str, str], window: Any, inputs: Iterable[int]
    ) -> Iterator[tuple[str, str, str, int]]:
        for total in inputs:
            yield "sum", *key, total


class Number(FlatMapFunction, CheckpointedFunction):
    """Emits each sum, and how many there have been."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._state = context.get_list_state(ListStateDescriptor("count", Types.LONG()))
        self._count = sum(self._state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update([self._count])

    def flat_map(self, value: tuple[str, str, str, int]) -> Iterator[tuple[str, str, str, int]]:
        self._count += 1
        yield value
        yield "number", "", "", self._count


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> sums of count windows -> numbered by one subtask -> table."""
    windows = keyed_records(env, io, "values").window(GlobalWindows.create())
    windows = windows.trigger(PurgingTrigger.of(CountTrigger.of(THREE))).evictor(OddOut())
    sums = named(windows.aggregate(Sum(), SumRow(), Types.LONG(), ROW), "sums", io)
    env.set_parallelism(1)
    numbered = sums.rebalance().flat_map(Number(), ROW).name("numbered").uid("numbered")
    env.set_parallelism(io.parallelism)
    table = numbered.rebalance().add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def expected(records: Records, declared: Declared) -> Rows:
    """Add the even numbers of each three in a row, and count the sums."""
    sums = [
        ("sum", split, str(key), sum(number for number in numbers if number % 2 == 0))
        for split, key, _, numbers in groups_of(THREE, records)
    ]
    return [*sums, *[("number", "", "", place) for place in range(1, len(sums) + 1)]]


options = FamilyOptions(any_backend=True)
