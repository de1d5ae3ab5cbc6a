"""The running sum of the values of a key, kept in a ReducingState."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.functions import KeyedProcessFunction, ReduceFunction, RuntimeContext
from onceproof.engine.state.descriptors import ReducingStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "running_sum"
generator_version = 1
tasks: dict[str, Role] = {"values": "source", "sums": "keyed", "table": "sink"}
record_schema = "key STRING, number BIGINT"
row_schema = "split STRING, key STRING, sum BIGINT"
oracle_sql = """
SELECT scenario_id, split, key,
       sum(number) OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS sum
FROM records
"""

KEYS = ("a", "b", "c", "d", "e", "f", "g")


def generate(random: Random) -> Workload:
    """Draw numbers that are mostly different, so that a sum shows which numbers are in it."""
    return draw_keyed(random, KEYS, _number)


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, chance.integer(-20, 1000)


class Add(ReduceFunction):
    """Adds two numbers."""

    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class RunningSum(KeyedProcessFunction):
    """Emits the sum after each value."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", Add(), Types.LONG()))

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int]]:
        split, key, number = value
        self._sum.add(number)
        yield split, key, self._sum.get()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> sums -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
    into_table(named(keyed_records(env, io, "values").process(RunningSum(), row), "sums", io), io)


def streaming_query(records: Any, io: Any) -> Any:
    """Add with applyInPandasWithState; the rows go to a sink of the harness."""
    return io.apply_in_pandas_with_state(records, ("split", "key"), _add_number, "sum BIGINT", row_schema)


def _add_number(state: tuple[int] | None, record: Any) -> tuple[tuple[int], tuple[str, str, int]]:
    total = (int(state[0]) if state else 0) + int(record.number)
    return (total,), (record.split, record.key, total)


def bytewax_flow(records: Any, io: Any) -> Any:
    """Add with stateful_map; the rows wait in the harness's sink until their epoch is in the store."""
    values = io.operators.key_on("key", records, lambda record: f"{record.split} {record.value[0]}")
    return io.operators.stateful_map("sums", values, _add_value)


def _add_value(total: int | None, record: Any) -> tuple[int, tuple[str, str, int]]:
    key, number = record.value
    total = (total or 0) + number
    return total, (record.split, key, total)


def quix_app(records: Any, io: Any) -> Any:
    """Add in states of the split, which is the key of a message."""
    return records.apply(_add_to_state, stateful=True)


def _add_to_state(record: Any, state: Any) -> tuple[str, str, int]:
    key, number = record["value"]
    total = state.get(key, 0) + number
    state.set(key, total)
    return record["split"], key, total


def expected(records: Records, declared: Declared) -> Rows:
    """Add the values of each key up to each of them."""
    rows = []
    for split, values in records.items():
        sums: dict[object, int] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            sums[value[0]] = total = sums.get(value[0], 0) + int(value[1] or 0)
            rows.append((split, value[0], total))
    return rows


options = FamilyOptions(
    any_backend=True,
    jobs={"structured_streaming": streaming_query, "bytewax": bytewax_flow, "quix": quix_app},
)
