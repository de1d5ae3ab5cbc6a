"""The executors' part of a campaign: from scenario numbers to Parquet files of trials.

The rules this module lives by:

- A task receives scenario numbers and derives the rest from them, with the seeds, verdicts and trace hashes
  of any other run. A task that Spark repeats writes the same rows.
- Each worker process loads a family once. A user's file travels with the folder from which it is imported:
  its own, or that of its package. It is unpacked where that folder does not exist or holds something else.
- Trials are written from Python to a Parquet file, because a detour through Java would cost more than the
  simulation. The file is named for the task's first scenario and published by a rename, so two attempts of
  one task replace each other's file. Only the verdicts travel to the driver.
- After the deadline no scenario is started, so a campaign with a time limit ends in time on a slow machine.
- This module needs no JVM and no Spark session.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyarrow import parquet
from pyspark import SparkFiles, TaskContext

from onceproof.engine.runtime.garbage_collection import freeze_loaded_objects
from onceproof.engine.runtime.module_archive import ModuleArchive, packed_modules, unpacked
from onceproof.harness.campaign.trial_tables import TrialTables, TriedScenario, verdicts
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import load_family, split_address
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.model.user_file import module_name_of
from onceproof.harness.trials.runner import OutputUnwritable
from onceproof.harness.trials.trial import run_scenario, scenario_of

BATCH: Final = 50
"""How many trials a worker holds as objects: the garbage collector traverses them again and again."""


@dataclass(frozen=True, slots=True)
class FamilySource:
    """A family as the command line names it, with the modules of its folder, if it is a file."""

    asked: str
    modules: ModuleArchive | None = None
    place: str = ""
    """The path of the file in that folder."""

    @classmethod
    def of(cls, asked: str) -> FamilySource:
        """Return the source of a family; its folder is read."""
        path, _ = split_address(asked)
        if path is None:
            return cls(asked)
        _, folder = module_name_of(path)
        modules = packed_modules(folder)
        return cls(asked, modules, str(path.absolute().relative_to(folder)))


@cache
def load(source: FamilySource) -> Family:
    """Return the family, loaded once in each process. Raises FamilyError."""
    try:
        family = load_family(_local_address(source))
    except FamilyError as error:
        message = _as_asked(str(error), source)
        if source.modules is None or not isinstance(error.__cause__, ImportError):
            raise FamilyError(message) from None
        raise FamilyError(
            f"{message}: a Spark executor has what is installed there, and the modules in"
            f" {source.modules.folder}: put the module there, or install it on the executors"
        ) from None
    # Modules stay loaded, so the garbage collector need not traverse them again.
    gc.freeze()
    return family


def _as_asked(message: str, source: FamilySource) -> str:
    """Return a message with the user's path of the family in place of this machine's."""
    (here, _), (asked, _) = split_address(_local_address(source)), split_address(source.asked)
    return message if here is None else message.replace(str(here), str(asked))


@cache
def _local_address(source: FamilySource) -> str:
    """Return the family's address on this machine: its own path, or a copy if its folder differs here."""
    path, attribute = split_address(source.asked)
    if source.modules is None or path is None:
        return source.asked
    if path.is_file() and packed_modules(module_name_of(path)[1]).data == source.modules.data:
        return source.asked
    if source.modules.objection:
        raise FamilyError(
            f"{source.asked}: {source.modules.objection}, too much to send to Spark's executors:"
            " move the family into a folder of its own"
        )
    # A worker runs no finalizers, so the copy stands below Spark's own folder, which ends with the executor.
    below = None if TaskContext.get() is None else SparkFiles.getRootDirectory()
    copy = unpacked(source.modules, below) / source.place
    return f"{copy}:{attribute}" if attribute else str(copy)


@dataclass(frozen=True, slots=True)
class Simulation:
    """The function that mapInArrow calls for each task: it runs scenarios of one family by their numbers."""

    source: FamilySource
    tables: TrialTables
    run_seed: int
    families: int
    """How many families take turns in the campaign."""
    folder: Path
    """The folder of the Parquet files, which driver and executors share."""
    deadline: float | None = None
    """Seconds since the epoch, after which no scenario is started but the first of each family, because a
    report without a family would look complete."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the scenarios numbered in the first column, write their trials, and yield their verdicts."""
        freeze_loaded_objects()
        trials: list[TriedScenario] = []
        tables: list[pa.RecordBatch] = []
        all_verdicts: list[pa.RecordBatch] = []
        for number in _numbers(batches):
            if number >= self.families and self.deadline is not None and time.time() >= self.deadline:
                break
            trials.append(self._try(number))
            if len(trials) == BATCH:
                self._convert(trials, tables, all_verdicts)
        if trials:
            self._convert(trials, tables, all_verdicts)
        if tables:
            self._write(tables)
        yield from all_verdicts

    def _convert(
        self,
        trials: list[TriedScenario],
        tables: list[pa.RecordBatch],
        all_verdicts: list[pa.RecordBatch],
    ) -> None:
        """Convert trials to Arrow batches, and clear the list."""
        tables.append(self.tables.batch(trials))
        all_verdicts.append(verdicts(trials, tables[-1]))
        trials.clear()

    def _try(self, number: int) -> TriedScenario:
        family = load(self.source)
        try:
            scenario = scenario_of(family, scenario_seed(self.run_seed, family.name, number // self.families))
            outcome, history = run_scenario(family, scenario)
        except FamilyError as error:
            # The message names the user's path, not that of a temporary copy.
            raise FamilyError(_as_asked(str(error), self.source)) from None
        return TriedScenario.of(number, scenario, outcome, history)

    def _write(self, tables: list[pa.RecordBatch]) -> None:
        name = f"part-{tables[0].column('scenario_id')[0].as_py():08d}.parquet"
        # Spark and Parquet readers ignore files whose names begin with a dot.
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
