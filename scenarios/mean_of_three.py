"""The average of every three elements: a count window and a function that sees the whole window.

All elements of a window are kept in a list until the third has come, and are gone after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.engine.types import Types
from onceproof.engine.windows.functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.family import Declared, JobIO, Records, Rows
from onceproof.scenarios import _averages
from onceproof.scenarios._averages import THREE, generate, record_schema, tasks
from onceproof.scenarios._keyed_job import into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.environment import StreamExecutionEnvironment

__all__ = ["expected", "generate", "job", "record_schema", "tasks"]

name = "mean_of_three"
generator_version = 1
row_schema = "split STRING, key STRING, average DOUBLE"
oracle_sql = f"SELECT scenario_id, split, key, average FROM ({_averages.oracle_sql})"


class Mean(ProcessWindowFunction):
    """Averages the numbers of a window."""

    def process(
        self,
        key: tuple[str, str],
        context: WindowContext,
        elements: Iterable[tuple[str, str, int]],
    ) -> Iterator[tuple[str, str, float]]:
        """Emit the average."""
        numbers = [number for _, _, number in elements]
        yield *key, sum(numbers) / len(numbers)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> averages -> table."""
    windows = keyed_records(env, io, "values").count_window(THREE)
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.DOUBLE()])
    into_table(named(windows.process(Mean(), row), "averages", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Average each three in a row."""
    return [(split, key, average) for split, key, _, average in _averages.expected(records, declared)]
