"""A query of Structured Streaming as a family: its own records, judged by itself in batch mode.

Rules:

- A family in the sense of `model/family.py`, for one system. Its job for the engine is a stand-in.
- A driver looks at the file before the first scenario, and says which sources and records it has. The
  driver of a run says which rows should come out (`systems/structured/queries/`).
- Records come in the order of their times, and change places within the delay of the watermark. One more may
  be late, which Spark drops or not, as its batches fall.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import (
    Declared,
    FamilyError,
    FamilyOptions,
    JobIO,
    Records,
    Rows,
    Workload,
)
from onceproof.harness.model.family_places import QUERIES, joined_address, said_of, script_name
from onceproof.harness.scripts.calm_runs import determined_by, key_of, settled
from onceproof.harness.scripts.records import Pool
from onceproof.harness.scripts.variations import draw_records
from onceproof.harness.systems.structured.placeholder_job import job, tasks
from onceproof.harness.systems.structured.queries.event_times import (
    FIRST_MS,
    late_among,
    own_records,
    time_of,
)
from onceproof.harness.systems.structured.queries.query_answer import Answer, Look, accepts
from onceproof.reports.text import counted

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

_MOST_KEPT: Final = 1_000
_LATE: Final = 0.3
"""In how many scenarios a record is tried behind the watermark."""


class QueryFamily:
    """The query of a user's file.

    Args:
        path: the file.
        said: what its address says of it behind the question mark.
    """

    generator_version = 1
    record_schema = row_schema = oracle_sql = ""
    tasks = tasks

    def __init__(self, path: Path, said: str = "") -> None:
        self.path, self.said = path, said
        self.oracle_file = str(path)
        self.name = script_name(path, said_of(path, said).job)
        self.options = FamilyOptions(declares=True, settles=True, jobs={QUERIES: _is_run_by_its_file})
        self._answers: dict[tuple[object, ...], Answer] = {}

    @cached_property
    def look(self) -> Look:
        """What a driver finds out about the query. Raises FamilyError."""
        from onceproof.harness.systems.structured.system import look_at_query

        return look_at_query(joined_address(self.path, self.said))

    @cached_property
    def pools(self) -> dict[str, Pool]:
        """The records of each source."""
        pools = {}
        for name, source in self.look.sources.items():
            texts = source.texts
            if self.look.delay_ms is not None and None not in map(time_of, texts):
                texts = sorted(texts, key=lambda text: time_of(text) or 0)
            records = [(text, FIRST_MS + 1_000 * number) for number, text in enumerate(texts)]
            pools[name] = Pool(tuple(records), tuple(texts), str, True, True, source.origin)
        return pools

    def generate(self, random: Random) -> Workload:
        """Draw records in the order of their times, some of them behind the next ones."""
        drawn = draw_records(random, self.pools, True, False)
        chance = Chance(random)
        if chance.chance(0.4):
            drawn = self._reordered(chance, drawn)
        if self.look.may_be_late and chance.chance(_LATE):
            drawn = self._with_a_late_one(chance, drawn)
        return Workload(drawn)

    def _reordered(self, chance: Chance, drawn: Records) -> Records:
        """Return records of which some have changed places, if none gets late by that."""
        moved = {split: list(records) for split, records in drawn.items()}
        for own in moved.values():
            for place in range(len(own) - 1):
                if chance.chance(0.3):
                    own[place], own[place + 1] = own[place + 1], own[place]
        return drawn if self._late_in(moved) else moved

    def _with_a_late_one(self, chance: Chance, drawn: Records) -> Records:
        """Return records of which one comes later than its watermark; the same ones where none can."""
        moved = {split: list(records) for split, records in drawn.items()}
        own = chance.choice(tuple(moved.values()))
        if len(own) > 1:
            place = chance.integer(0, len(own) - 2)
            own.insert(chance.integer(place + 1, len(own) - 1), own.pop(place))
        return moved if self._late_in(moved) == 1 else drawn

    def _late_in(self, records: Records) -> int:
        """Return how many records are behind the watermark of their source."""
        delay_ms = self.look.delay_ms
        if delay_ms is None:
            return 0
        return sum(len(late_among(own_records(records, name), delay_ms)) for name in self.pools)

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build a job that stands in for the query, and fails at its first record."""
        job(env, io)

    def keep(self, records: Records, answer: Answer) -> None:
        """Keep the rows that a driver has computed for some records."""
        if len(self._answers) >= _MOST_KEPT:
            self._answers.clear()
        self._answers[key_of(records)] = answer

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return what the query writes in batch mode; of a part of the input, what is there."""
        answer = self._answers.get(key_of(records)) if declared.is_whole else None
        if answer is not None and answer.mistake:
            raise FamilyError(answer.mistake)
        visible = Counter(declared.rows)
        if answer is None or accepts(answer, visible):
            # A run that has not ended has no answer, and is judged for that.
            return declared.rows
        first, *others = [Counter(run) for run in answer.runs]
        optional = (visible - first) & Counter(answer.optional)
        if answer.is_open:
            return list((first | visible).elements())
        runs = [run + optional for run in (first, *others)]
        return list(settled(visible, runs, determined_by(runs, has_windows=False).columns).elements())

    def notes(self) -> Iterator[str]:
        """Yield what a user should know before the first verdict, one sentence each."""
        for name, source in self.look.sources.items():
            yield f"source {name}: {counted(len(source.texts), 'record')} {source.origin}"
        if self.look.sink == "foreachBatch":
            yield "foreachBatch: its function runs; what it leaves by df.write, in files and SQLite is judged"
        else:
            sink = self.look.sink or "of the harness"
            yield f"sink {sink}: replaced by an exactly-once one; its rows are judged"
        yield "judged by the query itself in batch mode: logic that is wrong there too is not seen"


def _is_run_by_its_file(records: object, io: object) -> None:
    """Stand in for the function of a family: the driver runs the file of the query itself."""
    raise FamilyError("the query of a file is run by its file")
