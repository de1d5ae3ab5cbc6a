"""A family for relays: visits to pages, counted as they come and once more for each hour, by a timer.

Who counts a visit twice, loses one, forgets a timer or gives it to another key tells other rows. What they
should be does not depend on when watermarks come: those are behind all disorder, and no visit is too late.
"""

from __future__ import annotations

from collections import Counter

from onceproof.engine import (
    Duration,
    KeyedProcessFunction,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import FamilyOptions, Workload

name = "visits"
generator_version = 1
options = FamilyOptions(
    # In the end all hours are emitted; until then those whose timers have fired.
    declares=True,
    any_backend=True,
)
tasks = {"log": "source", "visits": "keyed", "table": "sink"}
record_schema = "page STRING"
row_schema = "page STRING, what STRING, visits BIGINT"
oracle_sql = """
SELECT scenario_id, page, 'so far' AS what,
       row_number() OVER (PARTITION BY scenario_id, page ORDER BY split, offset) AS visits
FROM records
UNION ALL
SELECT scenario_id, page, concat('hour ', timestamp DIV 3600000) AS what, count(*) AS visits
FROM records GROUP BY ALL
"""

SPLITS = 3
HOUR = 3_600_000
DISORDER = HOUR // 2
PACE = HOUR // 6
PAGES = 5


def generate(random):
    """Draw three logs, each of 40 visits that are out of order by half an hour."""
    chance = Chance(random)
    return Workload(
        {
            f"log-{split}": tuple(
                (PACE * number + chance.integer(0, DISORDER), f"page-{chance.integer(1, PAGES)}")
                for number in range(40)
            )
            for split in range(SPLITS)
        }
    )


class Visits(KeyedProcessFunction):
    """Emits each visit with its number, and the count of each hour when it is over."""

    def open(self, runtime_context):
        self.visits = runtime_context.get_state(ValueStateDescriptor("visits", Types.LONG()))
        self.hours = runtime_context.get_map_state(MapStateDescriptor("hours", Types.LONG(), Types.LONG()))

    def process_element(self, value, ctx):
        visits = (self.visits.value() or 0) + 1
        self.visits.update(visits)
        hour = ctx.timestamp() // HOUR
        self.hours.put(hour, (self.hours.get(hour) or 0) + 1)
        ctx.timer_service().register_event_time_timer((hour + 1) * HOUR)
        yield value, "so far", visits

    def on_timer(self, timestamp, ctx):
        hour = timestamp // HOUR - 1
        yield ctx.get_current_key(), f"hour {hour}", self.hours.get(hour)
        self.hours.remove(hour)


def page_of(value):
    return value


def page_of_row(row):
    return row[0]


def job(env, io):
    """Build log -> visits -> table, both edges keyed by the page."""
    behind = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER))
    log = env.from_source(io.source("log"), behind, "log").uid("log")
    keyed = log.set_parallelism(io.source_parallelism).key_by(page_of, Types.STRING())
    visits = keyed.process(Visits()).name("visits").uid("visits").set_parallelism(io.parallelism)
    table = visits.key_by(page_of_row, Types.STRING()).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def expected(records, declared):
    """Count the visits of each page, and those of each of its hours."""
    visits = [(timestamp // HOUR, page) for log in records.values() for timestamp, page in log]
    hours = [(page, f"hour {hour}", count) for (hour, page), count in Counter(visits).items()]
    rows = [row for row in hours if declared.is_whole or row in declared.rows]
    for page, count in Counter(page for _, page in visits).items():
        rows += [(page, "so far", number + 1) for number in range(count)]
    return rows
