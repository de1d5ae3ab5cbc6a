"""Event-time timers: set twice, deleted, set in the past, set by a timer, and left at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from tests.conformance.programs import _paced

PARALLELISMS = (1,)
IN_ORDER = True
FUNCTIONS = "thread"
COMMAND = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING(), Types.LONG()])
COMMANDS = [
    ("a", 1_000, "set", 5_000),
    ("a", 1_500, "set", 5_000),
    ("b", 2_000, "set", 4_000),
    ("b", 2_100, "set", 3_000),
    ("a", 2_500, "set", 1_000),
    ("b", 3_500, "delete", 4_000),
    ("a", 4_999, "none", 0),
    ("a", 5_000, "none", 0),
    ("b", 8_000, "repeat", 9_000),
    ("a", 10_500, "delete", 77),
    ("b", 11_500, "none", 0),
    ("c", 11_500, "set", 99_000),
    ("c", 11_600, "set", 11_550),
]
AGAIN_UNTIL_MS = 13_000


class Timers(KeyedProcessFunction):
    """Does what the commands say, and tells what it sees."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._repeats = runtime_context.get_state(ValueStateDescriptor("repeats", Types.BOOLEAN()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        key, _, command, time_ms = value
        service = ctx.timer_service()
        yield f"{key} {command} {time_ms} at {ctx.timestamp()}, watermark {service.current_watermark()}"
        if command == "delete":
            service.delete_event_time_timer(time_ms)
        elif command != "none":
            service.register_event_time_timer(time_ms)
            self._repeats.update(command == "repeat")

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        watermark = ctx.timer_service().current_watermark()
        yield f"{ctx.get_current_key()} timer {timestamp}, time {ctx.timestamp()}, watermark {watermark}"
        if self._repeats.value() and timestamp < AGAIN_UNTIL_MS:
            ctx.timer_service().register_event_time_timer(timestamp + 1_000)


def build(env: StreamExecutionEnvironment) -> None:
    """Print what the timers do."""
    commands = _paced.paced(env, COMMANDS, COMMAND, 1)
    commands.key_by(lambda command: command[0], Types.STRING()).process(Timers(), Types.STRING()).print()
