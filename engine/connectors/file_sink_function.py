"""What a file sink does in its subtask: part files that become visible whole, exactly once.

The rules this module lives by:

- A transaction is one part file (`part_files.py`), or several where the rolling policy has begun further
  ones or the rows go to several buckets (`buckets.py`): hidden while they are written, synced to the disk by
  pre-commit, visible after the commit, deleted by an abort. Readers that skip hidden files see whole files.
- A visible name is ``<prefix>-<owner>-<subtask>-<epoch>-<attempt><suffix>``, with the first digits of the
  owner: two sinks in one folder, and a job beside its earlier run, do not meet, whatever their prefixes.
  Further files of a transaction have ``-1``, ``-2`` and so on behind the attempt, across its buckets.
- A transaction without rows has no file; its pre-committed length is 0.
- The checkpoint lists the length. A file with another length at its commit is an error, never a silent loss.
- The checkpoint lists the base path, too: a job that is restored with another one commits a file where it
  was prepared. A folder that was moved with its files is the base path then. So both are looked into.
- A repeated commit finds the target and does nothing. A consumer may take a visible file away at once: the
  ledger in the folder then says that it was committed (`commit_ledger.py`). If no folder has the file and the
  ledger does not know it, the rows are lost: an error that names the transaction.
- Behind a commit that has failed, a subtask commits nothing before its next attempt: entries of the ledger
  stand for all that was prepared before them.
- A job that begins with nothing to restore, beside visible output of its own earlier run that had not ended,
  would write every row again. That is an error: the run's checkpoint folder was deleted, moved or replaced.
- Hidden files that a crash left are found by their marks and deleted at the next start, by the rule of
  two_phase: in the base path, and in all folders below it if the sink has buckets. Files of other owners
  stay, also those that a restored checkpoint lists as open.
- The base path, the buckets and the missing folders above are made durably; a new name counts once its folder
  is synced.
- Rows are buffered in memory and written in blocks; a crash loses only the open transaction. A format whose
  files are whole only at their end (`formats/bulk_writers.py`) has a writer for each part file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct

from onceproof.engine.connectors.buckets import (
    BasePathBucketAssigner,
    BucketAssigner,
    WrongBucket,
    bucket_mistake,
)
from onceproof.engine.connectors.commit_ledger import CommitLedger, refuse_earlier_run
from onceproof.engine.connectors.encoders import EncodedRows, Encoder
from onceproof.engine.connectors.part_files import (
    FURTHER,
    OPEN,
    OWNER_DIGITS_SHOWN,
    FileSinkBroken,
    FileSinkFailed,
    Mark,
    OutputFileConfig,
    PartFile,
    PartFileWriter,
    Transaction,
    bucket_of,
    hidden_name,
    listed_part,
    mark_of,
    parts_of,
    unmarked_part,
)
from onceproof.engine.connectors.rolling import RollingPolicy
from onceproof.engine.connectors.two_phase import Recovery, TwoPhaseCommitSinkFunction
from onceproof.engine.durable_files import open_folder, sync_folder
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.file_calls import SYSTEM_CALLS, FileCalls
from onceproof.engine.formats.bulk_writers import BulkWriter, BulkWriterFactory, OutputFile, WrongRow
from onceproof.engine.functions import SinkFunction
from onceproof.engine.locations import scheme_of

ON_CHECKPOINT: Final = RollingPolicy.on_checkpoint_rolling_policy()
IN_BASE_PATH: Final = BasePathBucketAssigner()
CHECK_INTERVAL_MS: Final = 60_000


class UnwritableValue(UnrecoverableError, ValueError):
    """The format of the files does not take a value. The message is one line."""


class PartWriter(OutputFile, Protocol):
    """A part file that is being written."""

    def finish(self) -> int:
        """Store the rest durably, and return the length in bytes."""
        ...

    def close(self) -> None:
        """Release what the writer holds, without storing the rest."""
        ...


class OpenPart(Struct, eq=False):
    """A part file that is being written, and the milliseconds at which it was begun and last written to."""

    listed: Transaction
    file: PartWriter
    writer: BulkWriter
    begun_ms: int
    written_ms: int
    rows: int = 0
    """Counted only where the rolling policy has a number of them."""


class FileSinkFunction(TwoPhaseCommitSinkFunction):
    """Writes the part files of each transaction."""

    calls: FileCalls = SYSTEM_CALLS
    """The file calls; a test gives others."""

    def __init__(
        self,
        base_path: str,
        form: Encoder | BulkWriterFactory,
        config: OutputFileConfig,
        rolling_policy: RollingPolicy = ON_CHECKPOINT,
        bucket_assigner: BucketAssigner = IN_BASE_PATH,
        check_interval_ms: int = CHECK_INTERVAL_MS,
    ) -> None:
        super().__init__()
        self._rolls = rolling_policy.should_roll
        self._part_rows = rolling_policy.part_rows
        self._base_path = base_path
        self._form = form
        self._writers = form if isinstance(form, BulkWriterFactory) else EncodedRows(form)
        self._prefix = config.part_prefix
        self._suffix = config.part_suffix
        self._assigner = bucket_assigner
        self._has_buckets = not isinstance(bucket_assigner, BasePathBucketAssigner)
        self._check_interval_ms = check_interval_ms
        self._next_check_ms = 0
        self._open_parts: dict[str, OpenPart] = {}
        """By bucket."""
        self._buckets_made: set[str] = set()
        self._ledger: CommitLedger | None = None
        self._failed = ""
        """Why a commit of this attempt has failed."""
        self._number = 0
        """That of the part file which is being committed, within its transaction."""
        self._is_last = True

    def begin_transaction(self) -> Transaction:
        """Return new names; the first row creates the file."""
        self._open_parts = {}
        return self.new_part(0)

    def new_part(self, number: int) -> Transaction:
        """Return the names of the n-th part file of the transaction that is begun."""
        mark = Mark(self.owner, self.subtask, self.epoch, self.attempt)
        place = f"{self.owner[:OWNER_DIGITS_SHOWN]}-{self.subtask}-{self.epoch}-{self.attempt}"
        name = f"{self._prefix}-{place}{f'-{number}' if number else ''}{self._suffix}"
        return [name, OPEN, os.path.abspath(self._base_path), hidden_name(name, mark)]

    def invoke_transaction(self, transaction: Transaction, value: Any, context: Any) -> None:
        self._write(transaction, self._bucket(value, context), [value])

    def invoke_transaction_batch(self, transaction: Transaction, values: list[Any]) -> bool:
        if self._assigner.depends_on_rows:
            return False
        context = SinkFunction.Context(self.get_runtime_context().get_current_processing_time)
        self._write(transaction, self._bucket(None, context), values)
        return True

    def _bucket(self, value: Any, context: Any) -> str:
        """Return the bucket of a value. Raises WrongBucket if it cannot be a folder."""
        if not self._has_buckets:
            return ""
        bucket = self._assigner.get_bucket_id(value, context)
        if bucket not in self._buckets_made and (mistake := bucket_mistake(bucket)) is not None:
            raise WrongBucket(
                f"{type(self._assigner).__name__} gives the bucket {bucket!r} for {value!r}, which {mistake}:"
                " let get_bucket_id return a relative path such as 'country=at', or '' for the base path"
            )
        return bucket

    def pre_commit(self, transaction: Transaction) -> None:
        """Complete the files, so that they survive a loss of power."""
        for part in self._open_parts.values():
            self.finish_part(part)
        self._open_parts = {}
        for listed in parts_of(transaction):
            if listed[1] == OPEN:
                listed[1] = 0
        self.make_durable(transaction)

    def make_durable(self, transaction: Transaction) -> None:
        """Sync the folders of the files, each of which is synced already."""
        buckets = {bucket_of(listed) for listed in parts_of(transaction) if listed[1] != 0}
        try:
            for bucket in sorted(buckets):
                sync_folder(self.calls, os.path.join(self._base_path, bucket))
        except OSError as error:
            raise self.failure(transaction, "cannot be written", error) from error

    def finish_part(self, part: OpenPart) -> None:
        """Write the end of a part file, sync and close it, and note its length."""
        try:
            part.writer.finish()
            part.listed[1] = part.file.finish()
        except WrongRow as error:
            raise UnwritableValue(
                f"value {error.row!r} cannot be written to {self._base_path}: {error}"
            ) from error
        except OSError as error:
            raise self.failure(part.listed, "cannot be written", error) from error

    def commit(self, transaction: Transaction) -> None:
        """Make the files visible where they were prepared, unless that was done before."""
        if self._failed:
            raise FileSinkFailed(
                f"transaction {transaction[0]} waits behind one that has failed: {self._failed}"
            )
        try:
            parts = list(parts_of(transaction))
            for self._number, part in enumerate(parts):
                self._is_last = part is parts[-1]
                self.commit_part(part)
        except Exception as error:
            # The text alone: the error would keep this function and its open files in memory.
            self._failed = str(error)
            raise

    def all_committed(self) -> None:
        """Note in the ledger that this subtask's output is complete."""
        context = self.get_runtime_context()
        own, parallelism = self.subtask, context.get_number_of_parallel_subtasks()
        folder = os.path.abspath(self._base_path)
        # What is not noted, or not durable, only makes a later run from nothing ask for a decision.
        with suppress(OSError):
            self.ledger.end(folder, self.owner, lambda subtask: subtask % parallelism == own)

    @property
    def ledger(self) -> CommitLedger:
        """The ledger of this sink's commits."""
        if self._ledger is None:
            self._ledger = CommitLedger(self.calls, self.get_runtime_context().get_place_id())
        return self._ledger

    def begins_afresh(self) -> None:
        """Raise FileSinkBroken if the base path has output of a run of this job that had not ended."""
        place = self.get_runtime_context().get_place_id()
        if not place:
            return
        try:
            names = list(self._names(self._base_path))
        except OSError:
            return  # There is no folder yet, or its use will raise the same error with its place.
        refuse_earlier_run(self._base_path, names, place, self.owner)

    def _names(self, folder: str) -> Iterator[str]:
        """Give the names of the files in a folder, and in its buckets if the sink has them."""
        for name, is_folder in self.calls.entries(folder):
            if not is_folder:
                yield name
            elif self._has_buckets and bucket_mistake(name) is None:
                with suppress(FileNotFoundError):
                    yield from self._names(os.path.join(folder, name))

    def commit_part(self, transaction: Transaction) -> None:
        """Make one file visible where it was prepared, unless that was done before."""
        if len(transaction) > 2 and scheme_of(str(transaction[2])):
            raise FileSinkBroken(
                f"transaction {transaction[0]!r} waits at {transaction[2]}, and this sink writes into the"
                f" folder {self._base_path}: run the job with that base path once, and end it with a"
                " savepoint"
            )
        part, folders = self._listed(transaction)
        if part.length == 0:
            return
        bucket = bucket_of(transaction)
        bases = [folder.removesuffix(f"/{bucket}") if bucket else folder for folder in folders]
        mark, number = mark_of(part.hidden), self._number

        def note(base: str) -> str | None:
            if mark is not None:
                self.ledger.note(base, mark, number)
            return base if bucket and self._is_last else None

        try:
            # A copy of the folder may have been restored: then the file is in both, and belongs to both.
            committed = [
                part.commit(self.calls, folder, partial(note, base))
                for folder, base in zip(folders, bases, strict=True)
            ]
            if mark is not None and not any(committed):
                committed = [self.ledger.has(base, mark, number) for base in bases]
        except FileSinkFailed:
            raise
        except OSError as error:
            raise self.failure(transaction, "cannot be committed", error) from error
        if not any(committed):
            names = f"{os.path.join(folders[0], part.name)} nor {part.hidden}"
            places = "".join([f" nor the two in {folder}" for folder in folders[1:]])
            raise FileSinkBroken(
                f"transaction {part.name} is lost: neither {names}{places} exists, though a checkpoint"
                f" lists it with {part.length} bytes: restore the folder from a copy, or start afresh"
            )

    def abort(self, transaction: Transaction) -> None:
        """Delete the hidden files that exist and are this sink's."""
        for each in list(parts_of(transaction)):
            part, folders = self._listed(each)
            if part.owner in (None, self.owner):
                for folder in folders:
                    self._delete(os.path.join(folder, part.hidden))

    def abort_unknown(self, recovery: Recovery) -> None:
        """Delete the hidden files of this sink that no checkpoint lists."""
        try:
            folder = os.path.abspath(self._base_path)
            open_folder(self.calls, folder)
            hidden = list(self._hidden_files(self._base_path))
            names = [name for name, _ in self.calls.entries(folder)]
            self.ledger.found(folder, names, recovery.owner)
        except OSError as error:
            raise FileSinkBroken(
                f"folder {self._base_path} of the file sink cannot be used: {error.strerror}:"
                " make it writable, or choose another"
            ) from error
        for path, mark in hidden:
            if recovery.may_abort(mark.subtask, mark.epoch, mark.attempt, mark.owner):
                self._delete(path)

    def _hidden_files(self, folder: str) -> Iterator[tuple[str, Mark]]:
        """Give the hidden part files of any sink in a folder, and in its buckets if the sink has them."""
        for name, is_folder in sorted(self.calls.entries(folder)):
            path = os.path.join(folder, name)
            mark = mark_of(name)
            if mark is not None:
                yield path, mark
            elif is_folder and self._has_buckets and bucket_mistake(name) is None:
                try:
                    yield from self._hidden_files(path)
                except FileNotFoundError:
                    continue  # A folder that is no bucket of ours was removed at this moment.

    def close(self) -> None:
        """Abort the open transaction."""
        super().close()
        for part in self._open_parts.values():
            part.file.close()
        self._open_parts = {}

    def _listed(self, transaction: Transaction) -> tuple[PartFile, list[str]]:
        """Return the part file of a transaction, and the folders that may have it. Raises FileSinkBroken."""
        own = os.path.abspath(self._base_path)
        if len(transaction) == 2:
            return unmarked_part(*transaction), [own]
        name, length, folder, hidden = transaction[:FURTHER]
        part = listed_part(name, hidden, folder, length)
        bucket = bucket_of(transaction)
        bases = [folder, own]
        if folder == own or os.path.realpath(folder) == os.path.realpath(own):
            bases = [own]
        return part, [os.path.join(base, bucket) if bucket else base for base in bases]

    # ---- The hot path: one call for each buffer of rows, or for each row where the bucket depends on it.

    def _write(self, transaction: Transaction, bucket: str, values: list[Any]) -> None:
        now_ms = self.get_runtime_context().get_current_processing_time()
        if now_ms >= self._next_check_ms:
            self._check_parts(now_ms)
        part = self._open_parts.get(bucket)
        if part is not None and self._rolls(part.file.length, part.begun_ms, part.written_ms, now_ms):
            self.finish_part(part)
            del self._open_parts[bucket]
            part = None
        if self._part_rows is not None:
            part, values = self._fill_parts(part, transaction, bucket, values, now_ms)
            if part is None:
                return
        elif part is None:
            part = self._open_parts[bucket] = self._begin_part(transaction, bucket, now_ms)
        self._add(part, values)
        part.written_ms = now_ms

    def _add(self, part: OpenPart, values: list[Any]) -> None:
        try:
            part.writer.add_elements(values)
        except WrongRow as error:
            raise UnwritableValue(
                f"value {error.row!r} cannot be written to {self._base_path}: {error}"
            ) from error
        except OSError as error:
            raise self.failure(part.listed, "cannot be written", error) from error

    # ---- End of the hot path.

    def _fill_parts(
        self, part: OpenPart | None, transaction: Transaction, bucket: str, values: list[Any], now_ms: int
    ) -> tuple[OpenPart | None, list[Any]]:
        """Write and finish the part files that the rows fill.

        Returns:
            the part file of the rows that are left, which counts them already, and these rows; None if all
            are written
        """
        assert self._part_rows is not None
        while values:
            if part is None:
                part = self._open_parts[bucket] = self._begin_part(transaction, bucket, now_ms)
            room = self._part_rows - part.rows
            if len(values) < room:
                part.rows += len(values)
                return part, values
            self._add(part, values[:room])
            self.finish_part(part)
            del self._open_parts[bucket]
            part, values = None, values[room:]
        return None, values

    def _check_parts(self, now_ms: int) -> None:
        """Finish the part files that their age or idleness has made complete, and that get no rows."""
        self._next_check_ms = now_ms + self._check_interval_ms
        for bucket, part in list(self._open_parts.items()):
            if self._rolls(part.file.length, part.begun_ms, part.written_ms, now_ms):
                self.finish_part(part)
                del self._open_parts[bucket]

    def _begin_part(self, transaction: Transaction, bucket: str, now_ms: int) -> OpenPart:
        """Create the first part file of a transaction, or a further one."""
        if not self._has_buckets and transaction[1] == OPEN:
            listed = transaction
        else:
            if len(transaction) == FURTHER:
                transaction.append([])
            further: list[Transaction] = transaction[FURTHER]
            listed = self.new_part(len(further) + 1)
            if self._has_buckets:
                listed.append(bucket)
            further.append(listed)
        file = self.create_file(listed, bucket)
        try:
            writer = self._writers.create(file)
        except OSError as error:
            raise self.failure(listed, "cannot be written", error) from error
        return OpenPart(listed, file, writer, now_ms, now_ms)

    def create_file(self, listed: Transaction, bucket: str) -> PartWriter:
        """Create a part file in a bucket."""
        name, _, base_path, hidden = listed[:FURTHER]
        folder = os.path.join(base_path, bucket) if bucket else base_path
        target, path = os.path.join(folder, name), os.path.join(folder, hidden)
        try:
            if bucket not in self._buckets_made:
                self._make_bucket(base_path, folder)
                self._buckets_made.add(bucket)
            if self.calls.exists(target):
                raise FileSinkBroken(
                    f"part file {target} exists already, from an earlier run of the job with the same"
                    " checkpoint folder: move it away, or choose another folder"
                )
            return PartFileWriter(self.calls, path)
        except FileExistsError as error:
            raise FileSinkBroken(
                f"part file {path} exists already, from an earlier run of the job with the same checkpoint"
                " folder: delete it, or choose another folder"
            ) from error
        except FileSinkFailed:
            raise
        except OSError as error:
            raise self.failure(listed, "cannot be written", error) from error

    def _make_bucket(self, base_path: str, folder: str) -> None:
        if folder == base_path:
            return
        try:
            open_folder(self.calls, folder, base_path)
        except (FileExistsError, NotADirectoryError) as error:
            raise FileSinkBroken(
                f"bucket {folder} cannot be made, because a file has the name of a folder: move it away, or"
                " let the bucket assigner give another bucket"
            ) from error

    def failure(self, transaction: Transaction, what: str, error: OSError) -> FileSinkFailed:
        """Return the error for a part file that cannot be written or committed."""
        reason = error.strerror or str(error)
        folder = os.path.join(self._base_path, bucket_of(transaction))
        return FileSinkFailed(
            f"part file {transaction[0]} in {folder} {what}: {reason}:"
            " free space, or make the folder writable"
        )

    def _delete(self, path: str) -> None:
        try:
            self.calls.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise FileSinkFailed(
                f"{path} of an aborted transaction cannot be deleted: {error.strerror}:"
                " make the folder writable"
            ) from error
