"""Runs a job in one process after another over the same folders, until the job ends.

Rules:

- A process is one incarnation of the job. The next one starts only after it and all its child processes are
  dead. Incarnations share the folders and nothing else; only the parallelism changes, if a kill asked for it.
- After the last planned kill, an incarnation runs to the end of the job. One that exceeds its time limit is
  killed, and the run counts as out of budget.
- Each system starts processes in its own way (``live``).
- Another job writes into the same folder: what it has prepared must survive the job on trial. Its sink is the
  engine's, so a planted bug changes it, too. Its part prefix begins with that of the job on trial, its
  operators and checkpoint ids are that job's. It leaves files that are pre-committed, and one that is open.
"""

from __future__ import annotations

import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink_function import FileSinkFunction
from onceproof.engine.connectors.part_files import OutputFileConfig
from onceproof.engine.functions import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
)
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.harness.model.history import History
from onceproof.harness.model.run_record import RunRecord
from onceproof.harness.systems.kit.job_history import JobHistory
from onceproof.harness.systems.kit.run_history import HistoryBuilder
from onceproof.harness.systems.process.file_io import PREFIX
from onceproof.harness.systems.process.job_specification import Spec, write_spec
from onceproof.harness.systems.process.visible_outputs import ReadRows, read_json_rows

MOST_TIMES_GIVEN_UP: Final = 20
"""A server is back within a second, and a process takes a second to begin."""
_CRASH: Final = "Fatal Python error: "


class Ending(NamedTuple):
    """How an incarnation ended."""

    at: int
    """When, in nanoseconds of the monotonic clock."""
    was_killed: bool
    in_time: bool
    events: list[dict[str, Any]]
    """Its event log, in order."""
    last_words: str
    """The exit code and the last printed line: the cause, if the process ended without logging one."""
    says_success: bool = False
    """Whether its exit code says that the job has finished."""


@dataclass(slots=True)
class JobRun(ABC):
    """One job, run in one process after another.

    ``lengths`` are the numbers of records by split. ``progress`` is called after each incarnation with the
    history so far.
    """

    spec: Spec
    lengths: Mapping[str, int]
    folder: Path
    read_rows: ReadRows = read_json_rows
    progress: Callable[[History], None] | None = None
    builder: HistoryBuilder | None = field(default=None, kw_only=True)
    """Builds the history; None: that of a job of the engine."""
    _number: int = field(default=0, init=False)
    _given_up: int = field(default=0, init=False)
    """How many processes in a row have given up because a server was away."""
    waited_seconds: float = field(default=0.0, init=False)
    """How long the job has waited for its processes to start."""

    @abstractmethod
    def live(self, number: int, path: Path) -> Ending:
        """Run incarnation ``number`` with the specification in the file ``path``, until it is dead."""

    def history_builder(self) -> HistoryBuilder:
        """Return the builder of the history from the event logs of the incarnations."""
        if self.builder is not None:
            return self.builder
        spec = self.spec
        output = Path(spec.output)
        return JobHistory(
            spec.faults,
            self.lengths,
            output,
            spec.suffix,
            self.read_rows,
            spec.parallelism,
            spec.postgres,
            spec.kafka,
            spec.objects,
        )

    def run(self) -> History:
        """Start process after process until the job has ended. Return the history of the run."""
        begun = time.perf_counter()
        spec = self.spec
        checkpoints = Path(spec.checkpoints)
        output = Path(spec.output)
        output.mkdir(parents=True, exist_ok=True)
        if spec.objects is None:
            checkpoints.mkdir(parents=True, exist_ok=True)
        neighbour = move_in(output, spec.suffix)
        builder = self.history_builder()
        while not builder.run.is_over:
            ending = self._incarnation(builder)
            if ending.was_killed and not builder.run.is_over:
                builder.run.killed(ending.at)
                time.sleep(spec.restart_delay_ms / 1000)
            elif not builder.run.is_over:
                self._ended_unasked(builder, ending)
            if self.progress is not None:
                self.progress(builder.run.history)
        self.job_is_over(builder)
        builder.at_rest(checkpoints, neighbour)
        builder.run.history.statistics.milliseconds = (time.perf_counter() - begun) * 1000
        builder.run.history.statistics.waited_milliseconds = self.waited_seconds * 1000
        builder.run.history.record = RunRecord.of(self.folder)
        return builder.run.history

    def _incarnation(self, builder: HistoryBuilder) -> Ending:
        """Run one process until it is dead, and add its event log to the history."""
        ending = self.next_process(builder)
        builder.add_process_log(ending.events)
        if not ending.in_time and not builder.run.is_over:
            builder.run.out_of_time()
        return ending

    def _ended_unasked(self, builder: HistoryBuilder, ending: Ending) -> None:
        """Add why a process has ended that was not killed; one that has stopped with a savepoint said so.

        One that has given up because a struck server was away is followed by another, as by a supervisor.
        An exit code of success is taken at its word, whatever was logged.
        """
        self._given_up = self._given_up + 1 if builder.run.has_given_up else 0
        if ending.says_success and not builder.run.has_stopped:
            builder.run.says_success()
        elif not builder.run.has_stopped and not 0 < self._given_up <= MOST_TIMES_GIVEN_UP:
            builder.run.cannot_begin(ending.last_words)

    def next_process(self, builder: HistoryBuilder) -> Ending:
        """Run one process until it is dead."""
        self._number += 1
        number = self._number
        path = self.folder / f"process-{number}.json"
        spec = msgspec.structs.replace(
            self.spec,
            parallelism=builder.run.next_parallelism,
            waiting=builder.run.waiting,
            events=str(self.events_path(number)),
            part_folder=self.part_folder(number),
            in_buckets=self.in_buckets(number),
        )
        if isinstance(builder, JobHistory):
            builder.writes_into(spec.part_folder or spec.output)
        write_spec(spec, path)
        return self.live(number, path)

    def job_is_over(self, builder: HistoryBuilder) -> None:
        """Called before the search for what was left behind; does nothing by default."""

    def part_folder(self, number: int) -> str:
        """Return where the file sink of incarnation ``number`` writes; "" for the output folder."""
        return ""

    def in_buckets(self, number: int) -> bool:
        """Return whether the file sink of incarnation ``number`` writes into folders below that one."""
        return False

    def events_path(self, number: int) -> Path:
        """Return the event log of incarnation ``number``."""
        return self.folder / f"events-{number}.jsonl"


