"""A sink of files that appear whole, exactly once (PyFlink: FileSink).

The rules this module lives by:

- A transaction is one part file. While it is written it is hidden: ``.part-<subtask>-<epoch>-<attempt>``
  with the suffix and ``.inprogress``. Pre-commit flushes it to the disk, commit renames it to the same name
  without the dot and the ending, abort deletes it. Readers that skip hidden files see whole files only.
- A transaction without rows has no file; its pre-committed length, 0, says so.
- The length is part of what the checkpoint lists. A file that is shorter at its commit was torn by a disk
  that broke its word: that is an error, never a silent loss.
- Committing again finds the target in place and is done. Where neither file exists the rows are lost: an
  error that names the transaction. An existing target is never overwritten: two runs that write into one
  folder are told apart, or stopped.
- What a crash leaves is found by its name and deleted at the next start, by the rule of two_phase.
- Rows are gathered in memory and written in blocks; a crash loses what the open transaction holds, which is
  what an abort would do.
"""

from __future__ import annotations

import os
import re
from typing import Any

from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.connectors.two_phase import Recovery, TwoPhaseCommitSinkFunction
from onceproof.engine.errors import UnrecoverableError

BLOCK_BYTES = 1 << 18
"""How much is gathered before it is written."""

IN_PROGRESS = ".inprogress"
OPEN = -1
"""The length of a transaction that is not pre-committed yet."""

Transaction = list[Any]
"""[name of the part file, its length in bytes or OPEN]; a list, because the length comes late."""


class FileSinkFailed(OSError):
    """A part file cannot be written now. The message is one line."""

    def __str__(self) -> str:
        return str(self.args[0])


class FileSinkBroken(FileSinkFailed, UnrecoverableError):
    """A folder or a part file is not what it must be, and a restart would find it so again."""


class UnwritableValue(UnrecoverableError, ValueError):
    """A value that the encoder does not take. The message is one line."""


class OutputFileConfig:
    """How part files are called (PyFlink: OutputFileConfig)."""

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
        """Begin with prefix ``part`` and no suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """What names begin with."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """What names end in."""
        return self.part_suffix

    class OutputFileConfigBuilder:
        """Gathers prefix and suffix."""

        def __init__(self) -> None:
            self._part_prefix = "part"
            self._part_suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set what names begin with."""
            self._part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set what names end in, for example ``.csv``."""
            self._part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """The finished configuration."""
            return OutputFileConfig(self._part_prefix, self._part_suffix)


class FileSink(Sink):
    """Writes rows into part files of one folder; a new file begins with each checkpoint."""

    def __init__(self, base_path: str, encoder: Encoder, output_file_config: OutputFileConfig) -> None:
        self.base_path = base_path
        self._encoder = encoder
        self._output_file_config = output_file_config

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Begin to describe a sink that writes row after row."""
        return FileSink.RowFormatBuilder(base_path, encoder)

    def create_function(self) -> FileSinkFunction:
        """A function for one subtask."""
        return FileSinkFunction(self.base_path, self._encoder, self._output_file_config)

    class RowFormatBuilder:
        """Gathers what a FileSink needs."""

        def __init__(self, base_path: str, encoder: Encoder) -> None:
            self._base_path = os.fspath(base_path)
            self._encoder = encoder
            self._output_file_config = OutputFileConfig.builder().build()

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSink.RowFormatBuilder:
            """Set how part files are called."""
            self._output_file_config = output_file_config
            return self

        def build(self) -> FileSink:
            """The finished sink."""
            return FileSink(self._base_path, self._encoder, self._output_file_config)


class FileSinkFunction(TwoPhaseCommitSinkFunction):
    """Writes one part file a transaction."""

    def __init__(self, base_path: str, encoder: Encoder, config: OutputFileConfig) -> None:
        super().__init__()
        self._base_path = base_path
        self._encoder = encoder
        self._prefix = config.part_prefix
        self._suffix = config.part_suffix
        self._file: PartFile | None = None

    def begin_transaction(self) -> Transaction:
        """A name; the file comes with the first row."""
        self._file = None
        return [f"{self._prefix}-{self.subtask}-{self.epoch}-{self.attempt}{self._suffix}", OPEN]

    def invoke_transaction(self, transaction: Transaction, value: Any, context: Any) -> None:
        """Write one row."""
        self._write(transaction, [value])

    def invoke_transaction_batch(self, transaction: Transaction, values: list[Any]) -> bool:
        """Write many rows."""
        self._write(transaction, values)
        return True

    def pre_commit(self, transaction: Transaction) -> None:
        """Content and name of the hidden file survive anything from here on."""
        file = self._file
        if file is None:
            transaction[1] = 0
            return
        try:
            transaction[1] = file.finish()
            self._sync_folder()
        except OSError as error:
            raise self._failure(transaction, "cannot be written", error) from error
        self._file = None

    def commit(self, transaction: Transaction) -> None:
        """Rename, or find that it has been done."""
        name, length = transaction
        if length == 0:
            return
        hidden = self._hidden(name)
        target = self._target(name)
        try:
            committed_length = _length(target)
            hidden_length = _length(hidden)
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
                os.rename(hidden, target)
            self._sync_folder()
        except FileSinkFailed:
            raise
        except OSError as error:
            raise self._failure(transaction, "cannot be committed", error) from error

    def abort(self, transaction: Transaction) -> None:
        """Delete the hidden file, if there is one."""
        self._delete(self._hidden(transaction[0]))

    def abort_unknown(self, recovery: Recovery) -> None:
        """Delete the hidden files that no checkpoint lists."""
        pattern = re.compile(
            rf"\.{re.escape(self._prefix)}-([0-9]+)-([0-9]+)-(.+){re.escape(self._suffix + IN_PROGRESS)}"
        )
        try:
            os.makedirs(self._base_path, exist_ok=True)
            names = sorted(os.listdir(self._base_path))
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
        if os.path.lexists(self._target(name)):
            raise FileSinkBroken(
                f"part file {self._target(name)} exists already, from an earlier run of a job:"
                " give each job and each fresh run a folder or a part prefix of its own"
            )
        try:
            return PartFile(self._hidden(name))
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
            os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise FileSinkFailed(
                f"{path} of an aborted transaction cannot be deleted: {error.strerror}:"
                " make the folder writable"
            ) from error

    def _sync_folder(self) -> None:
        descriptor = os.open(self._base_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class PartFile:
    """A file being written, in blocks."""

    __slots__ = ("_chunks", "_descriptor", "_gathered", "_written")

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        self._chunks: list[bytes] = []
        self._gathered = 0
        self._written = 0
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def __del__(self) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        """Gather, and write when a block is full."""
        self._chunks.append(data)
        self._gathered += len(data)
        if self._gathered >= BLOCK_BYTES:
            self._flush()

    def finish(self) -> int:
        """Write the rest, make the content durable and close; the length of the file."""
        self._flush()
        os.fsync(self._descriptor)
        self.close()
        return self._written

    def close(self) -> None:
        """Close, without writing anything more."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _flush(self) -> None:
        view = memoryview(b"".join(self._chunks))
        self._written += len(view)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self._chunks.clear()
        self._gathered = 0


def _length(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None
