"""The executors' side of a campaign: from numbers of scenarios to tables of trials.

The rules this module lives by:

- A task gets numbers and makes everything else of them, as any other way of running scenarios does: same
  seeds, same verdicts, same trace hashes. A task that Spark runs again gives the same rows again.
- A family is loaded once for each worker process. A user's file travels as text, and is put where a worker
  on another machine can load it.
- What is judged goes straight into a Parquet file, without a detour through Java, which would cost more than
  all the rest. The file is named for the task's first scenario, written beside its name and renamed: a second
  attempt, even one that runs at the same time, puts the same scenarios in the same place. Only the verdicts
  travel to the driver.
- After the deadline nothing is begun any more: a campaign that is bounded by time must end in time even
  where the machine is slower than it was.
- Nothing here needs a JVM or a session.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyarrow import parquet

from onceproof.engine.runtime.spark.garbage_collection import freeze_loaded_objects
from onceproof.harness.campaign.tables import TrialTables, TriedScenario, verdicts
from onceproof.harness.model.family import Family, FamilyError, load_family, split_address
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.trials.runner import OutputUnwritable
from onceproof.harness.trials.trial import run_scenario, scenario_of

BATCH: Final = 50
"""Trials that a worker holds as objects, through which the garbage collector looks again and again."""


@dataclass(frozen=True, slots=True)
class FamilySource:
    """A family as the command line names it, and where it is a file, what the file holds."""

    asked: str
    text: str | None

    @classmethod
    def of(cls, asked: str) -> FamilySource:
        """Read the source of a family that has been loaded here already."""
        path, _ = split_address(asked)
        return cls(asked, None if path is None else path.read_text(encoding="utf-8"))


@cache
def load(source: FamilySource) -> Family:
    """Return the family, loaded once in each process."""
    family = load_family(_place_of(source))
    # What is loaded by now stays: the garbage collector need not look through it again and again.
    gc.freeze()
    return family


@cache
def _place_of(source: FamilySource) -> str:
    """Return where the family is found here: at its own path, or in a copy where that does not exist."""
    path, attribute = split_address(source.asked)
    if source.text is None or path is None:
        return source.asked
    try:
        if path.read_text(encoding="utf-8") == source.text:
            return source.asked
    except OSError:
        pass
    copy = Path(tempfile.mkdtemp(prefix="onceproof-family-")) / path.name
    copy.write_text(source.text, encoding="utf-8")
    return f"{copy}:{attribute}" if attribute else str(copy)


@dataclass(frozen=True, slots=True)
class Simulation:
    """Runs scenarios of one family by their numbers; what mapInArrow calls for each task."""

    source: FamilySource
    tables: TrialTables
    run_seed: int
    families: int
    """How many families take turns in the campaign."""
    folder: Path
    """Where the Parquet files go; one that driver and executors share."""
    deadline: float | None = None
    """Seconds since the epoch, after which no scenario is begun but the first of each family.

    A campaign says nothing of a family that it never came to, and nobody would miss it in the report.
    """

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the verdicts on the numbers in the first column, after the trials have been written."""
        freeze_loaded_objects()
        trials: list[TriedScenario] = []
        tables: list[pa.RecordBatch] = []
        told: list[pa.RecordBatch] = []
        for number in _numbers(batches):
            if number >= self.families and self.deadline is not None and time.time() >= self.deadline:
                break
            trials.append(self._tried(number))
            if len(trials) == BATCH:
                self._take(trials, tables, told)
        if trials:
            self._take(trials, tables, told)
        if tables:
            self._write(tables)
        yield from told

    def _take(
        self, trials: list[TriedScenario], tables: list[pa.RecordBatch], told: list[pa.RecordBatch]
    ) -> None:
        """Turn trials into batches, and let go of them."""
        tables.append(self.tables.batch(trials))
        told.append(verdicts(trials, tables[-1]))
        trials.clear()

    def _tried(self, number: int) -> TriedScenario:
        family = load(self.source)
        try:
            scenario = scenario_of(family, scenario_seed(self.run_seed, family.name, number // self.families))
            outcome, history = run_scenario(family, scenario)
        except FamilyError as error:
            # The path is told as the user knows it.
            raise FamilyError(str(error).replace(_place_of(self.source), self.source.asked)) from None
        return TriedScenario.of(number, scenario, outcome, history)

    def _write(self, tables: list[pa.RecordBatch]) -> None:
        name = f"part-{tables[0].column('scenario_id')[0].as_py():08d}.parquet"
        # Hidden, so that nobody who reads the folder takes it for a part.
        hidden = self.folder / f".{name}.{uuid4().hex}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pa.Table.from_batches(tables), hidden)
            hidden.replace(self.folder / name)
        except OSError as error:
            raise OutputUnwritable(f"{self.folder}: cannot be written to: {error}") from None


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()
