"""The average of every three values of a key, kept in a ListState that is cleared when it holds three.

Adding to a list and clearing it are what a ListState is for; its elements have to keep their order and their
number over every restore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.scenarios._averages import (
    THREE,
    build,
    expected,
    generate,
    oracle_sql,
    record_schema,
    row_schema,
    tasks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.environment import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

__all__ = ["expected", "generate", "job", "oracle_sql", "record_schema", "row_schema", "tasks"]

name = "average_by_list"
generator_version = 1
any_backend = True


class AverageByList(KeyedProcessFunction):
    """Collects three values and begins anew."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the list, and the place of the last value."""
        self._numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self._last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, float]]:
        """Add one value."""
        split, key, number = value
        last = (self._last.value() or 0) + 1
        self._last.update(last)
        self._numbers.add(number)
        numbers = list(self._numbers.get())
        if len(numbers) == THREE:
            self._numbers.clear()
            yield split, key, last, sum(numbers) / THREE


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> averages -> table."""
    build(env, io, AverageByList())
