"""A table of the sum of each key, of a streaming job: timers at the end of event time write it.

Only the end of the input brings the watermark that they wait for, or a stop that drains the job. A stop
without draining keeps the sums in its savepoint. What the job emits at such a stop, it emits again after the
restore. A sink with transactions would abort it; this sink writes by key, and a reader sees each sum that is
not whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ReducingStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.family import FamilyOptions, JobIO, Role
from onceproof.scenarios import final_table, running_sum
from onceproof.scenarios._keyed_job import keyed_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "closing_sums"
generator_version = 1
tasks: dict[str, Role] = {"values": "source", "sums -> table": "sink"}
record_schema = final_table.record_schema
row_schema = final_table.row_schema
oracle_sql = final_table.oracle_sql
generate = running_sum.generate
expected = final_table.expected
AT_THE_END_MS: Final = 1 << 62
"""No record has so late a time."""


class ClosingSum(KeyedProcessFunction):
    """Adds the values of each key, and emits the sum when event time ends."""

    def open(self, runtime_context: RuntimeContext) -> None:
        add = running_sum.Add()
        self._sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", add, Types.LONG()))

    def process_element(self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context) -> None:
        self._sum.add(value[2])
        ctx.timer_service().register_event_time_timer(AT_THE_END_MS)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[tuple[str, str, int]]:
        split, key = ctx.get_current_key()
        yield split, key, self._sum.get()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> sums -> table, the last two in one chain."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
    sums = keyed_records(env, io, "values").process(ClosingSum(), row).name("sums").uid("sums")
    table = sums.set_parallelism(io.sink_parallelism).add_sink(io.upsert_sink("table", final_table.KEYS))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


options = FamilyOptions(
    any_backend=True,
    table_keys=final_table.KEYS,
    versions=final_table.versions,
    written_at_end=True,
)
