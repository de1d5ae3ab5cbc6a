"""The top speed of each car in the last seconds, every 50 metres (Flink's example TopSpeedWindowing).

One global window holds all positions of a car. A trigger with state of its own fires when the car has passed
a new mark of 50 metres, and an evictor by time removes what is older than five seconds. The window function
numbers its calls in the global state of the key, so a row that is lost or doubled changes all later ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from onceproof.engine.durations import Time
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import GlobalWindows
from onceproof.engine.windows.evictors import TimeEvictor
from onceproof.engine.windows.triggers import MergedScope, Trigger, TriggerResult, TriggerScope
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.engine.windows.windows import GlobalWindow
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Position: TypeAlias = tuple[str, str, int, int]
"""Split, car, speed, metres driven so far."""

name = "top_speed"
generator_version = 1
tasks: dict[str, Role] = {"positions": "source", "speeds": "keyed", "table": "sink"}
record_schema = "car STRING, speed BIGINT, metres BIGINT"
row_schema = "split STRING, car STRING, number BIGINT, metres BIGINT, top_speed BIGINT, positions BIGINT"
MARK_METRES: Final = 50
RECENT_MS: Final = 5000
CARS: Final = ("red", "blue", "green", "white")
oracle_sql = f"""
WITH driven AS (
  SELECT *, lag(metres) OVER (PARTITION BY scenario_id, split, car ORDER BY offset) AS before FROM records
), marked AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, car ORDER BY offset) AS number
  FROM driven WHERE metres DIV {MARK_METRES} > before DIV {MARK_METRES}
)
SELECT marked.scenario_id, marked.split, marked.car, number, marked.metres,
  max(records.speed) AS top_speed, count(*) AS positions
FROM marked JOIN records
ON marked.scenario_id = records.scenario_id AND marked.split = records.split AND marked.car = records.car
  AND records.offset <= marked.offset AND records.timestamp > marked.timestamp - {RECENT_MS}
GROUP BY marked.scenario_id, marked.split, marked.car, number, marked.metres
"""


def generate(random: Random) -> Workload:
    """Draw positions of cars that drive up to 40 metres from one to the next; marks are met exactly, too."""
    driven: dict[str, int] = defaultdict(int)

    def position(chance: Chance, car: str, now: int) -> tuple[str, int, int]:
        driven[car] = chance.at_boundary(driven[car] + chance.integer(0, 40), MARK_METRES)
        return car, chance.integer(0, 200), driven[car]

    return draw_keyed(random, CARS, position, 2 * RECENT_MS // 5)


class NewMark(Trigger):
    """Fires at the first position at or behind a new mark; the state is the last mark."""

    def __init__(self) -> None:
        self._last = ValueStateDescriptor("last mark", Types.LONG())

    def on_element(
        self, element: Position, timestamp: int, window: GlobalWindow, ctx: TriggerScope
    ) -> TriggerResult:
        state = ctx.get_partitioned_state(self._last)
        last, mark = state.value(), element[3] // MARK_METRES
        state.update(mark)
        return TriggerResult.CONTINUE if last is None or mark <= last else TriggerResult.FIRE

    def on_processing_time(self, time: int, window: GlobalWindow, ctx: TriggerScope) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: TriggerScope) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: GlobalWindow, ctx: MergedScope) -> None:
        raise AssertionError("global windows do not merge")

    def clear(self, window: GlobalWindow, ctx: TriggerScope) -> None:
        ctx.get_partitioned_state(self._last).clear()


class TopSpeed(ProcessWindowFunction):
    """Emits the top speed of the positions that the evictor has left."""

    def process(
        self, key: tuple[str, str], context: WindowContext, elements: Iterable[Position]
    ) -> Iterator[tuple[str, str, int, int, int, int]]:
        positions = list(elements)
        calls = context.global_state().get_state(ValueStateDescriptor("calls", Types.LONG()))
        number = (calls.value() or 0) + 1
        calls.update(number)
        top = max(speed for *_, speed, _ in positions)
        yield *key, number, positions[-1][3], top, len(positions)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build positions -> speeds -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), *([Types.LONG()] * 4)])
    speeds = (
        keyed_records(env, io, "positions")
        .window(GlobalWindows.create())
        .trigger(NewMark())
        .evictor(TimeEvictor.of(Time.milliseconds(RECENT_MS)))
        .process(TopSpeed(), row)
    )
    into_table(named(speeds, "speeds", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Find the new marks of each car, and look back from each of them."""
    rows = []
    for split, own in records.items():
        seen: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        numbers: dict[str, int] = defaultdict(int)
        for timestamp, value in own:
            assert isinstance(value, tuple)
            car, speed, metres = str(value[0]), int(value[1] or 0), int(value[2] or 0)
            positions = seen[car]
            positions.append((timestamp, speed, metres))
            if len(positions) > 1 and metres // MARK_METRES > positions[-2][2] // MARK_METRES:
                numbers[car] += 1
                recent = [each[1] for each in positions if each[0] > timestamp - RECENT_MS]
                rows.append((split, car, numbers[car], metres, max(recent), len(recent)))
    return rows
