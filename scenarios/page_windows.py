"""Page views per url and ten seconds: a tumbling window built by hand from a MapState and timers.

The map holds the count of each window of a url by the window's end; a timer at the last millisecond of the
window emits the count and removes the entry. A record whose window is over is not counted and gives a row of
its own. Timestamps are out of order by more than the watermark allows, several urls share each window, and
many records lie on a window's first or last millisecond.

Which records are late depends on the watermarks of the run. So late rows are declared: each must be of a
record that can have been late, by the watermark of its own split, and the counts must be those of the other
records. A restored job begins without a watermark and may open a window again that it had emitted; the counts
of a window are added up.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.durations import Duration
from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import MapStateDescriptor
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.harness.model.history import Row
from onceproof.scenarios._event_time import with_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import KeyedStream, StreamExecutionEnvironment


def window_of(row: Row) -> Row | None:
    """Return kind, url and end of the window of a row, for ``answers``; None for a late row."""
    return None if row[0] == "late" else row[:3]


name = "page_windows"
generator_version = 1
tasks: dict[str, Role] = {"views": "source", "windows": "keyed", "table": "sink"}
record_schema = "url STRING"
row_schema = "kind STRING, url STRING, window_end BIGINT, number BIGINT"
oracle_sql = """
WITH views AS (
  SELECT scenario_id, url, timestamp, timestamp - timestamp % 10000 + 10000 AS window_end,
         max(timestamp) OVER (
           PARTITION BY scenario_id, split ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ) - 2000 - 1 AS progress
  FROM records
), can_be_late AS (
  SELECT scenario_id, url, window_end, timestamp AS number, count(*) AS most
  FROM views WHERE progress >= window_end - 1 GROUP BY ALL
), late AS (
  SELECT scenario_id, url, window_end, number
  FROM (
    SELECT *, row_number() OVER (PARTITION BY scenario_id, url, window_end, number ORDER BY kind) AS nth
    FROM declared WHERE kind = 'late'
  )
  JOIN can_be_late USING (scenario_id, url, window_end, number)
  WHERE nth <= most
), windows AS (
  SELECT scenario_id, url, window_end, sum(of_input - of_late) AS due, sum(of_output) AS given
  FROM (
    SELECT scenario_id, url, window_end, 1 AS of_input, 0 AS of_late, 0 AS of_output FROM views
    UNION ALL SELECT scenario_id, url, window_end, 0, 1, 0 FROM late
    UNION ALL
    SELECT scenario_id, url, window_end, 0, 0, coalesce(number, 0) FROM declared WHERE kind = 'views'
  )
  GROUP BY ALL
)
SELECT scenario_id, 'late' AS kind, url, window_end, number FROM late
UNION ALL
SELECT scenario_id, 'views', url, window_end, number
FROM declared JOIN windows USING (scenario_id, url, window_end)
WHERE kind = 'views' AND given = due AND number > 0
UNION ALL
SELECT scenario_id, 'views', url, window_end, due FROM windows WHERE given <> due AND due > 0
"""

URLS = ("./home", "./cart", "./fav", "./prod?id=1", "./prod?id=2")
SIZE_MS = 10_000
BOUND_MS = 2_000
ALL_TIME_MS = 1_000_000_000
WATERMARKS = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))


def generate(random: Random) -> Workload:
    """Draw up to three logs of views, some far behind the others, with late records."""
    chance = Chance(random)
    logs = chance.weighted([(1, 3), (2, 3), (3, 2)])
    urls = URLS[: chance.weighted([(1, 2), (2, 3), (5, 2)])]
    longest = chance.weighted([(5, 1), (20, 3), (40, 3)])
    disorder_ms = chance.weighted([(0, 1), (BOUND_MS, 2), (5 * BOUND_MS, 4)])
    records = {}
    for log in range(logs):
        now = 0
        views = []
        for _ in range(chance.integer(0, longest)):
            now += chance.weighted([(0, 2), (1, 1), (chance.integer(0, 3_000), 6), (SIZE_MS, 1)])
            timestamp = max(0, now - chance.integer(0, disorder_ms))
            # The first and the last millisecond of a window are where off-by-one mistakes show.
            edge = timestamp - timestamp % SIZE_MS
            timestamp = chance.weighted([(timestamp, 6), (edge, 1), (edge + SIZE_MS - 1, 1)])
            views.append((timestamp, chance.choice(urls)))
        records[f"log-{log}"] = tuple(views)
    return Workload(records, {"logs": logs, "urls": len(urls), "disorder": disorder_ms})


class HandMadeWindows(KeyedProcessFunction):
    """Counts views by the end of their window."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._views = runtime_context.get_map_state(MapStateDescriptor("views", Types.LONG(), Types.LONG()))

    def process_element(
        self, value: str, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, int]]:
        """Count a view, or emit it as late."""
        timestamp = ctx.timestamp()
        assert timestamp is not None
        window_end = timestamp - timestamp % SIZE_MS + SIZE_MS
        timers = ctx.timer_service()
        if timers.current_watermark() >= window_end - 1:
            yield "late", value, window_end, timestamp
            return
        self._views.put(window_end, (self._views.get(window_end) or 0) + 1)
        timers.register_event_time_timer(window_end - 1)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[tuple[str, str, int, int]]:
        """Emit the count of the window that is over, and remove it."""
        window_end = timestamp + 1
        yield "views", ctx.get_current_key(), window_end, self._views.get(window_end)
        self._views.remove(window_end)


