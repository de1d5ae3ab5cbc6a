"""`onceproof job run`: run the job of a family or of a program.

The rules this module lives by:

- A file is either a family (it defines `job` and `generate`) or a program that builds a job and executes it,
  as Flink's command line takes one. A program runs unchanged. Options of the command line (restore path,
  parallelism, runtime) override its configuration, but not what it sets in code.
- Where PyFlink is not installed, a program's imports of it find the engine.
- Options come from the cluster's file, the program and `-D`, and the later one wins. `--explain-config` says
  where each was set.
- A family reads records drawn from the seed, at a limited rate if one is given, and writes part files.
- `job run` registers the checkpoint folder of a job under its subject, so that the other commands find the
  job by the same subject (job_requests.py).
- The line with the id of a job is that of Flink's command line, for scripts that read it.
- Exit codes: 0 done; 1 the job failed; 4 an argument or an option is wrong.
"""

from __future__ import annotations

import ast
import logging
import os
import runpy
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.api.submission import submitted
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.source import ForwardingReader, Source, SourceIdentity, SplitReader
from onceproof.engine.graph import JobGraph
from onceproof.engine.outside_files import read_at_most
from onceproof.engine.runtime import job_log
from onceproof.engine.runtime.job_result import JobCancelled, JobExecutionFailed, JobExecutionResult
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.exit_codes import FAILED, INTERNAL, PASSED, UsageError, exit_code_of
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.user_file import error_line
from onceproof.harness.scripts.pyflink_imports import pyflink_imports
from onceproof.harness.scripts.sql.program_plans import planning
from onceproof.harness.systems.local.part_file_io import PartFileIO

JOBS: Final = Path(".onceproof", "jobs")
INTERVAL_RECORDS: Final = 20
COMMAND_LINE: Final = "the command line"
OVERRIDE: Final = "-D"
MOST_BYTES: Final = 1 << 20
"""The most that is read of a registered job."""
_FAMILY_HAS: Final = {"job", "generate"}


class JobNote(msgspec.Struct, forbid_unknown_fields=True):
    """The registration of a job: its checkpoint folder."""

    folder: str


class Run(NamedTuple):
    """What `job run` was given besides the subject."""

    options: Mapping[str, Any]
    """Configuration keys and values, under what the program sets."""
    overrides: Sequence[str] = ()
    """KEY=VALUE, over everything."""
    function: str = ""
    """The function of the program to call; "": the program is run as a script."""
    arguments: Sequence[str] = ()
    """Those of the program."""
    only_explains: bool = False
    """Print where each option is set, instead of running the job."""
    seed: int = 0
    rate: float | None = None
    """In records per second, for the source of a family."""
    pyflink: str = ""
    """Where `import pyflink` leads: "engine" or "installed"; "": to PyFlink if it is installed."""


class _Explained(BaseException):
    """The options are printed: the program ends before its job runs."""


def run_command(subject: str, jobs: Path, run: Run) -> int:
    """Run a job to its end and return the exit code.

    ``subject`` is a family, a file of one, or a program. ``jobs`` is the folder of registered jobs. Raises
    UsageError: the program has raised an error of its own, or lacks the function.
    """
    note = jobs / f"{name_of(subject)}.json"

    def announce(graph: JobGraph) -> None:
        directory = graph.settings.directory
        if directory is not None:
            note.parent.mkdir(parents=True, exist_ok=True)
            folder = Path(directory.removeprefix("file://")).absolute() / graph.job_id
            note.write_bytes(msgspec.json.encode(JobNote(str(folder))))

    configuration = Configuration.from_mapping(run.options, COMMAND_LINE)
    overrides = Configuration.from_mapping(dict(map(_key_and_value, run.overrides)), OVERRIDE)
    if logging.lastResort is not None:
        # The log of a program that configures none goes to the terminal, where the command says it as well.
        logging.lastResort.addFilter(_is_no_end_of_the_job)
    explain = _explain if run.only_explains else None
    try:
        with submitted(configuration, announce, _program_of(subject), overrides, explain, _print_id):
            if _is_program(subject):
                _run_program(subject, run.function, run.arguments, run.pyflink)
                return PASSED
            if run.function or run.arguments:
                raise UsageError(f"{subject} is a family: only a program takes a function and arguments")
            result = _run_family(load_family(subject), jobs / name_of(subject), run.seed, run.rate)
    except _Explained:
        return PASSED
    except JobCancelled as error:
        print(error)
        return PASSED
    except JobExecutionFailed as error:
        print(error, file=sys.stderr)
        _drop_unwritable_output()
        return FAILED
    print(_result_text(result))
    return PASSED


