"""The source and the file sink of a job under trial in a real process: records are counted, commits logged.

Rules:

- A position in a split carries the number of records before it, besides the inner source's position, because
  oracles compare numbers of records.
- A reader logs how far it has come when it is closed: a job that says that it has finished is asked for it.
- A task logs a commit after it is done and before the next one begins. So when the process dies, at most one
  finished commit is missing from the log, and its file is visible.
- A refused commit fails before it changes anything. A commit that times out is done, as by a server whose
  answer is lost, and then fails.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeAlias

from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink_function import FileSinkFunction
from onceproof.engine.connectors.part_files import OutputFileConfig, Transaction
from onceproof.engine.connectors.source import ForwardingReader, Source, SourceIdentity, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.formats.bulk_writers import BulkWriterFactory
from onceproof.engine.functions import RuntimeContext
from onceproof.engine.protocol_points import COMMITTED, COMMITTING
from onceproof.harness.model.history import as_tuple
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.commit_faults import answer, refuse
from onceproof.harness.systems.filed_input import source_of
from onceproof.harness.systems.process.job_specification import Spec, read_records
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.sinks import ROLLS_BY_SIZE, BucketsOfRows, names_in

PREFIX: Final = "part"

CommitFault: TypeAlias = Callable[[str], Fault | None]
"""Called with the name of a task that is about to commit. Returns the fault of that commit, if any."""


@dataclass(frozen=True, slots=True)
class LoggedCommits:
    """Makes commits, logs each, and injects the faults that strike them."""

    log: EventLog
    fault: CommitFault

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def make(self, context: RuntimeContext, name: str, length: int, commit: Callable[[], object]) -> None:
        """Call ``commit``, then log it.

        ``name`` is the transaction's, ``length`` its size in any unit: 0 means that it has no rows. Raises
        InjectedError if a fault refuses the commit, or lets it time out after it is done.
        """
        fault = self.strike(context, name)
        try:
            commit()
        except OSError:
            self.log.write(event_log.COMMIT_FAILED, transaction=name)
            raise
        self.log.write(event_log.COMMITTED, transaction=name, length=length)
        self.answer(fault, name)

    def write(
        self,
        context: RuntimeContext,
        keys: int,
        rows: Mapping[Hashable, Any],
        upsert: Callable[[Mapping[Hashable, Any]], None],
    ) -> None:
        """Call ``upsert`` with the rows between the points ``committing`` and ``committed``, and log them.

        The first ``keys`` columns are the key. Raises InjectedError as ``make`` does.
        """
        context.probe(COMMITTING, 0)
        task = task_name(context)
        fault = self.strike(context, task)
        upsert(rows)
        self.log.write(
            event_log.ROWS_WRITTEN,
            task=task,
            attempt=context.get_attempt_id(),
            keys=keys,
            rows=list(rows.values()),
        )
        self.answer(fault, task)
        context.probe(COMMITTED, 0)

    def strike(self, context: RuntimeContext, name: str) -> Fault | None:
        """Return the fault of the next commit, if any. Log and raise if it is a refusal."""
        fault = self.fault(task_name(context))
        refuse(fault, f"commit of {name} was refused", lambda: self._log_failure(name))
        return fault

    def answer(self, fault: Fault | None, name: str) -> None:
        """Log and raise if the fault of a finished commit is a time-out."""
        answer(fault, f"commit of {name} timed out", lambda: self._log_failure(name))

    def _log_failure(self, name: str) -> None:
        self.log.write(event_log.COMMIT_FAILED, transaction=name)


def task_name(context: RuntimeContext) -> str:
    """Return the name of a subtask as in faults and histories, such as ``sink-0``."""
    return f"{context.get_task_name()}-{context.get_index_of_this_subtask()}"


class CountedReader(ForwardingReader):
    """Reads and counts the records of a split; its position is [position of the inner reader, count].

    If it is endless, it waits for more records behind the last one.
    """

    def __init__(
        self, reader: SplitReader, count: int, is_endless: bool, closed: Callable[[int], None]
    ) -> None:
        super().__init__(reader)
        self._count = count
        self._is_endless = is_endless
        self._closed = closed

    def read(self, limit: int) -> list[Record]:
        records = self._reader.read(limit)
        self._count += len(records)
        return records

    @property
    def exhausted(self) -> bool:
        return self._reader.exhausted and not self._is_endless

    @property
    def position(self) -> list[Any]:
        return [self._reader.position, self._count]

    def checkpoint_complete(self, position: list[Any]) -> None:
        """Pass the position of the inner reader on."""
        self._reader.checkpoint_complete(position[0])

    def close(self) -> None:
        """Say how many records were read."""
        super().close()
        self._closed(self._count)


class CountedSource(Source):
    """Counts the records of an inner source; ``names`` maps the family's split names to that source's."""

    reader_class = CountedReader

    def __init__(
        self,
        source: Source,
        log: EventLog | None = None,
        names: Mapping[str, str] | None = None,
        *,
        is_bounded: bool = True,
    ) -> None:
        self._log = log
        self.is_bounded = is_bounded
        self._source = source
        self._names = names or {split: split for split in source.splits()}
        self.hears_of_checkpoints = source.hears_of_checkpoints

    def splits(self) -> Sequence[str]:
        """Return the family's split names."""
        return list(self._names)

    def open_split(self, split: str, position: Any | None) -> CountedReader:
        """Return a reader from a position, or from the start of the split if it is None."""
        inner, count = (None, 0) if position is None else position
        reader = self._source.open_split(self._names[split], inner)
        return self.reader_class(reader, count, not self.is_bounded, partial(self._log_read, split))

    def _log_read(self, split: str, count: int) -> None:
        if self._log is not None:
            self._log.write(event_log.SPLIT_READ, split=split, count=count)

    def identity(self) -> SourceIdentity:
        """Return what the inner source reads."""
        return self._source.identity()


