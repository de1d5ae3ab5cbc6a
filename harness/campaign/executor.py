"""The executors' part of a campaign: from scenario numbers to Parquet files of trials.

The rules this module lives by:

- A task receives the turns of some families, and derives the rest from them, with the seeds, verdicts and
  trace hashes of any other run. A task that Spark repeats writes the same rows.
- The tasks of a wave begin in their order, in which the families take turns. So a wave that ends early has
  run about as many scenarios of each.
- Its scenarios run in a process below its worker (scenario_worker.py). A user's file travels with the folder
  from which it is imported: its own, or that of its package. It is unpacked where that folder does not exist
  or holds something else.
- Trials are written from Python to a Parquet file, because a detour through Java would cost more than the
  simulation. Each attempt of a task writes one file of its own, which appears whole, and acknowledges it with
  its number of rows and its digest. Only the files of attempts whose answers arrived are judged.
- Answers travel to the driver (answers.py), trials do not.
- After the deadline no scenario is started, so a campaign with a time limit ends in time on a slow machine.
- This module needs no JVM and no Spark session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from io import BytesIO
from itertools import chain, compress, groupby
from typing import Final
from zipfile import ZipFile

import pyarrow as pa
from pyarrow import parquet
from pyspark import SparkFiles, TaskContext

from onceproof.engine.runtime.module_archive import ModuleArchive, packed_modules, unpacked
from onceproof.harness.campaign.answers import Answer, ranges_of
from onceproof.harness.campaign.file_stores import FileStore
from onceproof.harness.campaign.scenario_worker import (
    load_as_asked,
    scenario_process,
    unpacked_batches,
)
from onceproof.harness.campaign.trial_files import WrittenFile, digest_of, verified_table, written_files
from onceproof.harness.campaign.trial_tables import OUTCOME_NAMES, TrialTables, lines_in
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import joined_address, split_address
from onceproof.harness.model.step_limits import Budget
from onceproof.harness.model.user_file import module_name_of
from onceproof.harness.trials.pool import Batch, FamilyToLoad, raise_error_of

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

    @property
    def folder(self) -> str:
        """The user's folder whose modules travel; "" for none."""
        return self.modules.folder if self.modules is not None else ""

    @property
    def version(self) -> str:
        """Another text for other modules."""
        return "" if self.modules is None else blake2b(self.modules.data, digest_size=16).hexdigest()

    @property
    def files(self) -> dict[str, str]:
        """Return the files of the user's folder that travel: by name, another text for another content."""
        if self.modules is None or not self.modules.data:
            return {}
        with ZipFile(BytesIO(self.modules.data)) as archive:
            return {info.filename: f"{info.CRC:08x}" for info in archive.infolist()}