def _drop_unwritable_output() -> None:
    """Let Python not end with another error over what stdout does not take any more."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_no_end_of_the_job(record: logging.LogRecord) -> bool:
    return record.name != job_log.__name__ or record.levelno < logging.ERROR


def _key_and_value(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise UsageError(f"-D {text}: give an option as KEY=VALUE, for example -D parallelism.default=2")
    return key.strip(), value.strip()


def _print_id(job_id: str) -> None:
    print(f"Job has been submitted with JobID {job_id}", flush=True)


def _explain(configuration: Configuration) -> None:
    """Print each option that is set, with where; raises _Explained."""
    for key, (value, place) in configuration.origins().items():
        print(f"{key}: {value}  ({place or 'the program'})")
    print("Options that are not listed have their defaults.")
    raise _Explained


def _run_program(path: str, function: str, arguments: Sequence[str], pyflink: str) -> None:
    """Run a program as a script, or import it and call one of its functions."""
    sys.path.insert(0, str(Path(path).absolute().parent))
    before, sys.argv = sys.argv, [path, *arguments]
    try:
        imports = nullcontext() if pyflink == "installed" else pyflink_imports(always=pyflink == "engine")
        with imports, planning():
            if not function:
                runpy.run_path(path, run_name="__main__")
                return
            defined = runpy.run_path(path, run_name=name_of(path))
            if not callable(defined.get(function)):
                raise UsageError(f"{path}: it has no function {function!r}, which -c names")
            defined[function]()
    except Exception as error:
        if exit_code_of(error) != INTERNAL or isinstance(error, JobCancelled | JobExecutionFailed):
            raise
        raise UsageError(error_line(Path(path), error, UsageError)) from error
    finally:
        sys.argv = before


def _result_text(result: JobExecutionResult) -> str:
    if result.already_finished:
        return f"{result.job_name}: had already finished"
    if result.stopped_with:
        text = f"{result.job_name}: stopped with {result.stopped_with}"
    else:
        text = (
            f"{result.job_name}: finished, {result.records_read} records read,"
            f" {result.checkpoints} checkpoints, {result.attempts} attempts"
        )
    troubles = result.troubles()
    return f"{text}\n{result.job_name}: {troubles}" if troubles else text


def name_of(subject: str) -> str:
    """Return the name under which a subject is registered."""
    return Path(subject).stem if subject.endswith(".py") else subject.replace("/", "_")


def _program_of(subject: str) -> str:
    """Return the file of a program or family, or the name of a built-in family."""
    return str(Path(subject).absolute()) if subject.endswith(".py") else subject


def _is_program(subject: str) -> bool:
    """Return whether a file is a program that executes a job; False for a family."""
    if not subject.endswith(".py"):
        return False
    path = Path(subject)
    try:
        tree = ast.parse(path.read_bytes(), subject)
    except OSError as error:
        raise UsageError(f"{subject}: cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{subject}: is not valid Python: {error}") from None
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return not defined >= _FAMILY_HAS


def noted_folder(note: Path) -> Path:
    """Return the checkpoint folder of a job that was run from here. Raises UsageError."""
    try:
        return Path(msgspec.json.decode(read_at_most(note, MOST_BYTES), type=JobNote).folder)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = getattr(error, "strerror", None) or error
        raise UsageError(f"{note}: cannot be read: {said}: run the job again") from None


# A family's job.


class RateLimitedReader(ForwardingReader):
    """Reads a split one record at a time, and sleeps ``seconds`` before each."""

    def __init__(self, reader: SplitReader, seconds: float) -> None:
        super().__init__(reader)
        self._seconds = seconds

    def read(self, limit: int) -> list[Any]:
        """Return the next record after a pause."""
        time.sleep(self._seconds)
        return self._reader.read(1)


class RateLimitedSource(Source):
    """A source whose splits each yield at most ``rate`` records per second."""

    def __init__(self, source: Source, rate: float) -> None:
        self._source = source
        self._rate = rate

    def splits(self) -> Sequence[str]:
        """Return the splits of the inner source."""
        return self._source.splits()

    def open_split(self, split: str, position: Any | None) -> RateLimitedReader:
        """Open a split of the inner source with the limited rate."""
        return RateLimitedReader(self._source.open_split(split, position), 1 / self._rate)

    def identity(self) -> SourceIdentity:
        """Return what the inner source reads; the rate may change."""
        return self._source.identity()


def _run_family(family: Family, folder: Path, seed: int, rate: float | None) -> JobExecutionResult:
    scenario = generate(family, seed)
    splits = {
        split: [(value, timestamp) for timestamp, value in records]
        for split, records in scenario.records.items()
    }
    source: Source = CollectionSource(splits)
    if rate is not None:
        source = RateLimitedSource(source, rate)
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
    io = PartFileIO(source, folder.absolute() / "output", scenario.parameters, environment.get_parallelism())
    family.job(environment, io)
    result: JobExecutionResult = environment.execute(family.name)
    return result