class LogsPartFiles(FileSinkFunction):
    """A file sink that logs the commit of each file; a subclass sets ``_commits``."""

    _commits: LoggedCommits

    def commit(self, transaction: Transaction) -> None:
        """Commit all files; where one fails, those behind it come late as well, and the log says so."""
        try:
            super().commit(transaction)
        except Exception:
            for name in names_in(transaction):
                self._commits.log.write(event_log.COMMIT_FAILED, transaction=name)
            raise

    def commit_part(self, listed: Transaction) -> None:
        name, length, *_ = listed
        commit = super().commit_part
        self._commits.make(self.get_runtime_context(), name, length, lambda: commit(listed))


class LoggingFileSink(LogsPartFiles):
    """The engine's file sink, which logs its commits."""

    def __init__(
        self,
        base_path: str,
        encoder: Encoder | BulkWriterFactory,
        config: OutputFileConfig,
        commits: LoggedCommits,
        in_buckets: bool,
    ) -> None:
        if in_buckets:
            super().__init__(base_path, encoder, config, ROLLS_BY_SIZE, BucketsOfRows())
        else:
            super().__init__(base_path, encoder, config)
        self._commits = commits
        self._in_buckets = in_buckets

    def __deepcopy__(self, memo: object) -> LoggingFileSink:
        config = OutputFileConfig(self._prefix, self._suffix)
        return LoggingFileSink(self._base_path, self._form, config, self._commits, self._in_buckets)


class LinesOfRecords(CountedReader):
    """Reads and counts the records of a file, with their own timestamps."""

    def read(self, limit: int) -> list[Record]:
        return [(as_tuple(value), timestamp) for (timestamp, value), _ in super().read(limit)]


class FiledRecords(CountedSource):
    """The splits of a scenario in files."""

    reader_class = LinesOfRecords


def filed_source(spec: Spec, log: EventLog) -> FiledRecords:
    """Return the source of the files of a specification, which are in the order of its splits."""
    paths = dict(zip(read_records(spec.records), spec.files, strict=True))
    return FiledRecords(source_of(paths), log, paths)