@cache
def load(source: FamilySource) -> Family:
    """Return the family, loaded once in each process. Raises FamilyError."""
    return load_as_asked(_local_address(source), source.asked, source.folder)


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
    return joined_address(copy, attribute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Some scenarios of one family."""

    source: FamilySource
    tables: TrialTables
    run_seed: int
    families: int
    """How many families take turns in the campaign."""
    place: int
    """The place of this family among them."""
    turns: Sequence[range]
    """The turns of the family that are to run, in their order."""
    budget: Budget
    """What each scenario may use."""
    deadline: float | None = None
    """Seconds since the epoch, after which no scenario is started but the first of each family, because a
    report without a family would look complete."""

    def run(self) -> tuple[pa.Table, list[bytes]] | None:
        """Run the scenarios; return their trials and the lines of their outcomes, if there are any."""
        process = scenario_process(self.run_seed, self.budget)
        place = process.place_of(self._described())
        batches: list[pa.RecordBatch] = []
        lines: list[bytes] = []
        for done in process.run(self._batches(place)):
            raise_error_of([done])
            if not done.lines:
                # It was too late for any of them.
                break
            batches += unpacked_batches(done.lines[0])
            lines += done.lines[1].splitlines(keepends=True)
        return (pa.Table.from_batches(batches), lines) if batches else None

    def _batches(self, place: int) -> Iterator[Batch]:
        for turns in _chunks(chain.from_iterable(self.turns)):
            until = None if turns.start == 0 else self.deadline
            yield Batch(turns.start, len(turns), place=place, until=until)

    def _described(self) -> FamilyToLoad:
        source = self.source
        return FamilyToLoad(
            address=_local_address(source),
            asked=source.asked,
            folder=source.folder,
            version=source.version,
            families=self.families,
            place=self.place,
            record_schema=self.tables.record_schema.serialize().to_pybytes(),
            row_schema=self.tables.row_schema.serialize().to_pybytes(),
        )


@dataclass(frozen=True, slots=True)
class Simulations:
    """A task: scenarios of some families, one family after the other."""

    families: Sequence[Simulation]
    store: FileStore
    """Where the Parquet files go; driver and executors share it."""

    def run(self) -> Iterator[pa.RecordBatch]:
        """Run the scenarios, write their trials, and yield an answer for each family."""
        found = {each.place: (each, *made) for each in self.families if (made := each.run()) is not None}
        if not found:
            return
        for written in written_files(self.store, {place: table for place, (_, table, _) in found.items()}):
            simulation, table, lines = found[written.place]
            turns = _turns_in(table, simulation.families)
            yield Answer.of(written.place, simulation.families, turns, lines, written).batch()


@dataclass(frozen=True, slots=True)
class Recall:
    """A task: scenarios that an earlier attempt at the campaign has finished."""

    place: int
    """The place of their family in the campaign."""
    families: int
    store: FileStore
    written: WrittenFile
    turns: range
    """Those of the file's turns that are wanted."""

    def run(self) -> Iterator[pa.RecordBatch]:
        """Read the trials, and yield the answer; the driver knows their file. Raises TrialsLost."""
        table = verified_table(self.store, self.written, OUTCOME_NAMES)
        turns = _turns_in(table, self.families)
        chosen = [turn in self.turns for turn in turns]
        lines = lines_in(table.filter(pa.array(chosen, pa.bool_())))
        yield Answer.of(self.place, self.families, list(compress(turns, chosen)), lines).batch()


@dataclass(frozen=True, slots=True)
class Survey:
    """A task: to find out which files are whole, and which scenarios they have."""

    families: int
    store: FileStore
    names: Sequence[str]

    def run(self) -> Iterator[pa.RecordBatch]:
        """Yield an answer for each family in a whole file, without lines and tally."""
        for name in self.names:
            try:
                data = self.store.read(name)
                if (digest := digest_of(data)) not in name:
                    continue
                table = parquet.read_table(pa.BufferReader(data), columns=list(OUTCOME_NAMES))
            except (OSError, ValueError, pa.ArrowException):
                # Deleted meanwhile, or of another version.
                continue
            first = 0
            numbers = table.column("scenario_id").to_pylist()
            for place, own in groupby(numbers, lambda number: number % self.families):
                turns = [number // self.families for number in own]
                written = WrittenFile(name, place, first, len(turns), digest)
                first += len(turns)
                yield Answer(place, ranges_of(turns), written=written).batch()


def _turns_in(table: pa.Table, families: int) -> list[int]:
    return [number // families for number in table.column("scenario_id").to_pylist()]


@dataclass(frozen=True, slots=True)
class Wave:
    """The function that mapInArrow calls with the number of a task; it runs the task."""

    tasks: Sequence[Simulations | Recall | Survey]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the tasks whose numbers Spark gives, one at a time."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.tasks[number].run()


def _chunks(turns: Iterable[int]) -> Iterator[range]:
    """Yield turns that follow each other, BATCH at a time; the first of all alone, as it has no deadline."""
    chunk = range(0)
    for turn in turns:
        if chunk and (turn != chunk.stop or len(chunk) == BATCH or chunk.start == 0):
            yield chunk
            chunk = range(0)
        chunk = range(chunk.start, turn + 1) if chunk else range(turn, turn + 1)
    if chunk:
        yield chunk
