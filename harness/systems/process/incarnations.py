"""A job from its first process to its end: one incarnation after another over the same folders.

The rules this module lives by:

- A process is one incarnation. When it has died, with all that it had started, and not before, the next one
  starts over the same folders and nothing else; the parallelism that a kill asked for is all that is new
  to it.
- The last planned kill is followed by an incarnation that runs to the end of the job. One that does not end
  in its time is killed, and the run has used up its budget.
- How a process is started and how it ends differs from system to system, and is left to them (``live``).
"""

from __future__ import annotations

import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from onceproof.harness.model.history import History
from onceproof.harness.systems.process.job_specification import Spec, write_spec
from onceproof.harness.systems.process.visible_outputs import ReadRows, read_json_rows
from onceproof.harness.systems.recording.history_builder import HistoryBuilder


class Ending(NamedTuple):
    """How an incarnation ended."""

    at: int
    """By the machine's monotonic clock, in nanoseconds."""
    was_killed: bool
    in_time: bool
    events: list[dict[str, Any]]
    """What it logged, in order."""
    last_words: str
    """The last line that it printed, for a process that ended without logging why."""


@dataclass(slots=True)
class JobRun(ABC):
    """One job from its first process to its end.

    ``lengths`` are the numbers of records by split. ``progress`` is called after each incarnation with the
    history so far.
    """

    spec: Spec
    lengths: Mapping[str, int]
    folder: Path
    read_rows: ReadRows = read_json_rows
    progress: Callable[[History], None] | None = None
    _number: int = field(default=0, init=False)

    @abstractmethod
    def live(self, number: int, path: Path) -> Ending:
        """Let incarnation ``number`` run, by the specification in a file, until it is dead."""

    def history_builder(self) -> HistoryBuilder:
        """Who makes a history of what the incarnations tell."""
        spec = self.spec
        output = Path(spec.output)
        return HistoryBuilder(
            spec.faults, self.lengths, output, spec.suffix, self.read_rows, spec.parallelism
        )

    def run(self) -> History:
        """Start process after process until the job has ended."""
        begun = time.perf_counter()
        spec = self.spec
        checkpoints = Path(spec.checkpoints)
        Path(spec.output).mkdir(parents=True, exist_ok=True)
        checkpoints.mkdir(parents=True, exist_ok=True)
        builder = self.history_builder()
        while not builder.is_over:
            ending = self._incarnation(builder)
            if ending.was_killed and not builder.is_over:
                builder.killed(ending.at)
                time.sleep(spec.restart_delay_ms / 1000)
            elif not builder.is_over:
                builder.cannot_begin(ending.last_words)
            if self.progress is not None:
                self.progress(builder.history)
        builder.at_rest(checkpoints)
        builder.history.statistics.milliseconds = (time.perf_counter() - begun) * 1000
        return builder.history

    def _incarnation(self, builder: HistoryBuilder) -> Ending:
        """Run one process to its death, and add its event log to the history."""
        self._number += 1
        number = self._number
        path = self.folder / f"process-{number}.json"
        spec = msgspec.structs.replace(
            self.spec,
            parallelism=builder.next_parallelism,
            waiting=builder.waiting,
            events=str(self.events_path(number)),
        )
        write_spec(spec, path)
        ending = self.live(number, path)
        builder.add_process_log(ending.events)
        if not ending.in_time and not builder.is_over:
            builder.out_of_time()
        return ending

    def events_path(self, number: int) -> Path:
        """Return the event log of incarnation ``number``."""
        return self.folder / f"events-{number}.jsonl"


def last_line(path: Path) -> str:
    """Return the last line that a process printed: it may say why the process ended."""
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"


@contextmanager
def trial_folder(folder: Path | None) -> Iterator[Path]:
    """A folder of its own for one run: a passing one, or a new one in ``folder`` that stays."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="onceproof-") as name:
            yield Path(name)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix="run-", dir=folder))
