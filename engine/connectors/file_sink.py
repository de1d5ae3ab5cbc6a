"""A sink of part files that become visible whole, exactly once (PyFlink: FileSink).

The rules this module lives by:

- A transaction is one part file. While it is written it is hidden: ``.part-<subtask>-<epoch>-<attempt>``
  with the suffix and ``.inprogress``. Pre-commit syncs it to the disk, commit renames it to the same name
  without the dot and ``.inprogress``, abort deletes it. Readers that skip hidden files see whole files only.
- A transaction without rows has no file; its pre-committed length is 0.
- The checkpoint lists the length. A file with another length at its commit is an error, never a silent loss.
- A repeated commit finds the target and does nothing. If neither file exists, the rows are lost: an error
  that names the transaction. An existing target is never overwritten: a second job in the same folder fails.
- Hidden files that a crash left are found by name and deleted at the next start, by the rule of two_phase.
- The folder and the missing ones above it are made durably; a rename counts once its folder is synced.
- Rows are buffered in memory and written in blocks; a crash loses only the open transaction.
"""

from __future__ import annotations

import os
import re
from typing import Any

from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.connectors.two_phase import Recovery, TwoPhaseCommitSinkFunction
from onceproof.engine.durable_files import make_folder, sync_folder, write_all
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.file_calls import SYSTEM_CALLS, FileCalls

BLOCK_BYTES = 1 << 18
"""The size of the blocks in which rows are written."""

IN_PROGRESS = ".inprogress"
OPEN = -1
"""The length of a transaction that is not pre-committed yet."""

Transaction = list[Any]
"""[name of the part file, its length in bytes or OPEN]; a list, because pre-commit sets the length."""


class FileSinkFailed(OSError):
    """A part file cannot be written at the moment. The message is one line."""

    def __str__(self) -> str:
        return str(self.args[0])


class FileSinkBroken(FileSinkFailed, UnrecoverableError):
    """A folder or part file is in a state that a restart would find again. The message is one line."""


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


class FileSink(Sink):
    """Writes rows into part files of one folder, exactly once (PyFlink: FileSink).

    Each subtask begins a new file with each checkpoint. Build one with ``FileSink.for_row_format``.
    """

    def __init__(self, base_path: str, encoder: Encoder, output_file_config: OutputFileConfig) -> None:
        self.base_path = base_path
        self._encoder = encoder
        self._output_file_config = output_file_config

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
        return FileSinkFunction(self.base_path, self._encoder, self._output_file_config)

    class RowFormatBuilder:
        """Builds a FileSink (PyFlink: FileSink.RowFormatBuilder)."""

        def __init__(self, base_path: str, encoder: Encoder) -> None:
            self._base_path = os.fspath(base_path)
            self._encoder = encoder
            self._output_file_config = OutputFileConfig.builder().build()

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSink.RowFormatBuilder:
            """Set the names of part files."""
            self._output_file_config = output_file_config
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            return FileSink(self._base_path, self._encoder, self._output_file_config)


