"""A full join of two keyed streams: each side keeps a ListState, and joins all of the other side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from onceproof.engine import (
    KeyedCoProcessFunction,
    ListStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
)

if TYPE_CHECKING:
    from onceproof.engine import DataStream

Event: TypeAlias = tuple[str, str, int]
"""Key, stream, timestamp."""

EVENT = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
FIRST = (("a", "stream-1", 1000), ("b", "stream-1", 2000))
SECOND = (("a", "stream-2", 3000), ("b", "stream-2", 4000))


class FullJoin(KeyedCoProcessFunction):
    """Emits (record of the first stream, record of the second) for each pair of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._first = runtime_context.get_list_state(ListStateDescriptor("first", EVENT))
        self._second = runtime_context.get_list_state(ListStateDescriptor("second", EVENT))

    def process_element1(
        self, value: Event, ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[Event, Event]]:
        self._first.add(value)
        for other in self._second.get():
            yield value, other

    def process_element2(
        self, value: Event, ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[Event, Event]]:
        self._second.add(value)
        for other in self._first.get():
            yield other, value


def key_of(event: Event) -> str:
    """Return the key of an event."""
    return event[0]


def build(first: DataStream, second: DataStream) -> DataStream:
    """Join two streams by their keys."""
    both = first.key_by(key_of, Types.STRING()).connect(second.key_by(key_of, Types.STRING()))
    return both.process(FullJoin(), Types.TUPLE([EVENT, EVENT]))


def main() -> None:
    """Join two records with two."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    build(env.from_collection(FIRST, EVENT), env.from_collection(SECOND, EVENT)).print()
    env.execute("full join")


if __name__ == "__main__":
    main()
