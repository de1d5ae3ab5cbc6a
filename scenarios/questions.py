"""Additions, and questions of several kinds: each kind has a state that its first question registers.

A function may ask for a state when it first needs it. A job that is restored then holds states that no
function has registered yet, and a checkpoint that is complete before the next question of their kinds has to
carry them on: the next recovery restores that one. Each kind has a state of its own. Most questions come at
the beginning and at the end of the input, and those of the end repeat what was asked before. So recoveries
and checkpoints come between two questions of a kind, and what is lost between them shows in a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
    from onceproof.harness.model.scenario import InputRecord

Said: TypeAlias = tuple[str, str, str, int]
"""Split, key, the kind of the question or nothing for an addition, amount."""
Answer: TypeAlias = tuple[str, str, str, int, int]
"""Split, key, kind, number of the question among those of the kind, what was added since the one before."""

name = "questions"
generator_version = 2
options = FamilyOptions(any_backend=True)
tasks: dict[str, Role] = {"said": "source", "answers": "keyed", "table": "sink"}
record_schema = "key STRING, asks STRING, amount BIGINT"
row_schema = "split STRING, key STRING, asks STRING, question BIGINT, added BIGINT"
oracle_sql = """
WITH totals AS (
  SELECT *, sum(if(asks = '', amount, 0)) OVER so_far AS total
  FROM records
  WINDOW so_far AS (PARTITION BY scenario_id, split, key ORDER BY offset ROWS UNBOUNDED PRECEDING)
)
SELECT scenario_id, split, key, asks, row_number() OVER of_a_kind AS question,
  total - lag(total, 1, 0L) OVER of_a_kind AS added
FROM totals WHERE asks <> ''
WINDOW of_a_kind AS (PARTITION BY scenario_id, split, key, asks ORDER BY offset)
"""
KEYS: Final = ("ann", "ben", "cem")
KINDS: Final = ("daily", "monthly", "yearly", "tax", "audit")
ADDITION: Final = ""
ASKED_AT_THE_ENDS: Final = 0.7
ASKED_BETWEEN: Final = 0.01
"""The share of questions among the records at the beginning and the end of a split, and between."""
ASKED_AGAIN: Final = 0.95
"""The share of the records at the end of a split that repeat a question, if there is one."""
BEGINNING: Final = 0.3
END: Final = 0.7
"""The parts of a split at which the beginning is over and the end begins."""


def generate(random: Random) -> Workload:
    """Draw additions, and at the beginning and the end of each split questions."""
    workload = draw_keyed(random, KEYS, lambda chance, key, now: (key, ADDITION, chance.integer(1, 9)))
    chance = Chance(random)
    kinds = KINDS[: chance.weighted(((1, 1), (3, 2), (len(KINDS), 3)))]
    records = {split: _with_questions(chance, own, kinds) for split, own in workload.records.items()}
    return replace(workload, records=records)


def _with_questions(
    chance: Chance, own: Sequence[InputRecord], kinds: Sequence[str]
) -> tuple[InputRecord, ...]:
    """Make questions of some of the additions of a split; at its end what was asked before is asked again."""
    said: list[InputRecord] = []
    asked: dict[tuple[str, str], None] = {}
    again: list[tuple[str, str]] = []
    for place, (timestamp, value) in enumerate(own):
        assert isinstance(value, tuple)
        is_end = place >= END * len(own)
        is_between = not is_end and place >= BEGINNING * len(own)
        if is_end and not again:
            again = list(asked)
        if again and chance.chance(ASKED_AGAIN):
            value = (*again.pop(0), 0)
        elif chance.chance(ASKED_BETWEEN if is_between else ASKED_AT_THE_ENDS):
            question = (str(value[0]), chance.choice(kinds))
            asked[question] = None
            value = (*question, 0)
        said.append((timestamp, value))
    return tuple(said)


class Answers(KeyedProcessFunction):
    """Adds up in one state; the questions of a kind, and the total at the last one, are in another."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._context = runtime_context
        self._total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Said, ctx: KeyedProcessFunction.Context) -> Iterator[Answer]:
        split, key, asks, amount = value
        total = self._total.value() or 0
        if asks == ADDITION:
            self._total.update(total + amount)
            return
        answered = self._context.get_map_state(
            MapStateDescriptor(f"{asks} questions", Types.STRING(), Types.LONG())
        )
        question = (answered.get("questions") or 0) + 1
        added = total - (answered.get("total") or 0)
        answered.put("questions", question)
        answered.put("total", total)
        yield split, key, asks, question, added


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build said -> answers -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
    into_table(named(keyed_records(env, io, "said").process(Answers(), row), "answers", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Return an answer for each question: what was added for its key since the last one of its kind."""
    rows: list[Answer] = []
    for split, own in records.items():
        questions: dict[tuple[str, str], int] = {}
        added: dict[tuple[str, str], int] = {}
        for _, value in own:
            assert isinstance(value, tuple)
            key, asks, amount = str(value[0]), str(value[1]), int(value[2] or 0)
            if asks == ADDITION:
                for kind in KINDS:
                    added[key, kind] = added.get((key, kind), 0) + amount
                continue
            questions[key, asks] = questions.get((key, asks), 0) + 1
            rows.append((split, key, asks, questions[key, asks], added.pop((key, asks), 0)))
    return rows
