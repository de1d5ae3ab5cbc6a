"""Alarms that are set for later, and counted in tumbling windows by the time at which they ring.

A timer of event time rings with its own time, however far the watermark that fires it has come. The windows
behind the function see it: a result that carries another time is counted elsewhere. An alarm that a key has
set twice for one time rings once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onceproof.engine.durations import Time
from onceproof.engine.functions import KeyedProcessFunction
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import (
    LABELLED_KEY,
    LabelledSource,
    draw_keyed,
    into_table,
    label_and_key,
    named,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Alarm: TypeAlias = tuple[str, str, int]
"""Split, owner, delay."""
Ring: TypeAlias = tuple[str, str]
"""Split, owner."""

name = "alarms"
generator_version = 1
options = FamilyOptions(declares=True, any_backend=True)
tasks: dict[str, Role] = {"set": "source", "rung": "keyed", "counted": "keyed", "table": "sink"}
record_schema = "owner STRING, delay BIGINT"
row_schema = "split STRING, owner STRING, start BIGINT, rings BIGINT"
SIZE_MS: Final = 20
LONGEST_DELAY_MS: Final = 90
OWNERS: Final = ("ada", "ben", "cleo", "dan")
oracle_sql = f"""
WITH rings AS (SELECT DISTINCT scenario_id, split, owner, timestamp + delay AS time FROM records)
SELECT scenario_id, split, owner, time - pmod(time, {SIZE_MS}) AS start, count(*) AS rings
FROM rings GROUP BY ALL
"""


def generate(random: Random) -> Workload:
    """Draw alarms, some of them for the time at which they are set, some for the edge of a window."""
    return draw_keyed(random, OWNERS, _alarm)


def _alarm(chance: Chance, owner: str, now: int) -> tuple[str, int]:
    rings_at = chance.at_boundary(now + chance.integer(0, LONGEST_DELAY_MS), SIZE_MS)
    return owner, max(0, rings_at - now)


class Alarms(KeyedProcessFunction):
    """Sets a timer for each record, and emits when it rings."""

    def process_element(self, value: Alarm, ctx: KeyedProcessFunction.Context) -> Iterator[Ring]:
        timestamp = ctx.timestamp()
        assert timestamp is not None
        ctx.timer_service().register_event_time_timer(timestamp + value[2])
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Ring]:
        split, owner = ctx.get_current_key()
        yield split, owner


class Rings(ProcessWindowFunction):
    """Emits how often it rang in a window."""

    def process(
        self, key: tuple[str, str], context: WindowContext, elements: Iterable[Ring]
    ) -> Iterator[tuple[str, str, int, int]]:
        yield *key, context.window().start, len(list(elements))


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build set -> rung -> counted -> table."""
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    alarms = env.from_source(LabelledSource(io.source("set")), in_order, "set").uid("set")
    ring = Types.TUPLE([Types.STRING(), Types.STRING()])
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
    rung = alarms.set_parallelism(io.source_parallelism).key_by(label_and_key, LABELLED_KEY)
    counted = (
        named(rung.process(Alarms(), ring), "rung", io)
        .key_by(label_and_key, LABELLED_KEY)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS)))
        .process(Rings(), row)
    )
    into_table(named(counted, "counted", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Return for each owner and window how many of the owner's alarms ring in it."""
    rings: Counter[tuple[str, str, int]] = Counter()
    for split, own in records.items():
        times: set[tuple[str, int]] = set()
        for timestamp, value in own:
            assert isinstance(value, tuple)
            times.add((str(value[0]), timestamp + int(value[1] or 0)))
        rings.update((split, owner, time - time % SIZE_MS) for owner, time in times)
    rows: list[Any] = [(*window, count) for window, count in rings.items()]
    return declared.so_far(rows)
