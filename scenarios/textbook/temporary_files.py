"""Two-phase commit with temporary files: what becomes visible is whole, once, whatever fails.

A transaction is a hidden file. ``pre_commit`` flushes and closes it, ``commit`` moves it to its target in one
step, ``abort`` deletes it. A transaction that is committed again after a crash has already been moved.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

from onceproof.engine import Recovery, StreamExecutionEnvironment, TwoPhaseCommitSinkFunction, Types

if TYPE_CHECKING:
    from onceproof.engine import DataStream

WORDS = ("hello", "world", "hello", "flink", "hello")


class TemporaryFileSink(TwoPhaseCommitSinkFunction):
    """Writes each value as a line.

    Args:
        folder: the folder of the files; it is made if it does not exist.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder
        self._file: IO[str] | None = None

    def begin_transaction(self) -> str:
        """Open a temporary file."""
        name = f"{self.owner}-{self.subtask}-{self.epoch}-{self.attempt}"
        Path(self._folder).mkdir(parents=True, exist_ok=True)
        self._file = self._temporary(name).open("w", encoding="utf-8")
        return name

    def invoke_transaction(self, transaction: str, value: Any, context: Any) -> None:
        assert self._file is not None, "a value after the end of the input"
        self._file.write(f"{value}\n")

    def pre_commit(self, transaction: str) -> None:
        """Flush and close the file; from now on it outlives a crash."""
        assert self._file is not None, "a transaction that was not begun"
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None

    def commit(self, transaction: str) -> None:
        temporary = self._temporary(transaction)
        if temporary.exists():
            temporary.replace(Path(self._folder, transaction))

    def abort(self, transaction: str) -> None:
        """Delete the file, which may still be open."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._temporary(transaction).unlink(missing_ok=True)

    def abort_unknown(self, recovery: Recovery) -> None:
        """Delete the files of dead attempts that no checkpoint lists."""
        for path in Path(self._folder).glob(".*-*-*-*"):
            owner, subtask, epoch, attempt = path.name.removeprefix(".").rsplit("-", 3)
            if recovery.may_abort(int(subtask), int(epoch), attempt, owner):
                path.unlink(missing_ok=True)

    def _temporary(self, transaction: str) -> Path:
        return Path(self._folder, f".{transaction}")


def build(words: DataStream, folder: str) -> None:
    """End a stream in files."""
    words.add_sink(TemporaryFileSink(folder)).name("files").uid("files")


def lines_in(folder: str) -> list[str]:
    """Return the lines of all files that are visible."""
    files = sorted(path for path in Path(folder).iterdir() if not path.name.startswith("."))
    return [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def main(arguments: Sequence[str] = ()) -> None:
    """Write five words, into the folder that is named or a temporary one, and print what is there."""
    with TemporaryDirectory() as temporary:
        folder = arguments[0] if arguments else temporary
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        build(env.from_collection(WORDS, Types.STRING()), folder)
        env.execute("temporary files")
        for line in lines_in(folder):
            print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
