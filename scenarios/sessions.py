"""Sessions of users' actions that end after ten seconds without an action, with late actions beside them.

A session is a window that grows and merges: its contents stay under the first window while the window moves,
and an action between two sessions makes them one. So a checkpoint must agree on windows, on where their
contents are stored, and on timers, some of which were deleted. Each session's row lists its actions, so that
a missing or repeated one is seen.

Which sessions there are may depend on when watermarks come: an action that should have joined two sessions
may come after the first of them was emitted. Then it is late, or begins a session of its own that touches the
other. The oracles accept such sessions where an action was far enough out of order.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from onceproof.engine.durations import Time
from onceproof.engine.functions import ProcessFunction
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import EventTimeSessionWindows
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import _lateness as lateness

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.scenarios._lateness import Arrival

name = "sessions"
generator_version = 3
options = FamilyOptions(
    declares=True,
    answers=lateness.window_of,
    any_backend=True,
    # All actions of a session are kept under the window of the action that arrived first.
    arrival_states=("merging-window-set", "window-contents"),
)
tasks: dict[str, Role] = {"actions": "source", "sessions": "keyed", "late": "keyed", "table": "sink"}
record_schema = "user STRING, action BIGINT"
row_schema = "kind STRING, user STRING, start BIGINT, actions STRING"

GAP_MS = 10 * lateness.SECOND_MS
"""A session ends this many milliseconds after its last action; sessions that touch are one."""

oracle_sql = f"""
WITH arrivals AS (
    SELECT *, coalesce(max(timestamp) OVER (
      PARTITION BY scenario_id, split ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) - {lateness.BOUND_MS} - 1, -9223372036854775807 - 1) AS watermark
    FROM records
  ),
  stated AS (
    SELECT DISTINCT scenario_id, kind, user, start, actions FROM declared
  ),
  members AS (
    SELECT stated.*, arrivals.timestamp, arrivals.watermark,
      size(split(actions, ',')) AS size,
      count(*) OVER (PARTITION BY stated.scenario_id, action) AS uses,
      lag(timestamp) OVER (
        PARTITION BY stated.scenario_id, kind, stated.user, start, actions ORDER BY timestamp
      ) AS before
    FROM (SELECT *, explode(split(actions, ',')) AS said FROM stated) AS stated
    JOIN arrivals
    ON stated.scenario_id = arrivals.scenario_id AND stated.user = arrivals.user AND said = string(action)
  ),
  whole AS (
    SELECT scenario_id, kind, user, start, actions, max(timestamp) + {GAP_MS} AS end
    FROM members GROUP BY scenario_id, kind, user, start, actions
    HAVING count(*) = max(size) AND max(uses) = 1 AND min(timestamp) = start
      AND max(coalesce(timestamp - before, 0)) <= {GAP_MS}
      AND (kind = 'session' OR max(size) = 1 AND max(watermark) >= start + {GAP_MS} - 1)
  ),
  torn AS (
    SELECT one.scenario_id, one.user, one.start, one.actions, other.actions AS others,
      bool_and(watermark >= other.end - 1) AS came_after
    FROM whole AS one
    JOIN whole AS other
    ON one.scenario_id = other.scenario_id AND one.user = other.user AND one.actions <> other.actions
    JOIN members
    ON one.scenario_id = members.scenario_id AND one.user = members.user
      AND one.actions = members.actions
      AND members.timestamp <= other.end AND members.timestamp + {GAP_MS} >= other.start
    WHERE one.kind = 'session' AND other.kind = 'session'
    GROUP BY one.scenario_id, one.user, one.start, one.actions, other.actions
  ),
  impossible AS (
    SELECT one.scenario_id, one.user, one.actions
    FROM torn AS one JOIN torn AS other
    ON one.scenario_id = other.scenario_id AND one.user = other.user
      AND one.actions = other.others AND one.others = other.actions
    WHERE NOT one.came_after AND NOT other.came_after
  ),
  possible AS (
    SELECT * FROM whole WHERE kind = 'late' OR NOT EXISTS (
      SELECT 1 FROM impossible
      WHERE impossible.scenario_id = whole.scenario_id AND impossible.user = whole.user
        AND impossible.actions = whole.actions
    )
  ),
  explained AS (
    SELECT scenario_id, explode(split(actions, ',')) AS action FROM possible
  )
