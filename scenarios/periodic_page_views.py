"""Page views per user, emitted every ten seconds: a count in the state, and an event timer that emits it.

The first view of a user registers a timer ten seconds later. When it fires, the function emits the number of
views so far, and the next view registers the next timer. Count and timer belong together: a checkpoint that
has only one of them, or a timer that is lost in a rescale, fires twice or under another key, gives rows that
no correct run gives.

How many views have come when a timer fires depends on when watermarks come. The oracles accept the count of a
row if it is possible: all views before the record that moved the watermark past the timer are counted, and
the next timer follows from the first view that is not. A user belongs to one split, so the views of a user
come in order.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, cast

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import _event_time as event_time
from onceproof.scenarios._keyed_job import LABELLED_KEY, LabelledSource, into_table, label_and_key, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.scenario import InputRecord

name = "periodic_page_views"
generator_version = 3
options = FamilyOptions(
    declares=True,
    # The watermark decides whether a view comes before a timer, or after it and sets the next one.
    arrival_states=("timer", "_timer_state/event_user-timers"),
)
tasks: dict[str, Role] = {"log": "source", "views": "keyed", "table": "sink"}
record_schema = "user STRING, page STRING"
row_schema = "split STRING, user STRING, at BIGINT, views BIGINT"

PERIOD_MS = 10 * event_time.SECOND_MS

oracle_sql = f"""
WITH numbered AS (
    SELECT *,
      row_number() OVER (PARTITION BY scenario_id, split, user ORDER BY offset) - 1 AS number,
      count(*) OVER (PARTITION BY scenario_id, split, user) AS total,
      max(timestamp) OVER (PARTITION BY scenario_id, split ORDER BY offset) - {event_time.BOUND_MS} - 1
        AS watermark
    FROM records
  ),
  said AS (
    SELECT DISTINCT scenario_id, split, user, at, views FROM declared
    WHERE views IS NOT NULL AND at IS NOT NULL
  ),
  unsaid AS (
    SELECT numbered.scenario_id, numbered.split, numbered.user, CAST(NULL AS BIGINT) AS at, total AS views
    FROM numbered LEFT JOIN said
    ON numbered.scenario_id = said.scenario_id AND numbered.split = said.split AND numbered.user = said.user
    WHERE number = 0
    GROUP BY numbered.scenario_id, numbered.split, numbered.user, total
    HAVING coalesce(max(views), 0) < total
  ),
  steps AS (
    SELECT *, coalesce(lag(views) OVER (PARTITION BY scenario_id, split, user ORDER BY views, at), 0)
      AS stated
    FROM (SELECT * FROM said UNION ALL SELECT * FROM unsaid)
  ),
  timers AS (
    SELECT steps.*, total, timestamp + {PERIOD_MS} AS due
    FROM steps JOIN numbered
    ON steps.scenario_id = numbered.scenario_id AND steps.split = numbered.split
      AND steps.user = numbered.user AND number = stated
  ),
  passed AS (
    SELECT timers.*, min(offset) AS offset_passed
    FROM timers LEFT JOIN numbered
    ON timers.scenario_id = numbered.scenario_id AND timers.split = numbered.split AND watermark >= due
    GROUP BY ALL
  ),
  bounded AS (
    SELECT passed.*,
      greatest(stated + 1, count_if(offset_passed IS NULL OR offset <= offset_passed)) AS least
    FROM passed JOIN numbered
    ON passed.scenario_id = numbered.scenario_id AND passed.split = numbered.split
      AND passed.user = numbered.user
    GROUP BY ALL
  )
SELECT scenario_id, split, user, due AS at,
  if(at = due AND views BETWEEN least AND total, views, least) AS views
FROM bounded
"""

USERS = ("ann", "bob", "cid")
PAGES = ("home", "cart", "help")


def generate(random: Random) -> Workload:
    """Draw 1 to 4 splits of views of a few users."""
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 4), (3, 2), (4, 1)])
    users = USERS[: chance.integer(1, len(USERS))]
    longest = chance.weighted([(3, 1), (12, 4), (25, 3)])
    pace_ms = chance.choice([500, 2000, 6000])
    records = {}
    for split in range(splits):
        timestamps = event_time.draw_timestamps(chance, chance.integer(0, longest), pace_ms, 0.1)
        records[f"log-{split}"] = tuple(
            [(timestamp, (chance.choice(users), chance.choice(PAGES))) for timestamp in timestamps]
        )
    return Workload(event_time.moved(chance, records), {"users": len(users), "pace_ms": pace_ms})


class PageViews(KeyedProcessFunction):
    """Counts the views of each user, and emits the count every ten seconds."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the count and the registered timer."""
        self._views = runtime_context.get_state(ValueStateDescriptor("views", Types.LONG()))
        self._timer = runtime_context.get_state(ValueStateDescriptor("timer", Types.LONG()))

    def process_element(self, value: tuple[str, str, str], ctx: KeyedProcessFunction.Context) -> None:
        """Count the view; register a timer unless there is one."""
        self._views.update((self._views.value() or 0) + 1)
        if self._timer.value() is None:
            due = ctx.timestamp() + PERIOD_MS
            ctx.timer_service().register_event_time_timer(due)
            self._timer.update(due)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[tuple[str, str, int, int]]:
        """Emit the count; the next view registers the next timer."""
        yield *ctx.get_current_key(), timestamp, self._views.value()
        self._timer.clear()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build log -> views -> table, both edges keyed by split and user."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
    log = env.from_source(LabelledSource(io.source("log")), event_time.WATERMARKS, "log").uid("log")
    by_user = log.set_parallelism(io.source_parallelism).key_by(label_and_key, LABELLED_KEY)
    into_table(named(by_user.process(PageViews(), row), "views", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Follow each user's timers: the declared count decides which view registers the next one."""
    said = defaultdict(set)
    for split, user, at, views in declared.rows:
        if views is not None and at is not None:
            said[split, user].add((views, at))
    rows: list[tuple[str, str, int, int]] = []
    for split, log in records.items():
        places: dict[str, list[int]] = defaultdict(list)
        for place, (_, value) in enumerate(log):
            places[cast(tuple[str, str], value)[0]].append(place)
        for user, own in places.items():
            # The count only grows, so it gives the order in which the rows were emitted.
            stated = _stated_of(log, own, sorted(said[split, user]))
            rows += [(split, user, at, views) for at, views in stated]
    return declared.so_far(rows)


def _stated_of(
    log: Sequence[InputRecord], places: list[int], said: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Return (time, number of views) of each row of a user; ``places`` are the user's views in the log."""
    stated = 0
    total = len(places)
    while stated < total:
        due = log[places[stated]][0] + PERIOD_MS
        passed = _passed(log, due)
        views = max(stated + 1, sum(place <= passed for place in places))
        later = next((pair for pair in said if pair[0] > stated), None)
        if later is not None and later[1] == due and views <= later[0] <= total:
            views = later[0]
        yield due, views
        stated = views


def _passed(log: Sequence[InputRecord], time: int) -> int:
    """Return the index of the record that moves the split's watermark past ``time``, or of the last one."""
    for place, (timestamp, _) in enumerate(log):
        if timestamp - event_time.BOUND_MS - 1 >= time:
            return place
    return len(log) - 1
