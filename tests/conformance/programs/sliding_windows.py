"""Sliding windows with an offset and late rows: each row stands in several windows, some of them closed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onceproof.engine import (
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    Time,
    Types,
)
from tests.conformance.programs import _paced

PARALLELISMS = (1,)
IN_ORDER = False
READING = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
READINGS = [
    ("a", 1_500, 1),
    ("a", 3_000, 2),
    ("b", 7_000, 3),
    ("a", 5_000, 4),
    ("a", 2_999, 5),
    ("b", 12_500, 6),
    ("b", 8_499, 7),
    ("a", 20_000, 8),
    ("a", 11_000, 9),
]


class Contents(ProcessWindowFunction):
    """Emits key, bounds, watermark and numbers of a window."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        window, numbers = context.window(), [number for *_, number in elements]
        yield f"{key} {window.start} {window.end} {context.current_watermark()} {numbers}"


def build(env: StreamExecutionEnvironment) -> None:
    """Print the contents of windows."""
    readings = _paced.paced(env, READINGS, READING, 1, late_by_ms=500)
    windows = SlidingEventTimeWindows.of(Time.seconds(6), Time.seconds(2), Time.milliseconds(500))
    keyed = readings.key_by(lambda reading: reading[0], Types.STRING())
    keyed.window(windows).process(Contents(), Types.STRING()).print()
