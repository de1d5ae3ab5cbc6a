"""Sessions of each user; repeated clicks are dropped, late ones are rows of their own."""

from collections import Counter

from onceproof import Chance, FamilyOptions, Workload
from onceproof.engine import (
    Duration,
    EventTimeSessionWindows,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    Time,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)

name = "site_sessions"
generator_version = 1
GAP = 60_000
BOUND = 20_000
options = FamilyOptions(
    late="late",
    due=lambda row, _: row[3] - 1 if row[0] == "session" else None,
    arrival_states=("merging-window-set", "window-contents"),
)
tasks = {"clicks": "source", "dedup": "keyed", "sessions": "keyed", "beside": "keyed", "board": "sink"}
record_schema = "click STRING, user STRING, cents BIGINT"
row_schema = "kind STRING, user STRING, start BIGINT, end BIGINT, cents BIGINT"
oracle_sql = "SELECT scenario_id, kind, user, start, end, cents FROM declared"
CLICK = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
ROW = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])
LATE = OutputTag("late", CLICK)


def generate(random):
    chance = Chance(random)
    splits = {}
    for server in range(chance.integer(1, 3)):
        now, clicks = 0, []
        for number in range(chance.integer(0, 20)):
            now = chance.at_boundary(now + chance.integer(0, GAP), GAP)
            if clicks and chance.chance(0.2):
                clicks.append(chance.choice(clicks))
                continue
            behind = chance.integer(0, BOUND) if chance.chance(0.8) else chance.integer(0, 4 * GAP)
            click = (f"k-{server}-{number}", f"user-{chance.integer(0, 1)}", chance.integer(1, 99))
            clicks.append((max(0, now - behind), click))
        splits[f"server-{server}"] = clicks
    return Workload(splits)


class Dedup(KeyedProcessFunction):
    def open(self, context):
        self.seen = context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, click, ctx):
        if self.seen.value():
            return
        self.seen.update(True)
        yield click


class Session(ProcessWindowFunction):
    def process(self, user, context, clicks):
        window = context.window()
        yield "session", user, window.start, window.end, sum(click[2] for click in clicks)


class Beside(ProcessFunction):
    def process_element(self, click, ctx):
        yield "late", click[1], ctx.timestamp(), ctx.timestamp(), click[2]


def job(env, io):
    in_bounds = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND))
    clicks = env.from_source(io.source("clicks"), in_bounds, "clicks").uid("clicks")
    clicks.set_parallelism(io.source_parallelism)
    fresh = clicks.key_by(lambda c: c[0], Types.STRING()).process(Dedup(), CLICK).name("dedup").uid("dedup")
    fresh.set_parallelism(io.parallelism)
    sessions = (
        fresh.key_by(lambda c: c[1], Types.STRING())
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP)))
        .side_output_late_data(LATE)
        .process(Session(), ROW)
        .name("sessions")
        .uid("sessions")
    )
    sessions.set_parallelism(io.parallelism)
    late = sessions.get_side_output(LATE).process(Beside(), ROW).name("beside").uid("beside")
    late.set_parallelism(io.parallelism)
    board = sessions.union(late).key_by(lambda r: r[1], Types.STRING()).add_sink(io.sink("board"))
    board.name("board").uid("board").set_parallelism(io.sink_parallelism)


def expected(records, declared):
    clicks = {}
    for split in records.values():
        for at, (click, user, cents) in split:
            clicks.setdefault(click, (at, user, cents))
    said = Counter(row for row in declared.rows if row[0] == "late")
    sessions, rows = {}, []
    for at, user, cents in sorted(clicks.values()):
        late = ("late", user, at, at, cents)
        if said[late]:
            said[late] -= 1
            rows.append(late)
            continue
        own = sessions.setdefault(user, [])
        if own and at <= own[-1][1]:
            own[-1] = (own[-1][0], at + GAP, own[-1][2] + cents)
        else:
            own.append((at, at + GAP, cents))
    rows += [("session", user, *session) for user, own in sessions.items() for session in own]
    return declared.so_far(rows)