def counted_views(env: StreamExecutionEnvironment, io: JobIO, source: Any) -> KeyedStream:
    """Build views -> windows, keyed so that all rows of a url reach one sink subtask."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
    views = env.from_source(source, WATERMARKS, "views").uid("views")
    windows = (
        views.set_parallelism(io.source_parallelism)
        .key_by(lambda url: url, Types.STRING())
        .process(HandMadeWindows(), row)
        .name("windows")
        .uid("windows")
        .set_parallelism(io.parallelism)
    )
    return windows.key_by(lambda row: row[1], Types.STRING())


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build views -> windows -> table, both edges keyed by the url."""
    table = counted_views(env, io, io.source("views")).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def bytewax_flow(records: Any, io: Any) -> Any:
    """Count with tumbling windows; the rows wait in the harness's sink until their epoch is in the store.

    Bytewax has a watermark for each key, by the newest record of any split, where the engine waits for the
    slowest split. No wait is long enough for that one: windows close at the end, and no record is late.
    """
    views = io.operators.key_on("url", records, lambda record: record.value)
    windows = io.windowing.fold_window(
        "windows",
        views,
        io.event_clock(ALL_TIME_MS),
        io.tumbling_windows(SIZE_MS),
        builder=lambda: 0,
        folder=lambda count, record: count + 1,
        merger=lambda one, other: one + other,
    )
    return io.operators.map("rows", windows.down, _count_of_window)


def _count_of_window(window: tuple[str, tuple[int, int]]) -> tuple[str, tuple[str, str, int, int]]:
    url, (number, count) = window
    return url, ("views", url, (number + 1) * SIZE_MS, count)


def expected(records: Records, declared: Declared) -> Rows:
    """Count the views of each window, without those that are declared late and can be."""
    due: Counter[tuple[Any, int]] = Counter()
    can_be_late: Counter[tuple[Any, int, int]] = Counter()
    for timestamp, url, progress in with_progress(records, BOUND_MS):
        window_end = timestamp - timestamp % SIZE_MS + SIZE_MS
        due[url, window_end] += 1
        if progress >= window_end - 1:
            can_be_late[url, window_end, timestamp] += 1
    late = can_be_late & Counter(row[1:] for row in declared.rows if row[0] == "late")
    for (url, window_end, _), number in late.items():
        due[url, window_end] -= number
    given: dict[tuple[Any, int], list[int]] = {}
    for kind, url, window_end, number in declared.rows:
        if kind == "views":
            given.setdefault((url, window_end), []).append(number)
    rows: list[tuple[Any, ...]] = [("late", *row) for row in late.elements()]
    for window, number in due.items():
        counts = given.get(window, [])
        if None not in counts and min(counts, default=1) > 0 and _may_be(sum(counts), number, declared):
            rows += [("views", *window, count) for count in counts]
        elif number:
            rows.append(("views", *window, number))
    return rows


def _may_be(given: int, due: int, declared: Declared) -> bool:
    """Return whether a run can have emitted this many; before its end, the rest may be in its state."""
    return given == due if declared.is_whole else given <= due


options = FamilyOptions(declares=True, any_backend=True, answers=window_of, jobs={"bytewax": bytewax_flow})
