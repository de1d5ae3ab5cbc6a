"""Visits of each page per hour; repeated visits are dropped, late ones are rows of their own."""

from collections import Counter

from onceproof import Chance, FamilyOptions, Workload
from onceproof.engine import (
    Duration,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    Time,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)

name = "hourly_visits"
generator_version = 1
HOUR = 3_600_000
BOUND = 600_000
options = FamilyOptions(late="late", due=lambda row, _: row[2] + HOUR - 1 if row[0] == "hour" else None)
tasks = {"visits": "source", "dedup": "keyed", "hours": "keyed", "beside": "keyed", "board": "sink"}
record_schema = "visit STRING, page STRING, seconds BIGINT"
row_schema = "kind STRING, page STRING, start BIGINT, visits BIGINT, seconds BIGINT"
oracle_sql = f"""
WITH fresh AS (
  SELECT scenario_id, visit, page, seconds, timestamp AS at,
    row_number() OVER (PARTITION BY scenario_id, page, timestamp, seconds ORDER BY visit) AS copy
  FROM (SELECT DISTINCT scenario_id, visit, page, seconds, timestamp FROM records)
), late AS (
  SELECT scenario_id, page, start AS at, seconds, count(*) AS copies
  FROM declared WHERE kind = 'late' GROUP BY ALL
), marked AS (
  SELECT fresh.*, copy <= coalesce(copies, 0) AS is_late
  FROM fresh LEFT JOIN late USING (scenario_id, page, at, seconds)
)
SELECT scenario_id, 'hour' AS kind, page, at - at % {HOUR} AS start, count(*) AS visits,
  sum(seconds) AS seconds
FROM marked WHERE NOT is_late GROUP BY ALL
UNION ALL
SELECT scenario_id, 'late', page, at, 1, seconds FROM marked WHERE is_late
"""
VISIT = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
ROW = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])
LATE = OutputTag("late", VISIT)


def generate(random):
    chance = Chance(random)
    splits = {}
    for server in range(chance.integer(1, 3)):
        now, visits = 0, []
        for number in range(chance.integer(0, 20)):
            now = chance.at_boundary(now + chance.integer(0, HOUR // 2), HOUR)
            if visits and chance.chance(0.2):
                visits.append(chance.choice(visits))
                continue
            behind = chance.integer(0, BOUND) if chance.chance(0.8) else chance.integer(0, 4 * HOUR)
            visit = (f"v-{server}-{number}", f"page-{chance.integer(0, 2)}", chance.integer(0, 99))
            visits.append((max(0, now - behind), visit))
        splits[f"server-{server}"] = visits
    return Workload(splits)


class Dedup(KeyedProcessFunction):
    def open(self, context):
        self.seen = context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, visit, ctx):
        if self.seen.value():
            return
        self.seen.update(True)
        yield visit


class Hour(ProcessWindowFunction):
    def process(self, page, context, visits):
        seconds = [visit[2] for visit in visits]
        yield "hour", page, context.window().start, len(seconds), sum(seconds)


class Beside(ProcessFunction):
    def process_element(self, visit, ctx):
        yield "late", visit[1], ctx.timestamp(), 1, visit[2]


def job(env, io):
    in_bounds = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND))
    visits = env.from_source(io.source("visits"), in_bounds, "visits").uid("visits")
    visits.set_parallelism(io.source_parallelism)
    fresh = visits.key_by(lambda v: v[0], Types.STRING()).process(Dedup(), VISIT).name("dedup").uid("dedup")
    fresh.set_parallelism(io.parallelism)
    hours = (
        fresh.key_by(lambda v: v[1], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(HOUR)))
        .side_output_late_data(LATE)
        .process(Hour(), ROW)
        .name("hours")
        .uid("hours")
    )
    hours.set_parallelism(io.parallelism)
    late = hours.get_side_output(LATE).process(Beside(), ROW).name("beside").uid("beside")
    late.set_parallelism(io.parallelism)
    board = hours.union(late).key_by(lambda r: r[1], Types.STRING()).add_sink(io.sink("board"))
    board.name("board").uid("board").set_parallelism(io.sink_parallelism)


def expected(records, declared):
    visits = {}
    for split in records.values():
        for at, (visit, page, seconds) in split:
            visits.setdefault(visit, (at, page, seconds))
    said = Counter(row for row in declared.rows if row[0] == "late")
    hours, rows = {}, []
    for at, page, seconds in visits.values():
        late = ("late", page, at, 1, seconds)
        if said[late]:
            said[late] -= 1
            rows.append(late)
        else:
            hours.setdefault((page, at - at % HOUR), []).append(seconds)
    rows += [("hour", *key, len(seconds), sum(seconds)) for key, seconds in hours.items()]
    return declared.so_far(rows)
