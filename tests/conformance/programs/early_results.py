"""Triggers of event-time windows: by count, purging, in intervals, and one that fires at a chosen number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onceproof.engine import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    StreamExecutionEnvironment,
    Time,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    Types,
)
from tests.conformance.programs import _paced

PARALLELISMS = (1,)
IN_ORDER = False
FUNCTIONS = "thread"
READING = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
READINGS = [
    ("a", 500, 1),
    ("a", 1_200, 2),
    ("b", 1_700, 3),
    ("a", 2_600, 4),
    ("a", 2_700, 99),
    ("a", 5_100, 5),
    ("b", 6_000, 6),
    ("a", 9_000, 7),
    ("b", 9_500, 99),
    ("a", 11_000, 8),
    ("a", 14_000, 9),
]


class AtNinetyNine(Trigger):
    """Fires and purges at the number 99, fires at the end of the window, and purges with the row of 9 s."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        if timestamp == 9_000:
            return TriggerResult.PURGE
        return TriggerResult.FIRE_AND_PURGE if element[2] == 99 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Any) -> None:
        raise NotImplementedError

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class Contents(ProcessWindowFunction):
    """Emits name, key, start and numbers of a window."""

    def __init__(self, name: str) -> None:
        self._name = name

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        yield f"{self._name} {key} {context.window().start} {[number for *_, number in elements]}"


def build(env: StreamExecutionEnvironment) -> None:
    """Print what each trigger fires."""
    keyed = _paced.paced(env, READINGS, READING, 1).key_by(lambda reading: reading[0], Types.STRING())
    for name, trigger in {
        "count": CountTrigger.of(2),
        "purging": PurgingTrigger.of(CountTrigger.of(2)),
        "interval": ContinuousEventTimeTrigger.of(Time.seconds(2)),
        "own": AtNinetyNine(),
    }.items():
        windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10))).trigger(trigger)
        windows.process(Contents(name), Types.STRING()).print()
