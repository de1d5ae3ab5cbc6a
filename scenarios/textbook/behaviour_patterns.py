"""Patterns of behaviour: actions of users, keyed, connected with a broadcast stream of patterns.

The one pattern in force is broadcast state under the key None, whose type is ``VOID``; a pattern replaces the
one before. A ValueState holds the last action of each user.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from onceproof.engine import (
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    Source,
    SplitReader,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from onceproof.engine import DataStream

Pair: TypeAlias = tuple[str, str]
"""User and action, or the first and the next action of a pattern."""

PAIR = Types.TUPLE([Types.STRING(), Types.STRING()])
PATTERNS = MapStateDescriptor("patterns", Types.VOID(), PAIR)


class Match(KeyedBroadcastProcessFunction):
    """Emits (user, pattern) where a user's last two actions are the pattern in force."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor("last action", Types.STRING()))

    def process_element(
        self, value: Pair, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[str, Pair]]:
        user, action = value
        pattern = ctx.get_broadcast_state(PATTERNS).get(None)
        if pattern is not None and (self._last.value(), action) == pattern:
            yield user, pattern
        self._last.update(action)

    def process_broadcast_element(self, value: Pair, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(PATTERNS).put(None, value)


def user_of(action: Pair) -> str:
    """Return the user of an action."""
    return action[0]


def build(actions: DataStream, patterns: DataStream) -> DataStream:
    """Connect the actions of each user with the pattern in force."""
    matches = actions.key_by(user_of, Types.STRING()).connect(patterns.broadcast(PATTERNS))
    return matches.process(Match(), Types.TUPLE([Types.STRING(), PAIR]))


class PacedReader(SplitReader):
    """Gives each value when its time has come."""

    position = 0

    def __init__(self, values: Sequence[tuple[float, Any]], position: int) -> None:
        self.position = position
        self._values = values
        self._start = time.monotonic()

    @property
    def exhausted(self) -> bool:
        return self.position == len(self._values)

    def read(self, limit: int) -> list[Any]:
        if self.exhausted or self._wait_seconds() > 0:
            return []
        self.position += 1
        return [(self._values[self.position - 1][1], None)]

    def _wait_seconds(self) -> float:
        return self._start + self._values[self.position][0] - time.monotonic()

    @property
    def retry_ms(self) -> int:
        return 1 if self.exhausted else max(1, int(1000 * self._wait_seconds()))


class PacedSource(Source):
    """Values that come a number of seconds after the start, and then end.

    Args:
        values: (seconds, value) in the order of time.
    """

    def __init__(self, *values: tuple[float, Any]) -> None:
        self._values = values

    def splits(self) -> Sequence[str]:
        return ["values"]

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        return PacedReader(self._values, position or 0)


def main(pace_seconds: float = 1.0) -> None:
    """Let Alice act while the first pattern is in force, and Bob while the second is."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    actions = PacedSource(
        (pace_seconds, ("Alice", "login")),
        (pace_seconds, ("Alice", "pay")),
        (3 * pace_seconds, ("Bob", "login")),
        (3 * pace_seconds, ("Bob", "buy")),
    )
    patterns = PacedSource((0, ("login", "pay")), (2 * pace_seconds, ("login", "buy")))
    action_stream = env.from_source(actions, None, "actions", PAIR)
    build(action_stream, env.from_source(patterns, None, "patterns", PAIR)).print()
    env.execute("behaviour patterns")


if __name__ == "__main__":
    main()
