"""`onceproof job run|savepoint|stop|cancel`: a job of one's own, or a family's, and what is asked of it.

The rules this module lives by:

- A file is either a family (it has `job` and `generate`) or a program that describes a job and executes it,
  as Flink's command line takes one. A program is run as it is; what the command line says of it (from where
  it goes on, its parallelism, what runs it) wins over its configuration, but not over what it sets in code.
- What a family reads is drawn from the seed; it is written to part files, and read at a pace if one is given.
- The folder of a job that was run is noted under its subject, so that the same word finds it again while it
  runs. How the request reaches it, engine/runtime/request_folder.py says.
- 0: done. 1: the job failed, or did not do what it was asked. 4: no such job, or it does not run.
"""

from __future__ import annotations

import ast
import runpy
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.engine.api.environment import StreamExecutionEnvironment, submitted
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSinkFunction, OutputFileConfig
from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.graph import JobGraph
from onceproof.engine.runtime.request_folder import ask
from onceproof.engine.runtime.requests import JobRequest, RequestKind
from onceproof.engine.runtime.result import JobCancelled, JobExecutionFailed, JobExecutionResult
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.exit_codes import FAILED, PASSED, UsageError
from onceproof.harness.model.family import Family, FamilyError, load_family
from onceproof.harness.model.scenario import Parameter

JOBS: Final = Path(".onceproof", "jobs")
INTERVAL_RECORDS: Final = 20
NO_SUCH_SINK: Final = "no {} outside of the simulation: put its family on trial with `onceproof run`"
_FAMILY_HAS: Final = {"job", "generate"}


class JobNote(msgspec.Struct, forbid_unknown_fields=True):
    """Where a job that was run keeps its checkpoints."""

    folder: str


def run_command(subject: str, *, jobs: Path, options: dict[str, str], seed: int, rate: float | None) -> int:
    """Run a job to its end; ``options`` are keys of the configuration with their values."""
    note = jobs / f"{_name_of(subject)}.json"

    def announce(graph: JobGraph) -> None:
        directory = graph.settings.directory
        if directory is not None:
            note.parent.mkdir(parents=True, exist_ok=True)
            folder = Path(directory.removeprefix("file://")).absolute() / graph.job_id
            note.write_bytes(msgspec.json.encode(JobNote(str(folder))))

    configuration = Configuration.from_mapping(options)
    try:
        with submitted(configuration, announce):
            if _is_program(subject):
                sys.path.insert(0, str(Path(subject).absolute().parent))
                runpy.run_path(subject, run_name="__main__")
                return PASSED
            result = _run_family(load_family(subject), jobs / _name_of(subject), seed, rate)
    except JobCancelled as error:
        print(error)
        return PASSED
    except JobExecutionFailed as error:
        print(error, file=sys.stderr)
        return FAILED
    print(_told(result))
    return PASSED


def ask_command(subject: str, request: JobRequest, jobs: Path, seconds: float) -> int:
    """Ask a running job for something, and wait until it is done."""
    answer = ask(_folder_of(subject, jobs), request, seconds)
    if answer.error:
        print(answer.error, file=sys.stderr)
        return FAILED
    print(answer.savepoint or "cancelled")
    return PASSED


def request_of(kind: RequestKind, directory: Path | None, drains: bool = False) -> JobRequest:
    """What is asked for; the running process has another working directory, perhaps."""
    return JobRequest(kind, "" if directory is None else str(directory.absolute()), drains)


def _told(result: JobExecutionResult) -> str:
    if result.already_finished:
        return f"{result.job_name}: had finished already"
    if result.stopped_with:
        return f"{result.job_name}: stopped with {result.stopped_with}"
    return (
        f"{result.job_name}: finished, {result.records_read} records read,"
        f" {result.checkpoints} checkpoints, {result.attempts} attempts"
    )


def _name_of(subject: str) -> str:
    return Path(subject).stem if subject.endswith(".py") else subject.replace("/", "_")


