"""Part files of the file sink: their names, how one is written, becomes visible, or is deleted.

Rules:

- A part file has a visible name, and until its commit a hidden one: a dot, the visible name, a dot, the mark
  ``<owner>-<subtask>-<epoch>-<attempt>`` and ``.inprogress``. Names are read from the right, where the engine
  has written everything, so no prefix or suffix that a user chooses can imitate the mark of another sink.
- A sink deletes only files with its own owner in the mark. It commits what a checkpoint lists, of whatever
  owner: a job that goes on from another job's savepoint commits what that job has left.
- A commit renames the hidden name to the visible one, and syncs the folder. So a file waits as long as its
  hidden name is there, also where a consumer takes visible files away at once (`commit_ledger.py`). A file
  that has the visible name already is never replaced. If it has the same content, a commit of an earlier
  version was interrupted between its two names, or the folder was copied, and the rest is done.
- What a checkpoint lists may be forged. Only a regular file whose hidden name has that form, and whose length
  is the listed one, becomes visible, in its own folder and under the name that its hidden name gives it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from onceproof.engine.connectors.buckets import bucket_mistake
from onceproof.engine.durable_files import sync_folder, write_all
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.file_calls import FileCalls
from onceproof.engine.owner_ids import OWNER_DIGITS
from onceproof.engine.state.file_envelope import is_plain_name

OPEN = -1
"""The length of a transaction that is not pre-committed yet."""

Transaction = list[Any]
"""[visible name, bytes or OPEN, base path, hidden name]; a list, because pre-commit sets the length.

One with further files has a list of them behind, each of that form, with its bucket behind if the sink has
buckets. Checkpoints of version 0.2.0 list [name, length]: in the base path, and without a mark."""
FURTHER: Final = 4
"""The place of the further files in a transaction, and of the bucket in one of these."""


def parts_of(transaction: Transaction) -> Iterator[Transaction]:
    """Give the part files of a transaction. Raises FileSinkBroken for what no file sink has listed."""
    yield transaction
    if len(transaction) > FURTHER:
        further = transaction[FURTHER]
        if len(transaction) > FURTHER + 1 or not isinstance(further, list):
            raise FileSinkBroken(f"transaction {transaction[0]!r} has no list of files: it is not ours")
        for part in further:
            if not isinstance(part, list) or len(part) not in (FURTHER, FURTHER + 1):
                raise FileSinkBroken(f"transaction {transaction[0]!r} has no file {part!r}: it is not ours")
            if (mistake := bucket_mistake(bucket_of(part))) is not None:
                raise FileSinkBroken(
                    f"transaction {transaction[0]!r} has a file in the bucket {part[FURTHER]!r}, which"
                    f" {mistake}: it is not ours"
                )
            yield part


def bucket_of(part: Transaction) -> Any:
    """Return the bucket of a part file; that of a whole transaction's own file is the base path."""
    return part[FURTHER] if len(part) > FURTHER and not isinstance(part[FURTHER], list) else ""


BLOCK_BYTES = 1 << 18
"""The size of the blocks in which rows are written."""

IN_PROGRESS: Final = ".inprogress"
_MARK: Final = rf"([0-9a-f]{{{OWNER_DIGITS}}})-([0-9]{{1,9}})-([0-9]{{1,18}})-([0-9A-Za-z.]{{1,40}})"
_HIDDEN: Final = re.compile(rf"\.(.+)\.{_MARK}{re.escape(IN_PROGRESS)}", re.DOTALL)
OWNER_DIGITS_SHOWN: Final = 8
"""How many digits of its owner the visible name of a part file has."""
LONGEST_AFFIXES: Final = 120
"""The bytes of prefix and suffix together; the rest of a name is the engine's."""
_ROUNDS: Final = 5
"""How often a commit looks again after another process has changed a name under its hands."""


class FileSinkFailed(OSError):
    """A part file cannot be written at the moment. The message is one line."""

    def __str__(self) -> str:
        return str(self.args[0])


class FileSinkBroken(FileSinkFailed, UnrecoverableError):
    """A folder or part file is in a state that a restart would find again. The message is one line."""


class Mark(NamedTuple):
    """The writer of a part file, as its hidden name gives it."""

    owner: str
    subtask: int
    epoch: int
    attempt: str


