"""The average of every three values of a key, kept as (number, sum, last) in a ValueState."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
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

name = "average_by_value"
generator_version = 1
any_backend = True


class AverageByValue(KeyedProcessFunction):
    """Sums up three values and begins anew."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the state."""
        number = Types.LONG()
        self._so_far = runtime_context.get_state(
            ValueStateDescriptor("so far", Types.TUPLE([number, number, number]))
        )

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, float]]:
        """Add one value."""
        split, key, number = value
        count, total, last = self._so_far.value() or (0, 0, 0)
        count, total, last = count + 1, total + number, last + 1
        if count == THREE:
            yield split, key, last, total / THREE
            count = total = 0
        self._so_far.update((count, total, last))


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> averages -> table."""
    build(env, io, AverageByValue())
