"""A sink of part files that become visible whole, exactly once (PyFlink: FileSink).

The rules this module lives by:

- A transaction is one part file (`part_files.py`), or several where the rolling policy has begun further
  ones: hidden while they are written, synced to the disk by pre-commit, visible after the commit, deleted by
  an abort. Readers that skip hidden files see whole files.
- A visible name is ``<prefix>-<owner>-<subtask>-<epoch>-<attempt><suffix>``, with the first digits of the
  owner: two sinks in one folder, and a job beside its earlier run, do not meet, whatever their prefixes.
  Further files of a transaction have ``-1``, ``-2`` and so on behind the attempt.
- A transaction without rows has no file; its pre-committed length is 0.
- The checkpoint lists the length. A file with another length at its commit is an error, never a silent loss.
- The checkpoint lists the folder, too: a job that is restored with another base path commits a file where it
  was prepared. A folder that was moved with its files is the base path then. So both are looked into.
- A repeated commit finds the target and does nothing. If no folder has the file, the rows are lost: an error
  that names the transaction.
- Hidden files that a crash left are found by their marks and deleted at the next start, by the rule of
  two_phase. Files of other owners stay, also those that a restored checkpoint lists as open.
- The folder and the missing ones above it are made durably; a new name counts once its folder is synced.
- Rows are buffered in memory and written in blocks; a crash loses only the open transaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.part_files import (
    FileSinkBroken,
    FileSinkFailed,
    Mark,
    PartFile,
    PartFileWriter,
    hidden_name,
    listed_part,
    mark_of,
    unmarked_part,
)
from onceproof.engine.connectors.rolling import RollingPolicy
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.connectors.two_phase import Recovery, TwoPhaseCommitSinkFunction
from onceproof.engine.durable_files import open_folder, sync_folder
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.file_calls import SYSTEM_CALLS, FileCalls

OPEN = -1
"""The length of a transaction that is not pre-committed yet."""
OWNER_DIGITS_SHOWN: Final = 8
LONGEST_AFFIXES: Final = 120
"""The bytes of prefix and suffix together; the rest of a name is the engine's."""

Transaction = list[Any]
"""[visible name, length in bytes or OPEN, folder, hidden name]; a list, because pre-commit sets the length.

One with further files has a list of them behind, each of that form. Checkpoints of version 0.2.0 list
[name, length]: the folder is the base path, and there is no mark."""
ON_CHECKPOINT: Final = RollingPolicy.on_checkpoint_rolling_policy()
FURTHER: Final = 4
"""The place of the further files."""


class UnwritableValue(UnrecoverableError, ValueError):
    """The encoder does not accept a value. The message is one line."""


