"""Sessions of users' actions that end after ten seconds without an action, with late actions beside them.

A session is a window that grows and merges: its contents stay under the first window while the window moves,
and an action between two sessions makes them one. So a checkpoint must agree on windows, on where their
contents are stored, and on timers, some of which were deleted. Each session's row lists its actions, so that
a missing or repeated one is seen.

Which sessions there are may depend on when watermarks come: an action that should have joined two sessions
may come after the first of them was emitted. Then it is late, or begins a session of its own that touches the
other.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, cast

from onceproof.engine.durations import Time
from onceproof.engine.functions import ProcessFunction
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import EventTimeSessionWindows
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import _event_time as event_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.history import Row

name = "sessions"
generator_version = 3
tasks: dict[str, Role] = {"actions": "source", "sessions": "keyed", "late": "keyed", "table": "sink"}
record_schema = "user STRING, action BIGINT"
row_schema = "kind STRING, user STRING, start BIGINT, actions STRING"

GAP_MS = 10 * event_time.SECOND_MS
"""A session ends this many milliseconds after its last action; sessions that touch are one."""

oracle_sql = f"""
WITH named AS (
  SELECT *, string(action) AS actions FROM records
), late AS (
  SELECT DISTINCT scenario_id, user, start AS timestamp, actions
  FROM declared WHERE kind = '{event_time.LATE}'
), counted AS (
  SELECT *, lag(timestamp) OVER (PARTITION BY scenario_id, user ORDER BY timestamp, action) AS before
  FROM named LEFT ANTI JOIN late USING (scenario_id, user, timestamp, actions)
), numbered AS (
  SELECT *, count_if(before IS NULL OR timestamp > before + {GAP_MS}) OVER (
    PARTITION BY scenario_id, user ORDER BY timestamp, action
  ) AS session
  FROM counted
)
SELECT scenario_id, '{event_time.LATE}' AS kind, user, timestamp AS start, actions
FROM named LEFT SEMI JOIN late USING (scenario_id, user, timestamp, actions)
UNION ALL
SELECT scenario_id, 'session', user, min(timestamp),
  array_join(transform(array_sort(collect_list(action)), each -> string(each)), ',')
FROM numbered GROUP BY scenario_id, user, session
"""

SESSION = "session"
USERS = ("ann", "bob", "cid", "dora", "eva", "fay")
LATE = OutputTag(event_time.LATE, Types.TUPLE([Types.STRING(), Types.LONG()]))


def generate(random: Random) -> Workload:
    """Draw 1 to 3 splits of actions; the pace decides whether sessions are short, long, or one."""
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 4), (3, 2)])
    users = USERS[: chance.weighted([(1, 2), (2, 3), (6, 3)])]
    longest = chance.weighted([(3, 1), (12, 4), (25, 3)])
    pace_ms = chance.choice([500, 2000, 6000, 15000])
    late_share = event_time.draw_late_share(chance)
    records = {}
    action = 0
    for split in range(splits):
        actions = []
        timestamps = event_time.draw_timestamps(chance, chance.integer(0, longest), pace_ms, late_share)
        for timestamp in timestamps:
            action += 1
            actions.append((timestamp, (chance.choice(users), action)))
        records[f"actions-{split}"] = tuple(actions)
    parameters = {"users": len(users), "pace_ms": pace_ms, "late": late_share}
    return Workload(event_time.moved(chance, records), parameters)


class SessionRow(ProcessWindowFunction):
    """Emits the row of a session, with the list of its actions."""

    def process(
        self, key: str, context: WindowContext, elements: Iterable[tuple[str, int]]
    ) -> Iterator[tuple[str, str, int, str]]:
        actions = sorted(action for _, action in elements)
        yield SESSION, key, context.window().start, ",".join(map(str, actions))


class LateAction(ProcessFunction):
    """Emits a late action as a row."""

    def process_element(
        self, value: tuple[str, int], ctx: ProcessFunction.Context
    ) -> Iterator[tuple[str, str, int | None, str]]:
        yield event_time.LATE, value[0], ctx.timestamp(), str(value[1])


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build actions -> sessions -> table, and late actions beside them."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.STRING()])
    actions = env.from_source(
        io.source("actions"),
        event_time.WATERMARKS,
        "actions",
        Types.TUPLE([Types.STRING(), Types.LONG()]),
    ).uid("actions")
    sessions = (
        actions.set_parallelism(io.source_parallelism)
        .key_by(_user, Types.STRING())
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS)))
        .side_output_late_data(LATE)
        .process(SessionRow(), row)
        .name("sessions")
        .uid("sessions")
        .set_parallelism(io.parallelism)
    )
    late = sessions.get_side_output(LATE).process(LateAction(), row).name("late").uid("late")
    late.set_parallelism(io.parallelism)
    table = sessions.union(late).key_by(_user_of_row, Types.STRING()).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _user(value: tuple[str, int]) -> str:
    return value[0]


def _user_of_row(row: tuple[str, ...]) -> str:
    return row[1]


def expected(records: Records, declared: Declared) -> Rows:
    """Return the sessions of all actions that were not late."""
    actions, rows = event_time.without_late(
        records, declared, lambda timestamp, value: (event_time.LATE, value[0], timestamp, str(value[1]))
    )
    open_sessions: dict[str, list[tuple[int, int]]] = {}
    sessions = []
    for timestamp, (user, action) in sorted(actions):
        session = open_sessions.get(user)
        if session is None or timestamp - session[-1][0] > GAP_MS:
            session = open_sessions[user] = []
            sessions.append((user, session))
        session.append((timestamp, action))
    for user, session in sessions:
        listed = sorted(action for _, action in session)
        rows.append((SESSION, user, session[0][0], ",".join(map(str, listed))))
    return declared.so_far(rows)


def due(row: Row, records: Records) -> int | None:
    """Return the last millisecond of a session, which ends one gap after the last action that it lists."""
    if row[0] != SESSION or row[3] is None:
        return None
    listed = {*row[3].split(",")}
    times = [
        timestamp
        for own in records.values()
        for timestamp, value in own
        if str(cast(tuple[str, int], value)[1]) in listed
    ]
    return max(times) + GAP_MS - 1 if times else None


options = FamilyOptions(
    late=event_time.LATE,
    due=due,
    answers=event_time.window_of,
    any_backend=True,
    # All actions of a session are kept under the window of the action that arrived first.
    arrival_states=("merging-window-set", "window-contents"),
)