SELECT scenario_id, kind, user, start, actions FROM possible
UNION ALL
SELECT scenario_id, 'session', user, timestamp, string(action) FROM arrivals WHERE NOT EXISTS (
  SELECT 1 FROM explained
  WHERE explained.scenario_id = arrivals.scenario_id AND explained.action = string(arrivals.action)
)
"""

SESSION = "session"
USERS = ("ann", "bob", "cid", "dora", "eva", "fay")
LATE = OutputTag(lateness.LATE, Types.TUPLE([Types.STRING(), Types.LONG()]))


def generate(random: Random) -> Workload:
    """Draw 1 to 3 splits of actions; the pace decides whether sessions are short, long, or one."""
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 4), (3, 2)])
    users = USERS[: chance.weighted([(1, 2), (2, 3), (6, 3)])]
    longest = chance.weighted([(3, 1), (12, 4), (25, 3)])
    pace_ms = chance.choice([500, 2000, 6000, 15000])
    late_share = lateness.draw_late_share(chance)
    records = {}
    action = 0
    for split in range(splits):
        actions = []
        timestamps = lateness.draw_timestamps(chance, chance.integer(0, longest), pace_ms, late_share)
        for timestamp in timestamps:
            action += 1
            actions.append((timestamp, (chance.choice(users), action)))
        records[f"actions-{split}"] = tuple(actions)
    parameters = {"users": len(users), "pace_ms": pace_ms, "late": late_share}
    return Workload(lateness.moved(chance, records), parameters)


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
        yield lateness.LATE, value[0], ctx.timestamp(), str(value[1])


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build actions -> sessions -> table, and late actions beside them."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.STRING()])
    actions = env.from_source(
        io.source("actions"),
        lateness.WATERMARKS,
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


class Stated(NamedTuple):
    """A session or a late action as the run declares it, with the actions that it lists."""

    row: Any
    members: list[Arrival]

    @property
    def end(self) -> int:
        """The end of the session: one gap after its last action, in milliseconds."""
        return self.members[-1].timestamp + GAP_MS

    def is_whole(self) -> bool:
        """Return whether the actions make one session, or one action that may be late."""
        kind, _, start, actions = self.row
        times = [member.timestamp for member in self.members]
        if len(times) != len(actions.split(",")) or times[0] != start:
            return False
        if kind == lateness.LATE:
            return len(times) == 1 and self.members[0].may_miss(start + GAP_MS)
        return kind == SESSION and all(
            later - earlier <= GAP_MS for earlier, later in itertools.pairwise(times)
        )

    def may_miss(self, other: Stated) -> bool:
        """Return whether all actions that join it to the other may have come after that was emitted."""
        start, end = other.members[0].timestamp, other.end
        joining = [
            member
            for member in self.members
            if member.timestamp <= end and member.timestamp + GAP_MS >= start
        ]
        return all(member.may_miss(end) for member in joining)

    def touches(self, other: Stated) -> bool:
        """Return whether the two should be one session."""
        mine, theirs = self.members[0].timestamp, other.members[0].timestamp
        return mine <= other.end and self.end >= theirs


def expected(records: Records, declared: Declared) -> Rows:
    """Return the declared sessions that are possible, and the sessions that the other actions make."""
    arrivals = {(arrival.value[0], str(arrival.value[1])): arrival for arrival in lateness.arrivals(records)}
    stated = []
    uses: dict[tuple[str, str], int] = {}
    for row in dict.fromkeys(declared.rows):
        if row[3] is None:
            continue
        names = [(row[1], action) for action in row[3].split(",")]
        members = sorted([arrivals[each] for each in names if each in arrivals])
        for each in names:
            uses[each] = uses.get(each, 0) + 1
        if members:
            stated.append(Stated(row, members))
    whole = [
        each
        for each in stated
        if all(uses[each.row[1], action] == 1 for action in each.row[3].split(",")) and each.is_whole()
    ]
    explained = {(each.row[1], str(member.value[1])) for each in whole for member in each.members}
    unexplained = [arrival for name, arrival in arrivals.items() if name not in explained]
    rows = [each.row for each in whole if _is_possible(each, whole, unexplained)]
    for row in rows:
        for action in row[3].split(","):
            del arrivals[row[1], action]
    return lateness.given_out([*rows, *_made_of(sorted(arrivals.values()))], declared)


def _is_possible(stated: Stated, whole: list[Stated], unexplained: list[Arrival]) -> bool:
    """Return whether each session that it touches may have missed it, or been missed by it."""
    if stated.row[0] == lateness.LATE:
        return True
    for arrival in unexplained:
        alone = Stated((SESSION, arrival.value[0]), [arrival])
        if alone.row[1] == stated.row[1] and stated.touches(alone) and not arrival.may_miss(stated.end):
            return False
    for other in whole:
        same = other is not stated and other.row[0] == stated.row[0] and other.row[1] == stated.row[1]
        if same and stated.touches(other) and not stated.may_miss(other) and not other.may_miss(stated):
            return False
    return True


def _made_of(arrivals: list[Arrival]) -> Iterator[tuple[str, str, int, str]]:
    """Yield the sessions of actions in the order of their timestamps, as if none had come late."""
    open_sessions: dict[str, list[Arrival]] = {}
    for arrival in arrivals:
        session = open_sessions.get(arrival.value[0])
        if session is not None and arrival.timestamp - session[-1].timestamp > GAP_MS:
            yield _row_of(session)
            session = None
        if session is None:
            session = open_sessions[arrival.value[0]] = []
        session.append(arrival)
    for session in open_sessions.values():
        yield _row_of(session)


def _row_of(session: list[Arrival]) -> tuple[str, str, int, str]:
    actions = sorted(arrival.value[1] for arrival in session)
    return SESSION, session[0].value[0], session[0].timestamp, ",".join(map(str, actions))
