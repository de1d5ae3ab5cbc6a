"""What the tests of the harness share: a small scenario, a history written by hand, and a user's files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.model.family import Declared, Records, Rows
from onceproof.harness.model.history import History, Row
from onceproof.harness.model.scenario import Scenario, Schedule

PAGE = Path(__file__).parents[2] / "harness" / "docs" / "families.md"

# The family of the documentation's example, with its totals outside of any checkpoint.
_REDUCE = "by_shop.reduce(lambda total, sale: (total[0], total[1] + sale[1]))"
_BUG = "by_shop.process(Total(), Types.TUPLE([Types.STRING(), Types.LONG()]))"
_TOTAL = """

from onceproof.engine import KeyedProcessFunction


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        self.totals = {}

    def process_element(self, value, ctx):
        shop, cents = value
        self.totals[shop] = self.totals.get(shop, 0) + cents
        yield shop, self.totals[shop]
"""


class WordCount:
    """The expected rows of word count, written here again so that these tests need no engine."""

    def expected(self, records: Records, declared: Declared) -> Rows:
        counts: dict[Any, int] = {}
        rows: list[Row] = []
        for split in records.values():
            for _, word in split:
                counts[word] = counts.get(word, 0) + 1
                rows.append((word, counts[word]))
        return rows


class Run:
    """Writes the history of a job source -> count -> sink over one split, with two sink subtasks.

    ``commit`` makes a transaction visible; its rows are those of the records between two checkpoints: words
    of the first half of the alphabet in sink 0, the others in sink 1.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.history = History()
        self.oracle = PythonOracle(WordCount(), scenario)
        self.scenario = scenario
        self.step = 0
        self.attempt = ""
        self.offset = 0
        self.epoch = 0
        self.contents: dict[str, tuple[int, str, int, list[Row]]] = {}
        """By transaction: subtask, attempt, epoch, rows."""
        self.pending: list[str] = []
        self.words = [value for _, value in scenario.records["words"]]
        self.offsets: dict[int | None, int] = {None: 0}
        """Offset by checkpoint."""

    def tick(self) -> int:
        self.step += 1
        return self.step

    def start(self, attempt: str, restored: int | None = None) -> Run:
        self.attempt, self.epoch, self.offset = attempt, restored or 0, self.offsets[restored]
        self.history.attempt_started(self.tick(), attempt, 2, restored)
        return self

    def fault(self, kind: str = "kill_all", point: str = "completed") -> Run:
        self.history.fault_fired(self.tick(), kind, point, "*")
        return self

    def checkpoint(
        self,
        checkpoint: int,
        offset: int,
        rows: Sequence[Row] | None = None,
        in_flight: int = 0,
        is_savepoint: bool = False,
    ) -> Run:
        """Complete a checkpoint at an offset; it lists all transactions that are not committed yet."""
        self.write(offset, rows)
        self.history.checkpoint_completed(
            self.tick(),
            checkpoint,
            self.attempt,
            {"words": offset},
            tuple(self.pending),
            (self.attempt,),
            in_flight,
            is_savepoint=is_savepoint,
        )
        self.offsets[checkpoint], self.epoch, self.offset = offset, checkpoint, offset
        return self

    def write(self, offset: int, rows: Sequence[Row] | None = None) -> Run:
        """Write the rows up to an offset into a transaction of each subtask."""
        if rows is None:
            numbered = self.scenario.records["words"][:offset]
            all_rows = WordCount().expected({"words": numbered}, Declared())
            rows = all_rows[self.offset : offset]
        for subtask in (0, 1):
            own = [row for row in rows if (str(row[0]) < "m") == (subtask == 0)]
            name = f"t{subtask}-{self.epoch}-{self.attempt}"
            self.contents[name] = (subtask, self.attempt, self.epoch, own)
            self.pending.append(name)
        return self

    def commit(self, *transactions: str) -> Run:
        """Make transactions visible; all pending ones if none is named."""
        for name in transactions or tuple(self.pending):
            subtask, attempt, epoch, rows = self.contents[name]
            self.history.transaction_visible(self.tick(), name, subtask, attempt, epoch, rows)
            if name in self.pending:
                self.pending.remove(name)
        return self

    def commit_failed(self, transaction: str) -> Run:
        self.history.commit_failed(self.tick(), transaction)
        return self

    def finish(self) -> Run:
        self.history.job_finished(self.tick())
        return self

    def check(self, checker: Any) -> list[tuple[str, str]]:
        """Return (anomaly, where) of each violation that a checker finds."""
        found = checker.check(self.scenario, self.history, self.oracle)
        assert all(violation.property == checker.property for violation in found)
        return [(violation.anomaly, violation.where.split(", step")[0]) for violation in found]


@pytest.fixture
def make_scenario() -> Callable[..., Scenario]:
    """Return a function that makes a small scenario, with the fields that a test changes."""

    def make(**changes: Any) -> Scenario:
        words = ("bee", "owl", "bee", "toad", "ant", "owl")
        fields: dict[str, Any] = {
            "family": "word_count",
            "generator_version": 1,
            "seed": None,
            "parameters": {},
            "records": {"words": tuple(enumerate(words))},
            "parallelism": 2,
            "max_parallelism": 8,
            "source_parallelism": 1,
            "sink_parallelism": 2,
            "channel_capacity": 2,
            "checkpoint_interval_ms": 20,
            "checkpoint_timeout_ms": 1000,
            "tolerable_failures": 0,
            "retained": 1,
            "restart_delay_ms": 5,
            "faults": (),
            "schedule": Schedule(),
            "step_budget": 1000,
        }
        return Scenario(**{**fields, **changes})

    return make


@pytest.fixture
def run(make_scenario: Callable[..., Scenario]) -> Run:
    """Return the run of the small scenario before its first event."""
    return Run(make_scenario())


@pytest.fixture
def sound_run(run: Run) -> Run:
    """Return a finished run with two kills and a rescale, without violations."""
    run.start("1.1").checkpoint(1, 2).commit().checkpoint(2, 3).fault()
    # The process dies with checkpoint 2 complete and not committed: the new attempt commits it.
    run.start("2.1", restored=2).commit().fault("kill_task", "element")
    return run.start("2.2", restored=2).checkpoint(3, 4).commit().checkpoint(4, 6).commit().finish()


def written_sales(folder: Path) -> Path:
    """Write the family in the documentation's example into a folder, and return its file."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"```python\n(\"\"\"Sales.*?)```", text, re.DOTALL)
    assert found is not None
    path = folder / "sales.py"
    path.write_text(found[1], encoding="utf-8")
    return path


def written_forgetful(folder: Path) -> Path:
    """Write a family whose job loses its totals when it is killed, and the sound one beside it."""
    sales = written_sales(folder)
    text = sales.read_text(encoding="utf-8")
    assert _REDUCE in text
    path = sales.with_name("forgetful.py")
    path.write_text(
        text.replace(_REDUCE, _BUG).replace('"sales"\n', '"forgetful"\n', 1) + _TOTAL, encoding="utf-8"
    )
    return path


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """Return the file of the family in the documentation's example."""
    return written_sales(tmp_path)


@pytest.fixture
def forgetful(tmp_path: Path) -> Path:
    """Return the file of a family whose job loses its totals when it is killed."""
    return written_forgetful(tmp_path)