class FileSinkFunction(TwoPhaseCommitSinkFunction):
    """Writes one part file for each transaction."""

    calls: FileCalls = SYSTEM_CALLS
    """The file calls; a test gives others."""

    def __init__(self, base_path: str, encoder: Encoder, config: OutputFileConfig) -> None:
        super().__init__()
        self._base_path = base_path
        self._encoder = encoder
        self._prefix = config.part_prefix
        self._suffix = config.part_suffix
        self._file: PartFile | None = None

    def begin_transaction(self) -> Transaction:
        """Return a new name; the first row creates the file."""
        self._file = None
        return [f"{self._prefix}-{self.subtask}-{self.epoch}-{self.attempt}{self._suffix}", OPEN]

    def invoke_transaction(self, transaction: Transaction, value: Any, context: Any) -> None:
        self._write(transaction, [value])

    def invoke_transaction_batch(self, transaction: Transaction, values: list[Any]) -> bool:
        self._write(transaction, values)
        return True

    def pre_commit(self, transaction: Transaction) -> None:
        """Sync the hidden file and its folder to the disk."""
        file = self._file
        if file is None:
            transaction[1] = 0
            return
        try:
            transaction[1] = file.finish()
            sync_folder(self.calls, self._base_path)
        except OSError as error:
            raise self._failure(transaction, "cannot be written", error) from error
        self._file = None

    def commit(self, transaction: Transaction) -> None:
        """Rename the hidden file to its target, unless that was done before."""
        name, length = transaction
        if length == 0:
            return
        hidden = self._hidden(name)
        target = self._target(name)
        try:
            committed_length = self.calls.size_of(target)
            hidden_length = self.calls.size_of(hidden)
            if committed_length is not None and hidden_length is not None:
                raise FileSinkBroken(
                    f"{target} exists already, but is not what transaction {name} wrote:"
                    " give each job and each fresh run a folder or a part prefix of its own"
                )
            found = hidden_length if committed_length is None else committed_length
            if found is None:
                raise FileSinkBroken(
                    f"transaction {name} is lost: neither {target} nor {hidden} exists, though a checkpoint"
                    f" lists it with {length} bytes: restore the folder from a copy, or start afresh"
                )
            if found != length:
                raise FileSinkBroken(
                    f"transaction {name} is damaged: {target if hidden_length is None else hidden} has"
                    f" {found} bytes, the checkpoint lists {length}: restore the folder from a copy"
                )
            if hidden_length is not None:
                self.calls.rename(hidden, target)
            sync_folder(self.calls, self._base_path)
        except FileSinkFailed:
            raise
        except OSError as error:
            raise self._failure(transaction, "cannot be committed", error) from error

    def abort(self, transaction: Transaction) -> None:
        """Delete the hidden file if it exists."""
        self._delete(self._hidden(transaction[0]))

    def abort_unknown(self, recovery: Recovery) -> None:
        """Delete the hidden files that no checkpoint lists."""
        pattern = re.compile(
            rf"\.{re.escape(self._prefix)}-([0-9]+)-([0-9]+)-(.+){re.escape(self._suffix + IN_PROGRESS)}"
        )
        try:
            make_folder(self.calls, os.path.abspath(self._base_path))
            names = sorted(name for name, _ in self.calls.entries(self._base_path))
        except OSError as error:
            raise FileSinkBroken(
                f"folder {self._base_path} of the file sink cannot be used: {error.strerror}:"
                " make it writable, or choose another"
            ) from error
        for name in names:
            match = pattern.fullmatch(name)
            if match is not None and recovery.may_abort(int(match[1]), int(match[2]), match[3]):
                self._delete(os.path.join(self._base_path, name))

    def close(self) -> None:
        """Abort the open transaction."""
        super().close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, transaction: Transaction, values: list[Any]) -> None:
        try:
            data = self._encoder.encode_batch(values)
        except (TypeError, ValueError) as error:
            raise self._unwritable(values, error) from error
        try:
            file = self._file
            if file is None:
                file = self._file = self._open_file(transaction)
            file.write(data)
        except FileSinkFailed:
            raise
        except OSError as error:
            raise self._failure(transaction, "cannot be written", error) from error

    def _open_file(self, transaction: Transaction) -> PartFile:
        name = transaction[0]
        if self.calls.exists(self._target(name)):
            raise FileSinkBroken(
                f"part file {self._target(name)} exists already, from an earlier run of a job:"
                " give each job and each fresh run a folder or a part prefix of its own"
            )
        try:
            return PartFile(self.calls, self._hidden(name))
        except FileExistsError as error:
            raise FileSinkBroken(
                f"part file {self._hidden(name)} exists already: another job writes into this folder, or"
                " one without a checkpoint directory died here: delete the file, or choose another folder"
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
            f"part file {self._target(transaction[0])} {what}: {reason}:"
            " free space, or make the folder writable"
        )

    def _target(self, name: str) -> str:
        if os.path.basename(name) != name:
            raise FileSinkBroken(
                f"transaction {name!r} is no file name: the checkpoint that lists it is not ours"
            )
        return os.path.join(self._base_path, name)

    def _hidden(self, name: str) -> str:
        return os.path.join(self._base_path, f".{os.path.basename(name)}{IN_PROGRESS}")

    def _delete(self, path: str) -> None:
        try:
            self.calls.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise FileSinkFailed(
                f"{path} of an aborted transaction cannot be deleted: {error.strerror}:"
                " make the folder writable"
            ) from error


class PartFile:
    """A part file that is being written in blocks."""

    __slots__ = ("_calls", "_chunks", "_descriptor", "_gathered", "_written")

    def __init__(self, calls: FileCalls, path: str) -> None:
        self._calls = calls
        self._descriptor = -1
        self._chunks: list[bytes] = []
        self._gathered = 0
        self._written = 0
        self._descriptor = calls.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def __del__(self) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        """Buffer data, and write it when a block is full."""
        self._chunks.append(data)
        self._gathered += len(data)
        if self._gathered >= BLOCK_BYTES:
            self._flush()

    def finish(self) -> int:
        """Write the rest, sync and close the file, and return its length in bytes."""
        self._flush()
        self._calls.fsync(self._descriptor)
        self.close()
        return self._written

    def close(self) -> None:
        """Close the file without writing the buffered data."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._calls.close(descriptor)

    def _flush(self) -> None:
        data = b"".join(self._chunks)
        self._written += len(data)
        write_all(self._calls, self._descriptor, data)
        self._chunks.clear()
        self._gathered = 0
