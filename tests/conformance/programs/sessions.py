"""Session windows that merge: by a row between two, by a late row into one that has fired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onceproof.engine import (
    EventTimeSessionWindows,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    Time,
    Types,
)
from tests.conformance.programs import _paced

PARALLELISMS = (1,)
IN_ORDER = False
VISIT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
LATE = OutputTag("late", VISIT)
VISITS = [
    ("ann", 1_000, 1),
    ("ann", 9_000, 2),
    ("ann", 5_000, 3),
    ("bob", 20_000, 4),
    ("ann", 13_500, 5),
    ("ann", 1_500, 6),
    ("bob", 24_999, 7),
    ("bob", 30_000, 8),
    ("ann", 40_000, 9),
    ("bob", 35_000, 10),
    ("ann", 20_000, 11),
    ("ann", 45_000, 12),
    ("ann", 50_001, 13),
]


class Visit(ProcessWindowFunction):
    """Emits key, bounds and numbers of a session."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        window, numbers = context.window(), sorted(number for *_, number in elements)
        yield f"{key} {window.start} {window.end} {numbers}"


def build(env: StreamExecutionEnvironment) -> None:
    """Print the sessions, and the visits that are too late for one."""
    keyed = _paced.paced(env, VISITS, VISIT, 1).key_by(lambda visit: visit[0], Types.STRING())
    windows = keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(5))).allowed_lateness(4_000)
    sessions = windows.side_output_late_data(LATE).process(Visit(), Types.STRING())
    sessions.print()
    sessions.get_side_output(LATE).map(lambda visit: f"too late: {visit}", Types.STRING()).print()