def mark_of(hidden: str) -> Mark | None:
    """Return the mark in a hidden name; None for any other name."""
    match = _HIDDEN.fullmatch(hidden)
    return None if match is None else Mark(match[2], int(match[3]), int(match[4]), match[5])


def hidden_name(name: str, mark: Mark) -> str:
    """Return the name of a part file before its commit."""
    return f".{name}.{mark.owner}-{mark.subtask}-{mark.epoch}-{mark.attempt}{IN_PROGRESS}"


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


class PartFile(NamedTuple):
    """A pre-committed part file, as a checkpoint lists it."""

    name: str
    """The visible name."""
    hidden: str
    length: int
    """In bytes."""
    owner: str | None
    """None: the file is of version 0.2.0, whose names had no mark."""

    def commit(self, calls: FileCalls, folder: str, note: Callable[[], str | None] = lambda: None) -> bool:
        """Make the file visible unless it is; return False if the folder has neither of its names.

        ``note`` is called before the file gets its visible name, and may return another folder to sync.
        Raises FileSinkBroken where another file stands under a name, and OSError.
        """
        noted = None
        target, hidden = os.path.join(folder, self.name), os.path.join(folder, self.hidden)
        for _ in range(_ROUNDS):
            visible, waiting = _length(calls, target), _length(calls, hidden)
            if visible is None and waiting is None:
                return False
            if visible is not None and waiting is not None and not calls.is_same_content(hidden, target):
                raise FileSinkBroken(
                    f"{target} exists already, but is not what transaction {self.name} wrote ({hidden}):"
                    " move it away, and start the job again"
                )
            found = waiting if visible is None else visible
            if found != self.length:
                raise FileSinkBroken(
                    f"transaction {self.name} is damaged: {hidden if visible is None else target} has"
                    f" {found} bytes, the checkpoint lists {self.length}: restore the folder from a copy"
                )
            if visible is None:
                noted = note()
                try:
                    calls.rename(hidden, target)
                except FileNotFoundError:
                    continue  # Another job has committed the same file at the same moment.
            sync_folder(calls, folder)
            if noted is not None:
                sync_folder(calls, noted)
            if visible is not None and waiting is not None:
                with suppress(FileNotFoundError):
                    calls.unlink(hidden)
            return True
        raise OSError(f"{target} changes all the time")


def listed_part(name: object, hidden: object, folder: object, length: object) -> PartFile:
    """Return the part file that a checkpoint lists. Raises FileSinkBroken if no file sink has listed it."""
    foreign = "the checkpoint that lists it is not ours"
    if not (isinstance(name, str) and is_plain_name(name) and not name.startswith(".")):
        raise FileSinkBroken(f"transaction {name!r} is not a file name: {foreign}")
    mark = mark_of(hidden) if isinstance(hidden, str) and is_plain_name(hidden) else None
    if mark is None or hidden != hidden_name(name, mark):
        raise FileSinkBroken(f"transaction {name!r} cannot be in file {hidden!r}: {foreign}")
    if not (isinstance(folder, str) and os.path.isabs(folder) and "\0" not in folder):
        raise FileSinkBroken(f"transaction {name!r} cannot be in folder {folder!r}: {foreign}")
    return PartFile(name, hidden, _checked_length(name, length), mark.owner)


def unmarked_part(name: object, length: object) -> PartFile:
    """Return the part file that a checkpoint of version 0.2.0 lists. Raises FileSinkBroken."""
    hidden = f".{name}{IN_PROGRESS}"
    if not (isinstance(name, str) and is_plain_name(hidden) and not name.startswith(".")) or mark_of(hidden):
        raise FileSinkBroken(
            f"transaction {name!r} is not a file name: the checkpoint that lists it is not ours"
        )
    return PartFile(name, hidden, _checked_length(name, length), None)


def _checked_length(name: str, length: object) -> int:
    if type(length) is not int:
        raise FileSinkBroken(f"transaction {name!r} cannot have {length!r} bytes: its checkpoint is not ours")
    return length


def _length(calls: FileCalls, path: str) -> int | None:
    """Return the length of a regular file; None if there is nothing under the name."""
    if os.path.islink(path) or calls.is_folder(path):
        raise FileSinkBroken(f"{path} is a link or a folder, and no part file: move it away")
    return calls.size_of(path)


class PartFileWriter:
    """Writes a part file in blocks."""

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

    @property
    def length(self) -> int:
        """The bytes that were given to it."""
        return self._written + self._gathered

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
