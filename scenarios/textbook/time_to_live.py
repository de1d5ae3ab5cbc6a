"""A ValueState whose value lives for ten seconds after it was last read or written (OnReadAndWrite).

Each record emits the first number of its key since the last silence of ten seconds. The number is written
once and then only read, so it lives on because it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from onceproof.engine import (
    FlatMapFunction,
    RuntimeContext,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from onceproof.scenarios.textbook._example_input import PAIR, TWO_KEYS, first, run

if TYPE_CHECKING:
    from onceproof.engine import DataStream

TEN_SECONDS = Time.seconds(10)


class FirstSinceSilence(FlatMapFunction):
    """Emits (key, first number since the last silence of the key)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        alive = (
            StateTtlConfig.new_builder(TEN_SECONDS)
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .build()
        )
        descriptor = ValueStateDescriptor("first", Types.DOUBLE())
        descriptor.enable_time_to_live(alive)
        self._first = runtime_context.get_state(descriptor)

    def flat_map(self, value: tuple[int, float]) -> Iterator[tuple[int, float]]:
        key, number = value
        first_number = self._first.value()
        if first_number is None:
            first_number = number
            self._first.update(number)
        yield key, first_number


def build(pairs: DataStream) -> DataStream:
    """Key the pairs by their first field and remember the first of each key."""
    return pairs.key_by(first, Types.LONG()).flat_map(FirstSinceSilence(), PAIR)


def main() -> None:
    """Remember the first of three records of each of two keys."""
    run("time to live", build, TWO_KEYS)


if __name__ == "__main__":
    main()
