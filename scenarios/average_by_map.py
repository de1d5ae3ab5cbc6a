"""The average of every three values of a key, kept in a MapState by their place.

The textbook's map has a random id for each value; here it is the place among the values of the key, since a
job that draws ids gives other output each time it is restored. Entries come and go one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import MapStateDescriptor, ValueStateDescriptor
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

name = "average_by_map"
generator_version = 1
any_backend = True


class AverageByMap(KeyedProcessFunction):
    """Puts three values into the map and takes them out again."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the map, and the place of the last value."""
        self._numbers = runtime_context.get_map_state(
            MapStateDescriptor("numbers", Types.LONG(), Types.LONG())
        )
        self._last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, float]]:
        """Add one value."""
        split, key, number = value
        last = (self._last.value() or 0) + 1
        self._last.update(last)
        self._numbers.put(last, number)
        numbers = list(self._numbers.items())
        if len(numbers) == THREE:
            for place, _ in numbers:
                self._numbers.remove(place)
            yield split, key, last, sum(each for _, each in numbers) / THREE


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> averages -> table."""
    build(env, io, AverageByMap())
