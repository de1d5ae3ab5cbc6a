"""Windows of processing time, of one of four kinds in each scenario.

Sessions end after a silence on the clock, of a fixed length or of the length that the call brings. Sliding
windows hold each call twice. Batches are a global window that a continuous trigger fires and purges while the
clock passes. At the end of the input all windows fire. The kind is a column of the records.

When a call is processed decides which window it is in, so each row says which calls it holds, by their places
among those of the key. The oracles check that the rows of a key hold each call once, or twice in sliding
windows, in order and without a gap. A clock that is set back would put a call among earlier ones, so the
family has no such fault.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onceproof.engine.durations import Time
from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import (
    DynamicProcessingTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingProcessingTimeWindows,
)
from onceproof.engine.windows.triggers import (
    ContinuousProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
    TriggerScope,
)
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import (
    LABELLED_KEY,
    Place,
    draw_keyed,
    into_table,
    keyed_records,
    label_and_key,
    named,
)
from onceproof.scenarios.nexmark.q12 import ByTheClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.engine.windows.assigners import WindowAssigner
    from onceproof.engine.windows.windows import Window

Call: TypeAlias = tuple[str, str, int, int, str]
"""Split, caller, place, gap in milliseconds, kind."""

name = "clock_windows"
generator_version = 1
options = FamilyOptions(declares=True, needs_steady_time=True)
tasks: dict[str, Role] = {"calls": "source", "placed": "keyed", "windows": "keyed", "table": "sink"}
record_schema = "caller STRING, gap BIGINT, kind STRING"
row_schema = "split STRING, caller STRING, kind STRING, first BIGINT, last BIGINT"
GAPS_MS: Final = (2, 10, 40)
SLIDE_MS: Final = 20
COPIES: Final = {"session": 1, "visit": 1, "slide": 2, "batch": 1}
"""By kind of window, how many windows hold each call."""
CALLERS: Final = ("ida", "jon", "kim")
KIND: Final = "kind"
oracle_sql = """
WITH due AS (
  SELECT scenario_id, split, caller, kind, count(*) AS calls, if(kind = 'slide', 2, 1) AS copies
  FROM records GROUP BY scenario_id, split, caller, kind
), held AS (
  SELECT scenario_id, split, caller, kind, explode(sequence(first, last)) AS place
  FROM declared WHERE first BETWEEN 1 AND last
), counted AS (
  SELECT scenario_id, split, caller, kind, place, count(*) AS windows FROM held GROUP BY ALL
), complete AS (
  SELECT due.scenario_id, due.split, due.caller, due.kind
  FROM due JOIN counted
  ON due.scenario_id = counted.scenario_id AND due.split = counted.split AND due.caller = counted.caller
    AND due.kind = counted.kind
  GROUP BY due.scenario_id, due.split, due.caller, due.kind
  HAVING count(*) = max(calls) AND bool_and(windows = copies) AND max(place) = max(calls)
)
SELECT declared.scenario_id, declared.split, declared.caller, declared.kind, first, last
FROM declared LEFT SEMI JOIN complete
ON declared.scenario_id = complete.scenario_id AND declared.split = complete.split
  AND declared.caller = complete.caller AND declared.kind = complete.kind
UNION ALL
SELECT due.scenario_id, due.split, due.caller, due.kind, 1, explode(array_repeat(calls, copies))
FROM due LEFT ANTI JOIN complete
ON due.scenario_id = complete.scenario_id AND due.split = complete.split AND due.caller = complete.caller
  AND due.kind = complete.kind
"""


def generate(random: Random) -> Workload:
    """Draw calls of a few callers; the schedule decides how far apart they are processed."""
    kind = random.choice(list(COPIES))

    def call(chance: Chance, caller: str, now: int) -> tuple[str, int, str]:
        return caller, chance.choice(GAPS_MS), kind

    drawn = draw_keyed(random, CALLERS, call)
    return Workload(drawn.records, {**drawn.parameters, KIND: kind})


class GapOfCall(SessionWindowTimeGapExtractor):
    """Returns the gap that the call brings."""

    def extract(self, element: Call) -> int:
        return element[3]


class Periodically(PurgingTrigger):
    """Fires and purges every slide on the clock, and at the end of the input."""

    def __init__(self) -> None:
        super().__init__(ContinuousProcessingTimeTrigger.of(Time.milliseconds(SLIDE_MS)))

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        ctx.register_event_time_timer(MAX_WATERMARK)
        return super().on_element(element, timestamp, window, ctx)

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE


class Held(ProcessWindowFunction):
    """Emits which calls a window holds."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def process(
        self, key: tuple[str, str], context: WindowContext, elements: Iterable[Call]
    ) -> Iterator[tuple[str, str, str, int, int]]:
        places = sorted(place for _, _, place, *_ in elements)
        if places:
            yield *key, self._kind, places[0], places[-1] if _is_run(places) else 0


def _is_run(places: list[int]) -> bool:
    return places[-1] - places[0] + 1 == len(places)


def _windows(kind: str) -> tuple[WindowAssigner, Trigger]:
    size = Time.milliseconds(2 * SLIDE_MS)
    match kind:
        case "session":
            return ProcessingTimeSessionWindows.with_gap(Time.milliseconds(10)), ByTheClock()
        case "visit":
            return DynamicProcessingTimeSessionWindows.with_dynamic_gap(GapOfCall()), ByTheClock()
        case "slide":
            return SlidingProcessingTimeWindows.of(size, Time.milliseconds(SLIDE_MS)), ByTheClock()
        case _:
            return GlobalWindows.create(), Periodically()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build calls -> placed -> windows -> table."""
    text, number = Types.STRING(), Types.LONG()
    kind = str(io.parameters.get(KIND, "session"))
    assigner, trigger = _windows(kind)
    placed = keyed_records(env, io, "calls").map(Place(), Types.TUPLE([text, text, number, number, text]))
    by_caller = named(placed, "placed", io).key_by(label_and_key, LABELLED_KEY)
    windows = by_caller.window(assigner).trigger(trigger)
    row = Types.TUPLE([text, text, text, number, number])
    into_table(named(windows.process(Held(kind), row), "windows", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Return the windows that the run declares for a caller, if they hold each call as they should."""
    said: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in declared.rows:
        said[row[:3]].append(row)
    calls: dict[tuple[str, str, str], int] = defaultdict(int)
    for split, own in records.items():
        for _, value in own:
            assert isinstance(value, tuple)
            calls[split, str(value[0]), str(value[2])] += 1
    rows: list[Any] = []
    for caller, count in calls.items():
        windows = said[caller]
        if _are_possible(windows, count, COPIES[caller[2]], declared.is_whole):
            rows += windows
        else:
            rows += [(*caller, 1, count)] * COPIES[caller[2]]
    return rows


def _are_possible(windows: list[Any], calls: int, copies: int, is_whole: bool) -> bool:
    """Return whether windows hold the first calls of a caller as often as they should, or all of them."""
    held = [0] * (calls + 1)
    for *_, first, last in windows:
        if first is None or last is None or not 1 <= first <= last <= calls:
            return False
        for place in range(first, last + 1):
            held[place] += 1
    counts = held[1:]
    if is_whole:
        return all(count == copies for count in counts)
    return max(counts, default=0) <= copies and all(
        earlier >= later for earlier, later in itertools.pairwise(counts)
    )