def last_line(path: Path) -> str:
    """Return the last line of a process's output, or what Python says of its crash and the place of it."""
    lines = path.read_text(errors="replace").strip().splitlines()
    crash = [line for line in lines if line.startswith(_CRASH)][-1:]
    if crash:
        places = [line.strip() for line in lines[lines.index(crash[0]) :] if line.startswith("  File ")]
        return " ".join([*crash, *places[:1]])
    return lines[-1] if lines else "no message"


@contextmanager
def trial_folder(folder: Path | None, *, outlived: bool = False) -> Iterator[Path]:
    """Yield a new folder for one run: a temporary one, or one in ``folder`` that is kept.

    ``outlived``: processes that live on may still write there, and what they write is left.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="onceproof-", ignore_cleanup_errors=outlived) as name:
            yield Path(name)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix="run-", dir=folder))


NEIGHBOUR: Final = "neighbour"
CHECKPOINTS: Final = 3


def move_in(folder: Path, suffix: str) -> dict[str, bytes]:
    """Write the neighbour's files. Return their content by name."""
    before = {path.name for path in folder.iterdir()}
    sink = FileSinkFunction(
        str(folder), Encoder.simple_string_encoder(), OutputFileConfig(f"{PREFIX}-0", suffix)
    )
    sink.set_runtime_context(
        RuntimeContext(
            task_name=NEIGHBOUR,
            subtask=0,
            parallelism=1,
            max_parallelism=1,
            attempt="0.1",
            clock=lambda: 0,
            pass_point=lambda point, checkpoint_id: None,
            job_id=NEIGHBOUR,
            operator_id=NEIGHBOUR,
        )
    )
    sink.initialize_state(FunctionInitializationContext(None, OperatorStateStore()))
    for checkpoint_id in range(1, CHECKPOINTS + 1):
        sink.invoke(NEIGHBOUR, None)
        sink.snapshot_state(FunctionSnapshotContext(checkpoint_id, 0))
    sink.invoke(NEIGHBOUR, None)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in before}
