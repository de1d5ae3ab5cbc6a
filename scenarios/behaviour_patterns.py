"""Patterns of behaviour: users who do one action and then another, where the pattern is a stream, too.

The pattern in force (login and then pay, login and then buy) is kept in BroadcastState; a ValueState keeps
the previous action of each user. The copies of the broadcast state must be equal in all subtasks, also after
a rescale: a subtask that lost a pattern judges differently.

When a subtask receives a pattern is not fixed: two inputs have no common order. So each action's row holds
the number of the pattern by which it was judged. The oracles accept the declared number where it is possible:
a user's actions never go back to an older pattern, and none is judged by a pattern that has not been read.
The rest follows from the input. Each subtask numbers the patterns itself, so a subtask that lost one shows
lower numbers than the others.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.broadcast_functions import KeyedBroadcastProcessFunction
from onceproof.engine.functions import RuntimeContext
from onceproof.engine.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import LABELLED_KEY, LabelledSource, into_table, label_and_key, named
from onceproof.scenarios._streams import StreamSource, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.scenario import InputRecord

name = "behaviour_patterns"
generator_version = 1
options = FamilyOptions(declares=True)
tasks: dict[str, Role] = {"actions": "source", "patterns": "source", "match": "keyed", "table": "sink"}
record_schema = "subject STRING, action STRING"
row_schema = (
    "split STRING, user STRING, place BIGINT, action STRING, pattern BIGINT, is_match BOOLEAN, then STRING"
)
oracle_sql = """
WITH patterns AS (
  SELECT scenario_id, offset + 1 AS pattern, subject AS first, action AS then
  FROM records WHERE startswith(split, 'patterns-')
), actions AS (
  SELECT scenario_id, split, subject AS user, action,
         row_number() OVER (PARTITION BY scenario_id, split, subject ORDER BY offset) AS place,
         lag(action) OVER (PARTITION BY scenario_id, split, subject ORDER BY offset) AS previous
  FROM records WHERE startswith(split, 'actions-')
), stated AS (
  SELECT actions.scenario_id, actions.split, actions.user, actions.place, min(declared.pattern) AS pattern
  FROM actions
  JOIN declared USING (scenario_id, split, user, place)
  JOIN patterns ON declared.scenario_id = patterns.scenario_id AND declared.pattern = patterns.pattern
  GROUP BY ALL
), judged AS (
  SELECT actions.*, coalesce(max(pattern) OVER (
    PARTITION BY scenario_id, split, user ORDER BY place
  ), 0) AS pattern
  FROM actions LEFT JOIN stated USING (scenario_id, split, user, place)
)
SELECT scenario_id, split, user, place, judged.action, pattern,
       coalesce(previous = first AND judged.action = then, false) AS is_match, coalesce(then, '') AS then
FROM judged LEFT JOIN patterns USING (scenario_id, pattern)
"""

USERS = ("ann", "bob", "cid", "dora", "eva", "fay")
ACTIONS = ("login", "pay", "buy")
PATTERNS = (("login", "pay"), ("login", "buy"), ("pay", "login"))
NO_PATTERN = 0

PATTERN = MapStateDescriptor(
    "pattern", Types.VOID(), Types.TUPLE([Types.LONG(), Types.STRING(), Types.STRING()])
)
IN_FORCE = None
"""The one key of the broadcast state; its value is (number, first action, next action)."""


def generate(random: Random) -> Workload:
    """Draw up to three logs of actions, and a few patterns in one split."""
    chance = Chance(random)
    logs = chance.integer(1, 3)
    users = USERS[: chance.weighted([(1, 2), (2, 3), (6, 4)])]
    longest = chance.weighted([(5, 1), (12, 3), (25, 3)])
    records: dict[str, tuple[InputRecord, ...]] = {}
    for log in range(logs):
        records[f"actions-{log}"] = tuple(
            [
                (time, (chance.choice(users), chance.choice(ACTIONS)))
                for time in range(chance.integer(0, longest))
            ]
        )
    patterns = chance.weighted([(0, 1), (1, 2), (2, 3), (chance.integer(3, 8), 3)])
    records["patterns-0"] = tuple([(time, chance.choice(PATTERNS)) for time in range(patterns)])
    return Workload(records, {"users": len(users), "patterns": patterns})


class Match(KeyedBroadcastProcessFunction):
    """Emits for each action whether it completes the pattern in force."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind each user's previous action and number of actions."""
        self._previous = runtime_context.get_state(ValueStateDescriptor("previous", Types.STRING()))
        self._place = runtime_context.get_state(ValueStateDescriptor("place", Types.LONG()))

    def process_element(
        self, value: tuple[str, str, str], ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[str, str, int, str, int, bool, str]]:
        """Compare the previous and this action with the pattern."""
        split, user, action = value
        number, first, then = ctx.get_broadcast_state(PATTERN).get(IN_FORCE) or (NO_PATTERN, "", "")
        place = (self._place.value() or 0) + 1
        self._place.update(place)
        yield split, user, place, action, number, (self._previous.value(), action) == (first, then), then
        self._previous.update(action)

    def process_broadcast_element(
        self, value: tuple[str, str], ctx: KeyedBroadcastProcessFunction.Context
    ) -> None:
        """Replace the pattern in force."""
        state = ctx.get_broadcast_state(PATTERN)
        number, *_ = state.get(IN_FORCE) or (NO_PATTERN,)
        state.put(IN_FORCE, (number + 1, *value))


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build actions -> match -> table, keyed by split and user; patterns are broadcast to match."""
    text, number = Types.STRING(), Types.LONG()
    row = Types.TUPLE([text, text, number, text, number, Types.BOOLEAN(), text])
    log = LabelledSource(StreamSource(io.source("actions"), "actions"))
    actions = env.from_source(log, None, "actions").uid("actions").set_parallelism(io.source_parallelism)
    patterns = env.from_source(StreamSource(io.source("patterns"), "patterns"), None, "patterns")
    patterns = patterns.uid("patterns").set_parallelism(io.source_parallelism)
    matches = (
        actions.key_by(label_and_key, LABELLED_KEY).connect(patterns.broadcast(PATTERN)).process(Match(), row)
    )
    into_table(named(matches, "match", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Follow each user's actions through the patterns by which the run declares it judged them."""
    patterns = [value for split in part_of(records, "patterns").values() for _, value in split]
    stated: dict[tuple[object, ...], int] = {}
    for split, user, place, _action, pattern, _is_match, _then in declared.rows:
        if type(pattern) is int and NO_PATTERN < pattern <= len(patterns):
            stated[split, user, place] = min(pattern, stated.get((split, user, place), pattern))
    rows = []
    for split, log in part_of(records, "actions").items():
        users: dict[object, tuple[int, object, int]] = {}
        for _, value in log:
            assert isinstance(value, tuple)
            user, action = value
            place, previous, pattern = users.get(user, (0, None, NO_PATTERN))
            place += 1
            pattern = max(pattern, stated.get((split, user, place), NO_PATTERN))
            in_force = patterns[pattern - 1] if pattern else (None, "")
            assert isinstance(in_force, tuple)
            users[user] = (place, action, pattern)
            rows.append((split, user, place, action, pattern, (previous, action) == in_force, in_force[1]))
    return rows
