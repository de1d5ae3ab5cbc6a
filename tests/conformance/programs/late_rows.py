"""Tumbling windows with allowed lateness: a late row fires its window again, a later one is a side output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onceproof.engine import (
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    Types,
)
from tests.conformance.programs import _paced

PARALLELISMS = (1,)
IN_ORDER = False
READING = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
LATE = OutputTag("late", READING)
READINGS = [
    ("a", 1_000, 1),
    ("b", 2_000, 2),
    ("a", 9_999, 3),
    ("a", 12_000, 4),
    ("a", 5_000, 5),
    ("b", 14_998, 6),
    ("b", 3_000, 7),
    ("b", 15_000, 8),
    ("a", 4_000, 9),
    ("b", 10_000, 10),
    ("c", 0, 11),
    ("c", 30_000, 12),
    ("a", 14_999, 13),
    ("a", 29_999, 14),
    ("a", 24_999, 15),
]


class Contents(ProcessWindowFunction):
    """Emits key, bounds, last millisecond and numbers of a window."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        window, numbers = context.window(), [number for *_, number in elements]
        yield f"{key} {window.start} {window.end} {window.max_timestamp()} {numbers}"


def build(env: StreamExecutionEnvironment) -> None:
    """Print the contents of windows, and the readings that are too late."""
    readings = _paced.paced(env, READINGS, READING, 1)
    windows = readings.key_by(lambda reading: reading[0], Types.STRING())
    sized = windows.window(TumblingEventTimeWindows.of(Time.seconds(10))).allowed_lateness(5_000)
    contents = sized.side_output_late_data(LATE).process(Contents(), Types.STRING())
    contents.print()
    contents.get_side_output(LATE).map(lambda reading: f"too late: {reading}", Types.STRING()).print()
