"""Additions and questions: the total of a key is a state that only its first question registers.

A function may ask for a state when it first needs it. A job that is restored then holds a state that no
function has registered yet, and a checkpoint that is complete before the next question has to carry it on:
the next recovery restores that one. Questions are rare, so two recoveries often come between two of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, into_table, keyed_records, named

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Said: TypeAlias = tuple[str, str, bool, int]
"""Split, key, whether it is a question, amount."""
Answer: TypeAlias = tuple[str, str, int, int]
"""Split, key, number of the question, total up to it."""

name = "questions"
generator_version = 1
options = FamilyOptions(any_backend=True, turns=3)
tasks: dict[str, Role] = {"said": "source", "answers": "keyed", "table": "sink"}
record_schema = "key STRING, asks BOOLEAN, amount BIGINT"
row_schema = "split STRING, key STRING, question BIGINT, total BIGINT"
oracle_sql = """
WITH totals AS (
  SELECT *, sum(if(asks, 0, amount)) OVER so_far AS total, sum(if(asks, 1, 0)) OVER so_far AS question
  FROM records
  WINDOW so_far AS (PARTITION BY scenario_id, split, key ORDER BY offset ROWS UNBOUNDED PRECEDING)
)
SELECT scenario_id, split, key, question, total FROM totals WHERE asks
"""
KEYS: Final = ("ann", "ben", "cem")
QUESTIONS: Final = 0.25
ANSWERED: Final = MapStateDescriptor("answered", Types.STRING(), Types.LONG())


def generate(random: Random) -> Workload:
    """Draw additions, and a question now and then."""
    return draw_keyed(random, KEYS, _said)


def _said(chance: Chance, key: str, now: int) -> tuple[str, bool, int]:
    return key, chance.chance(QUESTIONS), chance.integer(1, 9)


class Answers(KeyedProcessFunction):
    """Adds up in one state, and moves the sum into another one at a question."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._context = runtime_context
        self._since = runtime_context.get_state(ValueStateDescriptor("since the question", Types.LONG()))

    def process_element(self, value: Said, ctx: KeyedProcessFunction.Context) -> Iterator[Answer]:
        split, key, asks, amount = value
        since = self._since.value() or 0
        if not asks:
            self._since.update(since + amount)
            return
        answered = self._context.get_map_state(ANSWERED)
        total = (answered.get("total") or 0) + since
        question = (answered.get("question") or 0) + 1
        answered.put("total", total)
        answered.put("question", question)
        self._since.clear()
        yield split, key, question, total


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build said -> answers -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
    into_table(named(keyed_records(env, io, "said").process(Answers(), row), "answers", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Return an answer for each question: the sum of the additions of its key before it."""
    rows: list[Answer] = []
    for split, own in records.items():
        totals: dict[str, int] = {}
        questions: dict[str, int] = {}
        for _, value in own:
            assert isinstance(value, tuple)
            key, asks, amount = str(value[0]), bool(value[1]), int(value[2] or 0)
            if not asks:
                totals[key] = totals.get(key, 0) + amount
                continue
            questions[key] = questions.get(key, 0) + 1
            rows.append((split, key, questions[key], totals.get(key, 0)))
    return rows