def _is_program(subject: str) -> bool:
    """Whether a file describes a job and executes it, rather than being a family."""
    if not subject.endswith(".py"):
        return False
    path = Path(subject)
    try:
        tree = ast.parse(path.read_bytes(), subject)
    except OSError as error:
        raise UsageError(f"{subject}: cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{subject}: is no Python: {error}") from None
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return not defined >= _FAMILY_HAS


def _folder_of(subject: str, jobs: Path) -> Path:
    path = Path(subject)
    if path.is_dir():
        return path
    note = jobs / f"{_name_of(subject)}.json"
    try:
        return Path(msgspec.json.decode(note.read_bytes(), type=JobNote).folder)
    except FileNotFoundError:
        raise UsageError(
            f"no job {subject!r} was run from here (no {note}): give the job's checkpoint folder,"
            " or the --jobs that it was run with"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{note}: cannot be read: {error}: run the job again") from None


# A family's job.


class PacedReader(SplitReader):
    """Reads one record after the other, and waits before each."""

    def __init__(self, reader: SplitReader, seconds: float) -> None:
        self._reader = reader
        self._seconds = seconds

    def read(self, limit: int) -> list[Any]:
        """The next record."""
        time.sleep(self._seconds)
        return self._reader.read(1)

    @property
    def position(self) -> Any:
        """That of the reader within."""
        return self._reader.position

    @property
    def exhausted(self) -> bool:
        """Whether the split is read out."""
        return self._reader.exhausted

    def close(self) -> None:
        """Close the reader within."""
        self._reader.close()


class PacedSource(Source):
    """A source that gives so many records a second."""

    def __init__(self, source: Source, rate: float) -> None:
        self._source = source
        self._rate = rate

    def splits(self) -> Sequence[str]:
        """Those of the source within."""
        return self._source.splits()

    def open_split(self, split: str, position: Any | None) -> PacedReader:
        """A reader that takes its time."""
        return PacedReader(self._source.open_split(split, position), 1 / self._rate)


class FamilyIO:
    """The ends of a family's job: what was drawn, and part files."""

    def __init__(
        self, source: Source, output: Path, parameters: dict[str, Parameter], parallelism: int
    ) -> None:
        self.parallelism = self.source_parallelism = self.sink_parallelism = parallelism
        self.parameters = parameters
        self._source = source
        self._output = output

    def source(self, name: str) -> Source:
        """All splits."""
        return self._source

    def sink(self, name: str) -> FileSinkFunction:
        """Rows as lines of JSON, committed with their checkpoint."""
        config = OutputFileConfig(part_prefix=name, part_suffix=".jsonl")
        return FileSinkFunction(str(self._output), Encoder.json_lines_encoder(), config)

    def write_ahead_sink(self, name: str) -> Any:
        """There is nothing here that it could send to."""
        raise FamilyError(NO_SUCH_SINK.format("write-ahead sink"))

    def committing_sink(self, name: str) -> Any:
        """There is no committer for it here."""
        raise FamilyError(NO_SUCH_SINK.format("sink of writer and committer"))

    def upsert_sink(self, name: str, keys: int) -> Any:
        """There is no table for it here."""
        raise FamilyError(NO_SUCH_SINK.format("sink by key"))


def _run_family(family: Family, folder: Path, seed: int, rate: float | None) -> JobExecutionResult:
    scenario = generate(family, seed)
    splits = {
        split: [(value, timestamp) for timestamp, value in records]
        for split, records in scenario.records.items()
    }
    source: Source = CollectionSource(splits)
    if rate is not None:
        source = PacedSource(source, rate)
    environment = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_mapping(
            {
                "execution.checkpointing.dir": str(folder.absolute() / "checkpoints"),
                "execution.checkpointing.savepoint-dir": str(folder.absolute() / "savepoints"),
                "execution.checkpointing.interval-records": INTERVAL_RECORDS,
                "pipeline.max-parallelism": scenario.max_parallelism,
            }
        )
    )
    io = FamilyIO(source, folder.absolute() / "output", scenario.parameters, environment.get_parallelism())
    family.job(environment, io)
    result: JobExecutionResult = environment.execute(family.name)
    return result