class OutputFileConfig:
    """The names of part files (PyFlink: OutputFileConfig).

    Args:
        part_prefix: the start of the names; not empty, without slash, not beginning with ``.`` or ``_``.
        part_suffix: the end of the names, such as ``.csv``; without slash.

    Raises:
        ValueError: the prefix or suffix is not allowed.
    """

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        for what, text in (("prefix", part_prefix), ("suffix", part_suffix)):
            if "/" in text or "\0" in text:
                raise ValueError(f"part {what} {text!r} must not hold a slash: give folders in the base path")
        if part_prefix.startswith((".", "_")) or not part_prefix:
            raise ValueError(
                f"part prefix {part_prefix!r} must not be empty or begin with . or _: readers skip those"
            )
        length = len(os.fsencode(part_prefix + part_suffix))
        if length > LONGEST_AFFIXES:
            raise ValueError(
                f"part prefix and suffix have {length} bytes together: at most {LONGEST_AFFIXES} leave room"
                " for the rest of a file name"
            )
        self.part_prefix = part_prefix
        self.part_suffix = part_suffix

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Return a builder with prefix ``part`` and no suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the start of the names."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return the end of the names."""
        return self.part_suffix

    class OutputFileConfigBuilder:
        """Builds an OutputFileConfig (PyFlink: OutputFileConfig.OutputFileConfigBuilder)."""

        def __init__(self) -> None:
            self._part_prefix = "part"
            self._part_suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the start of the names."""
            self._part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the end of the names, for example ``.csv``."""
            self._part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Return the configuration."""
            return OutputFileConfig(self._part_prefix, self._part_suffix)


def parts_of(transaction: Transaction) -> Iterator[Transaction]:
    """Give the part files of a transaction. Raises FileSinkBroken for what no file sink has listed."""
    yield transaction
    if len(transaction) > FURTHER:
        further = transaction[FURTHER]
        if len(transaction) > FURTHER + 1 or not isinstance(further, list):
            raise FileSinkBroken(f"transaction {transaction[0]!r} has no list of files: it is not ours")
        for part in further:
            if not isinstance(part, list) or len(part) != FURTHER:
                raise FileSinkBroken(f"transaction {transaction[0]!r} has no file {part!r}: it is not ours")
            yield part


class FileSink(Sink):
    """Writes rows into part files of one folder, exactly once (PyFlink: FileSink).

    Each subtask begins a new file with each checkpoint. Build one with ``FileSink.for_row_format``.
    """

    def __init__(
        self,
        base_path: str,
        encoder: Encoder,
        output_file_config: OutputFileConfig,
        rolling_policy: RollingPolicy = ON_CHECKPOINT,
    ) -> None:
        self.base_path = base_path
        self._encoder = encoder
        self._output_file_config = output_file_config
        self._rolling_policy = rolling_policy

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Return a builder of a sink that writes one row for each value.

        Args:
            base_path: the folder of the part files.
            encoder: converts values into bytes.
        """
        return FileSink.RowFormatBuilder(base_path, encoder)

    def create_function(self) -> FileSinkFunction:
        """Return a function for one subtask."""
        return FileSinkFunction(self.base_path, self._encoder, self._output_file_config, self._rolling_policy)

    class RowFormatBuilder:
        """Builds a FileSink (PyFlink: FileSink.RowFormatBuilder)."""

        def __init__(self, base_path: str, encoder: Encoder) -> None:
            self._base_path = os.fspath(base_path)
            self._encoder = encoder
            self._output_file_config = OutputFileConfig.builder().build()
            self._rolling_policy: RollingPolicy = ON_CHECKPOINT

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSink.RowFormatBuilder:
            """Set when to begin new files between checkpoints; by default never.

            Raises:
                TypeError: it is no RollingPolicy.
            """
            if not isinstance(rolling_policy, RollingPolicy):
                raise TypeError(
                    f"{rolling_policy!r} is no RollingPolicy: such as RollingPolicy.default_rolling_policy()"
                )
            self._rolling_policy = rolling_policy
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSink.RowFormatBuilder:
            """Set the names of part files."""
            self._output_file_config = output_file_config
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            return FileSink(self._base_path, self._encoder, self._output_file_config, self._rolling_policy)


