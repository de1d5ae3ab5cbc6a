"""One run of the year of flights: its records, its oracle, and the result.

The rules this module lives by:

- The records are read without the engine, and so are the rows that it committed.
- The history is judged by all checkers with the Python oracle. The comparison in Spark SQL
  (`flights_oracle.py`) comes on top and shares no line with either.
- The runtimes and the planned kills are in `plans.py`.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Final

from onceproof.harness.checkers.oracle import RowCounts, Versions, count_rows
from onceproof.harness.checkers.verdict import Verdict, judge
from onceproof.harness.model.columns import Comparisons, comparison
from onceproof.harness.model.family import NOTHING_DECLARED, Records, Rows
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import ATTEMPT_STARTED, CHECKPOINT_COMPLETED, Cut, History, Row
from onceproof.harness.model.scenario import Fault, InputRecord, Scenario, Schedule
from onceproof.harness.systems.kit.incarnations import JobRun
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.scenarios._year_of_flights import year_input

FAMILY: Final = "flights"
PARALLELISM: Final = 2


@dataclass(frozen=True, slots=True)
class FlightsTrial:
    """The result of running the year once."""

    history: History
    verdict: Verdict
    planned: tuple[Fault, ...]
    files: tuple[Path, ...]
    """The input files, one for each split."""
    output: Path
    """The folder of the committed rows."""
    records: int
    runtime: str
    """The runtime, in words for the report."""
    process: str
    """The process that dies in a kill of the process, in words for the report."""
    seconds: float
    """Duration of the job alone, with its kills and restarts."""

    @property
    def kills(self) -> int:
        """The number of planned kills that struck."""
        return len(self.history.statistics.recoveries)

    @property
    def parallelisms(self) -> tuple[int, ...]:
        """The parallelism of the attempts in order, without repeats of the one before."""
        found = [
            payload["parallelism"] for _, kind, _, payload in self.history.events if kind == ATTEMPT_STARTED
        ]
        return tuple([parallelism for parallelism, _ in groupby(found)])

    @property
    def rescales(self) -> int:
        """The number of attempts that began at another parallelism than the one before."""
        return max(0, len(self.parallelisms) - 1)

    @property
    def planned_rescales(self) -> int:
        """The number of rescales if every planned kill strikes."""
        asked = [fault.rescale_to for fault in self.planned if fault.rescale_to]
        return sum(1 for _ in groupby([PARALLELISM, *asked])) - 1

    @property
    def checkpoints(self) -> int:
        """The number of completed checkpoints."""
        return sum(kind == CHECKPOINT_COMPLETED for _, kind, _, _ in self.history.events)


class Year:
    """The flights of some files; each file is the split of one airport."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = tuple(files)
        self.records = {path.stem: read_flights(path) for path in files}
        self.lengths = {split: len(flights) for split, flights in self.records.items()}
        self.total = sum(self.lengths.values())

    def spec(
        self, folder: Path, faults: tuple[Fault, ...], interval_records: int, buffer_records: int
    ) -> Spec:
        """Return the job over the year; each fault waits until the one before has struck."""
        return Spec(
            family=FAMILY,
            job_name=FAMILY,
            checkpoints=str(folder / "checkpoints"),
            output=str(folder / "rows"),
            events="",
            source=f"{year_input.__module__}:{year_input.__name__}",
            files=tuple(str(path) for path in self.files),
            rows="csv",
            source_parallelism=len(self.files),
            parallelism=PARALLELISM,
            interval_records=interval_records,
            buffer_records=buffer_records,
            faults=faults,
            in_turn=True,
        )

    def tried(self, run: JobRun, seed: int, runtime: str, process: str) -> FlightsTrial:
        """Run the year, and judge it."""
        history = run.run()
        faults = run.spec.faults
        verdict = judge(scenario_of(seed, self.records, faults), history, YearOracle(self.records))
        seconds = history.statistics.milliseconds / 1000
        output = Path(run.spec.output)
        return FlightsTrial(
            history, verdict, faults, self.files, output, self.total, runtime, process, seconds
        )


class YearOracle:
    """The family's own oracle, asked once: each flight gives one row, so the rows of a cut are a prefix."""

    answers = None
    is_drawn = False
    at_least_once = None
    may_repeat = None
    comparisons: Final = Comparisons({"": comparison((), {}, None)})
    table_keys = 0

    def __init__(self, records: Records) -> None:
        expected = load_family(FAMILY).expected
        self._rows = {
            split: expected({split: flights}, NOTHING_DECLARED) for split, flights in records.items()
        }

    def rows(self, visible: Rows = (), history: History | None = None) -> RowCounts:
        """Return the rows of the year."""
        return count_rows(chain.from_iterable(self._rows.values()))

    def rows_at(
        self, cut: Cut, visible: Rows = (), history: History | None = None, checkpoint: int | None = None
    ) -> RowCounts:
        """Return the rows of the flights before a cut."""
        return count_rows(
            chain.from_iterable([rows[: cut.get(split, 0)] for split, rows in self._rows.items()])
        )

    def versions_at(self, cut: Cut | None) -> Versions:
        """Return no versions: no row is written by key."""
        return {}


def scenario_of(
    seed: int, records: dict[str, tuple[InputRecord, ...]], faults: tuple[Fault, ...]
) -> Scenario:
    """Return the year as a scenario for the checkers; the run itself does not use it."""
    return Scenario(
        family=FAMILY,
        generator_version=1,
        seed=seed,
        parameters={},
        records=records,
        parallelism=PARALLELISM,
        max_parallelism=128,
        source_parallelism=len(records),
        sink_parallelism=0,
        channel_capacity=8,
        checkpoint_interval_ms=1,
        checkpoint_timeout_ms=1,
        tolerable_failures=0,
        retained=1,
        restart_delay_ms=0,
        faults=faults,
        schedule=Schedule(),
        step_budget=1,
    )


def read_flights(path: Path) -> tuple[InputRecord, ...]:
    """Return the records of a file of the year, read without the engine."""
    with path.open(encoding="utf-8", newline="") as lines:
        return tuple(
            [
                (int(row["scheduled"]), (row["carrier"], _number(row["delay"]), row["cancelled"] == "true"))
                for row in csv.DictReader(lines)
            ]
        )


def _number(text: str) -> int | None:
    return int(text) if text else None


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a part file. A line that is no row becomes one that matches no expected row."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [_row(fields) for fields in csv.reader(lines)]


def _row(fields: list[str]) -> Row:
    try:
        carrier, origin, *numbers = fields
        return (carrier, origin, *map(int, numbers))
    except ValueError:
        return tuple(fields)
