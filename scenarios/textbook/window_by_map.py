"""Clicks of each url in windows of ten seconds, without a window: a MapState from window start to count.

Each click sets an event-time timer for the last millisecond of its window. The timer emits the url, the
count, and the window's start and end, and removes the entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from onceproof.engine import (
    Configuration,
    KeyedProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
)
from onceproof.scenarios.textbook.click_source import CLICK, ClickSource

if TYPE_CHECKING:
    from onceproof.engine import DataStream

SIZE_MS = 10_000


class WindowByMap(KeyedProcessFunction):
    """Emits (url, count, start, end) at the end of each window.

    Args:
        size_ms: the size of the windows.
    """

    def __init__(self, size_ms: int) -> None:
        self._size_ms = size_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        self._counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_element(self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context) -> None:
        start = value[2] // self._size_ms * self._size_ms
        ctx.timer_service().register_event_time_timer(start + self._size_ms - 1)
        self._counts.put(start, (self._counts.get(start) or 0) + 1)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[tuple[str, int, int, int]]:
        end = timestamp + 1
        start = end - self._size_ms
        yield ctx.get_current_key(), self._counts.get(start), start, end
        self._counts.remove(start)


def url_of(click: tuple[str, str, int]) -> str:
    """Return the url of a click."""
    return click[1]


def build(clicks: DataStream) -> DataStream:
    """Key the clicks by url and count them in windows."""
    row = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])
    return clicks.key_by(url_of, Types.STRING()).process(WindowByMap(SIZE_MS), row)


def main(source: ClickSource | None = None, configuration: Configuration | None = None) -> None:
    """Count clicks without end."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    build(env.from_source(source or ClickSource(), in_order, "clicks", CLICK)).print()
    env.execute("window by map")


if __name__ == "__main__":
    main()
