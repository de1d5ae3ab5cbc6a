"""The ends of a job in a real process: what it reads, counted, and the files it writes, told.

The rules this module lives by:

- A position in a split carries the number of records before it, whatever else the source needs to find it:
  only numbers of records can be compared with an oracle.
- A commit is told after it is done and before the next one is begun: of two that are done, one at the most
  has not been told when the process dies, and its file is there to be seen.
- A commit that is to fail fails before anything is done; one that is answered with an error has been done,
  as by a server whose answer is lost.
- Sinks that need no files write to a database (`table_sinks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSinkFunction, OutputFileConfig, Transaction
from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.functions import RuntimeContext
from onceproof.engine.operators.source import SourceOperator
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.commit_faults import answer, refuse
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog

PREFIX: Final = "part"

CommitFault: TypeAlias = Callable[[str], Fault | None]
"""Called with the name of a task that is about to commit. Returns the fault of that commit, if any."""


@dataclass(frozen=True, slots=True)
class LoggedCommits:
    """Makes commits, telling each, and lets those fail that are to."""

    log: EventLog
    fault: CommitFault

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def make(self, context: RuntimeContext, name: str, length: int, commit: Callable[[], object]) -> None:
        """Commit, then tell. ``length`` is 0 for what has no rows."""
        fault = self.strike(context, name)
        try:
            commit()
        except OSError:
            self.log.write(event_log.COMMIT_FAILED, transaction=name)
            raise
        self.log.write(event_log.COMMITTED, transaction=name, length=length)
        self.answer(fault, name)

    def strike(self, context: RuntimeContext, name: str) -> Fault | None:
        """What is wrong with what a task is about to do; what fails has failed by now."""
        fault = self.fault(task_name(context))
        refuse(fault, f"commit of {name} was refused", lambda: self._log_failure(name))
        return fault

    def answer(self, fault: Fault | None, name: str) -> None:
        """What was done is answered, with an error if there is to be one."""
        answer(fault, f"commit of {name} timed out", lambda: self._log_failure(name))

    def _log_failure(self, name: str) -> None:
        self.log.write(event_log.COMMIT_FAILED, transaction=name)


def task_name(context: RuntimeContext) -> str:
    """The name of a task, as faults have it."""
    return f"{context.get_task_name()}-{context.get_index_of_this_subtask()}"


class CountedReader(SplitReader):
    """Reads a split and counts; its position is [that of the reader within, records before it]."""

    __slots__ = ("_count", "_reader")

    def __init__(self, reader: SplitReader, count: int) -> None:
        self._reader = reader
        self._count = count

    def read(self, limit: int) -> list[Record]:
        """The next records."""
        records = self._reader.read(limit)
        self._count += len(records)
        return records

    @property
    def position(self) -> list[Any]:
        """Where to go on, and how many records came before."""
        return [self._reader.position, self._count]

    @property
    def exhausted(self) -> bool:
        """Whether the split is read out."""
        return self._reader.exhausted

    def close(self) -> None:
        """Close the reader within."""
        self._reader.close()


class CountedSource(Source):
    """Counts the records of another source; ``names`` gives its splits names of our own."""

    def __init__(self, source: Source, names: Mapping[str, str] | None = None) -> None:
        self._source = source
        self._names = names or {split: split for split in source.splits()}

    def splits(self) -> Sequence[str]:
        """Our names."""
        return list(self._names)

    def open_split(self, split: str, position: Any | None) -> CountedReader:
        """A reader that goes on counting."""
        inner, count = (None, 0) if position is None else position
        return CountedReader(self._source.open_split(self._names[split], inner), count)


def records_read(source: SourceOperator) -> dict[str, int]:
    """By split, how many records a source subtask has read of it."""
    return {split: position[1] for split, position in source.positions().items()}


class LoggingFileSink(FileSinkFunction):
    """The engine's file sink, telling each commit."""

    def __init__(
        self, base_path: str, encoder: Encoder, config: OutputFileConfig, commits: LoggedCommits
    ) -> None:
        super().__init__(base_path, encoder, config)
        self._commits = commits

    def __deepcopy__(self, memo: object) -> LoggingFileSink:
        config = OutputFileConfig(self._prefix, self._suffix)
        return LoggingFileSink(self._base_path, self._encoder, config, self._commits)

    def commit(self, transaction: Transaction) -> None:
        """Commit, then tell."""
        name, length = transaction
        commit = super().commit
        self._commits.make(self.get_runtime_context(), name, length, lambda: commit(transaction))
