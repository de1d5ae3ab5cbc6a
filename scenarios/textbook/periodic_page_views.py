"""The page views of a user, emitted every ten seconds of event time.

A view without a timer sets one, ten seconds after itself. When it fires it emits the count of all views so
far and clears only the timer's state, so the next view sets the next timer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from onceproof.engine import (
    Configuration,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from onceproof.scenarios.textbook.average_timestamp import user_of
from onceproof.scenarios.textbook.click_source import CLICK, ClickSource

if TYPE_CHECKING:
    from onceproof.engine import DataStream

TEN_SECONDS_MS = 10_000


class PeriodicPageViews(KeyedProcessFunction):
    """Counts the clicks of each user and emits ``user pv: count`` every ten seconds."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self._timer = runtime_context.get_state(ValueStateDescriptor("timer", Types.LONG()))

    def process_element(self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context) -> None:
        self._count.update((self._count.value() or 0) + 1)
        if self._timer.value() is None:
            due = value[2] + TEN_SECONDS_MS
            ctx.timer_service().register_event_time_timer(due)
            self._timer.update(due)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"{ctx.get_current_key()} pv: {self._count.value()}"
        self._timer.clear()


def build(clicks: DataStream) -> DataStream:
    """Key the clicks by user and count them."""
    return clicks.key_by(user_of, Types.STRING()).process(PeriodicPageViews(), Types.STRING())


def main(source: ClickSource | None = None, configuration: Configuration | None = None) -> None:
    """Count clicks without end."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    build(env.from_source(source or ClickSource(), in_order, "clicks", CLICK)).print()
    env.execute("periodic page views")


if __name__ == "__main__":
    main()
