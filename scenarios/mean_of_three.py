"""The average of every three elements: a count window and a function that gets the whole window.

All elements of a window are kept in a list until the third has come, and are then removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.engine.types import Types
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.family import Declared, JobIO, Records, Rows
from onceproof.scenarios._keyed_job import into_table, keyed_records, named
from onceproof.scenarios.averages import THREE, average_by_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "mean_of_three"
generator_version = 1
tasks = average_by_list.tasks
record_schema = average_by_list.record_schema
row_schema = "split STRING, key STRING, average DOUBLE"
oracle_sql = f"SELECT scenario_id, split, key, average FROM ({average_by_list.oracle_sql})"
generate = average_by_list.generate


class Mean(ProcessWindowFunction):
    """Averages the numbers of a window."""

    def process(
        self,
        key: tuple[str, str],
        context: WindowContext,
        elements: Iterable[tuple[str, str, int]],
    ) -> Iterator[tuple[str, str, float]]:
        numbers = [number for _, _, number in elements]
        yield *key, sum(numbers) / len(numbers)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> averages -> table."""
    windows = keyed_records(env, io, "values").count_window(THREE)
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.DOUBLE()])
    into_table(named(windows.process(Mean(), row), "averages", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Average each three values in a row."""
    return [(split, key, average) for split, key, _, average in average_by_list.expected(records, declared)]