class FileSinkFunction(TwoPhaseCommitSinkFunction):
    """Writes the part files of each transaction."""

    calls: FileCalls = SYSTEM_CALLS
    """The file calls; a test gives others."""

    def __init__(
        self,
        base_path: str,
        encoder: Encoder,
        config: OutputFileConfig,
        rolling_policy: RollingPolicy = ON_CHECKPOINT,
    ) -> None:
        super().__init__()
        self._rolls = rolling_policy.should_roll
        self._base_path = base_path
        self._encoder = encoder
        self._prefix = config.part_prefix
        self._suffix = config.part_suffix
        self._file: PartFileWriter | None = None
        self._begun_ms = 0
        self._written_ms = 0

    def begin_transaction(self) -> Transaction:
        """Return new names; the first row creates the file."""
        self._file = None
        return self._new_part("")

    def _new_part(self, number: str) -> Transaction:
        mark = Mark(self.owner, self.subtask, self.epoch, self.attempt)
        place = f"{self.owner[:OWNER_DIGITS_SHOWN]}-{self.subtask}-{self.epoch}-{self.attempt}"
        name = f"{self._prefix}-{place}{number}{self._suffix}"
        return [name, OPEN, os.path.abspath(self._base_path), hidden_name(name, mark)]

    def invoke_transaction(self, transaction: Transaction, value: Any, context: Any) -> None:
        self._write(transaction, [value])

    def invoke_transaction_batch(self, transaction: Transaction, values: list[Any]) -> bool:
        self._write(transaction, values)
        return True

    def pre_commit(self, transaction: Transaction) -> None:
        """Sync the hidden files and their folder to the disk."""
        self._finish_part(transaction)
        for part in parts_of(transaction):
            if part[1] == OPEN:
                part[1] = 0
        if all(part[1] == 0 for part in parts_of(transaction)):
            return
        try:
            sync_folder(self.calls, self._base_path)
        except OSError as error:
            raise self._failure(transaction, "cannot be written", error) from error

    def _finish_part(self, transaction: Transaction) -> None:
        """Sync and close the part file that is written, if any, and note its length."""
        file = self._file
        if file is None:
            return
        *_, part = parts_of(transaction)
        try:
            part[1] = file.finish()
        except OSError as error:
            raise self._failure(part, "cannot be written", error) from error
        self._file = None

    def commit(self, transaction: Transaction) -> None:
        """Make the files visible where they were prepared, unless that was done before."""
        for part in parts_of(transaction):
            self._commit_part(part)

    def _commit_part(self, transaction: Transaction) -> None:
        part, folders = self._listed(transaction)
        if part.length == 0:
            return
        try:
            # A copy of the folder may have been restored: then the file is in both, and belongs to both.
            committed = [part.commit(self.calls, folder) for folder in folders]
        except FileSinkFailed:
            raise
        except OSError as error:
            raise self._failure(transaction, "cannot be committed", error) from error
        if not any(committed):
            names = f"{os.path.join(folders[0], part.name)} nor {part.hidden}"
            places = "".join([f" nor the two in {folder}" for folder in folders[1:]])
            raise FileSinkBroken(
                f"transaction {part.name} is lost: neither {names}{places} exists, though a checkpoint"
                f" lists it with {part.length} bytes: restore the folder from a copy, or start afresh"
            )

    def abort(self, transaction: Transaction) -> None:
        """Delete the hidden files that exist and are this sink's."""
        for each in parts_of(transaction):
            part, folders = self._listed(each)
            if part.owner in (None, self.owner):
                for folder in folders:
                    self._delete(os.path.join(folder, part.hidden))

    def abort_unknown(self, recovery: Recovery) -> None:
        """Delete the hidden files of this sink that no checkpoint lists."""
        try:
            open_folder(self.calls, os.path.abspath(self._base_path))
            names = sorted(name for name, _ in self.calls.entries(self._base_path))
        except OSError as error:
            raise FileSinkBroken(
                f"folder {self._base_path} of the file sink cannot be used: {error.strerror}:"
                " make it writable, or choose another"
            ) from error
        for name in names:
            mark = mark_of(name)
            if mark is not None and recovery.may_abort(mark.subtask, mark.epoch, mark.attempt, mark.owner):
                self._delete(os.path.join(self._base_path, name))

    def close(self) -> None:
        """Abort the open transaction."""
        super().close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _listed(self, transaction: Transaction) -> tuple[PartFile, list[str]]:
        """Return the part file of a transaction, and the folders that may have it. Raises FileSinkBroken."""
        own = os.path.abspath(self._base_path)
        if len(transaction) == 2:
            return unmarked_part(*transaction), [own]
        name, length, folder, hidden = transaction[:FURTHER]
        part = listed_part(name, hidden, folder, length)
        if folder == own or os.path.realpath(folder) == os.path.realpath(own):
            return part, [own]
        return part, [folder, own]

    def _write(self, transaction: Transaction, values: list[Any]) -> None:
        try:
            data = self._encoder.encode_batch(values)
        except (TypeError, ValueError) as error:
            raise self._unwritable(values, error) from error
        now_ms = self.get_runtime_context().get_current_processing_time()
        file = self._file
        if file is not None and self._rolls(file.length, self._begun_ms, self._written_ms, now_ms):
            self._finish_part(transaction)
            file = None
        try:
            if file is None:
                file = self._file = self._open_file(self._next_part(transaction))
                self._begun_ms = now_ms
            file.write(data)
            self._written_ms = now_ms
        except FileSinkFailed:
            raise
        except OSError as error:
            raise self._failure(transaction, "cannot be written", error) from error

    def _next_part(self, transaction: Transaction) -> Transaction:
        """Return the part that is not begun: the first one, or a further one."""
        if transaction[1] == OPEN:
            return transaction
        if len(transaction) == FURTHER:
            transaction.append([])
        further: list[Transaction] = transaction[FURTHER]
        further.append(self._new_part(f"-{len(further) + 1}"))
        return further[-1]

    def _open_file(self, transaction: Transaction) -> PartFileWriter:
        name, _, folder, hidden = transaction[:FURTHER]
        target, path = os.path.join(folder, name), os.path.join(folder, hidden)
        if self.calls.exists(target):
            raise FileSinkBroken(
                f"part file {target} exists already, from an earlier run of the job with the same checkpoint"
                " folder: move it away, or choose another folder"
            )
        try:
            return PartFileWriter(self.calls, path)
        except FileExistsError as error:
            raise FileSinkBroken(
                f"part file {path} exists already, from an earlier run of the job with the same checkpoint"
                " folder: delete it, or choose another folder"
            ) from error

    def _unwritable(self, values: list[Any], error: Exception) -> UnwritableValue:
        for value in values:
            try:
                self._encoder.encode_batch([value])
            except (TypeError, ValueError) as own_error:
                return UnwritableValue(f"value {value!r} cannot be written to {self._base_path}: {own_error}")
        return UnwritableValue(f"values cannot be written to {self._base_path}: {error}")

    def _failure(self, transaction: Transaction, what: str, error: OSError) -> FileSinkFailed:
        reason = error.strerror or str(error)
        return FileSinkFailed(
            f"part file {transaction[0]} in {self._base_path} {what}: {reason}:"
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
