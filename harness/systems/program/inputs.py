"""What feeds a program on trial: files that grow, a topic of Kafka, a socket, or its standard input.

The rules this module lives by:

- The input outlives the program. A program that starts again finds files and topics as they were, and reads a
  socket or its standard input from the beginning: what it has done already it must know itself.
- A record is given when all of its line can be read.
"""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, TypeAlias

from onceproof.harness.model.program_file import LineFormat
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.services.service import LOOPBACK
from onceproof.harness.systems.process.kafka_clients import writer_settings
from onceproof.harness.systems.program.line_formats import SUFFIXES, line_of, values_of

Records: TypeAlias = Mapping[str, Sequence[InputRecord]]
_SECONDS_TO_DELIVER: Final = 30.0


class ProgramInput(ABC):
    """The input of one trial.

    Args:
        columns: the names of the columns of a record's value.
        form: of a line.
    """

    address: str
    """What ``{input}`` stands for."""

    def __init__(self, columns: Sequence[str], form: LineFormat) -> None:
        self._columns = columns
        self._form = form

    def line(self, record: InputRecord) -> bytes:
        """Return a record as a line with its end."""
        return line_of(record, self._columns, self._form).encode() + b"\n"

    @abstractmethod
    def give(self, split: str, record: InputRecord) -> None:
        """Give the next record of a split."""

    def all_given(self) -> None:
        """Called when no record follows."""

    def started(self, stdin: IO[bytes]) -> None:
        """Called with the standard input of each start of the program, which gets nothing by default."""
        with suppress(OSError):
            stdin.close()

    def close(self) -> None:
        """Free what it holds."""


class InputFiles(ProgramInput):
    """A file for each split, to which lines are appended."""

    def __init__(self, folder: Path, splits: Sequence[str], columns: Sequence[str], form: LineFormat) -> None:
        super().__init__(columns, form)
        folder.mkdir()
        self.address = str(folder)
        # Each file is there from the beginning: a program may look for its input once.
        self._files = {
            split: (folder / f"{split}{SUFFIXES[form]}").open("ab", buffering=0) for split in splits
        }

    def give(self, split: str, record: InputRecord) -> None:
        self._files[split].write(self.line(record))

    def close(self) -> None:
        for file in self._files.values():
            file.close()


class InputStream(ProgramInput):
    """Lines for readers that begin at the first line whenever they come; the splits take turns."""

    def __init__(self, columns: Sequence[str], form: LineFormat) -> None:
        super().__init__(columns, form)
        self._lines: list[bytes] = []
        self._is_whole = False
        self._is_closed = False
        self._changed = threading.Condition()

    def give(self, split: str, record: InputRecord) -> None:
        with self._changed:
            self._lines.append(self.line(record))
            self._changed.notify_all()

    def all_given(self) -> None:
        with self._changed:
            self._is_whole = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def send(self, write: Callable[[bytes], object], close: Callable[[], object]) -> None:
        """Write all lines, in a thread of its own, as they are given; then close."""
        threading.Thread(target=self._send, args=(write, close), daemon=True).start()

    def _send(self, write: Callable[[bytes], object], close: Callable[[], object]) -> None:
        number = 0
        # A reader that dies is no reason to end.
        with suppress(OSError, ValueError):
            while True:
                with self._changed:
                    while number == len(self._lines) and not self._is_whole and not self._is_closed:
                        self._changed.wait()
                    if number == len(self._lines) or self._is_closed:
                        break
                    line = self._lines[number]
                number += 1
                write(line)
        with suppress(OSError, ValueError):
            close()


class StandardInput(InputStream):
    """The standard input of each start of the program."""

    address = "-"

    def started(self, stdin: IO[bytes]) -> None:
        def write(line: bytes) -> None:
            stdin.write(line)
            stdin.flush()

        self.send(write, stdin.close)


class InputSocket(InputStream):
    """A port of the loopback interface, whose every connection gets all lines."""

    def __init__(self, columns: Sequence[str], form: LineFormat) -> None:
        super().__init__(columns, form)
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address = f"{LOOPBACK}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        super().close()
        with suppress(OSError):
            # Wakes up the thread that waits for a connection.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.send(connection.sendall, connection.close)


class InputTopic(ProgramInput):
    """A topic of Kafka whose partitions are the splits.

    Args:
        servers: of the broker, past the proxy of the program.
        topic: which exists, with a partition for each split.
        splits: in the order of the partitions.
        key: the column that is the key of a message; "": it has none.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        splits: Sequence[str],
        columns: Sequence[str],
        form: LineFormat,
        key: str,
    ) -> None:
        from confluent_kafka import Producer

        super().__init__(columns, form)
        self.address = topic
        self._partitions = {split: number for number, split in enumerate(splits)}
        self._key = key
        self._producer = Producer(writer_settings(servers))

    def give(self, split: str, record: InputRecord) -> None:
        key = str(values_of(record, self._columns)[self._key]).encode() if self._key else None
        line = self.line(record).removesuffix(b"\n")
        self._producer.produce(self.address, line, key=key, partition=self._partitions[split])
        self._producer.poll(0)

    def all_given(self) -> None:
        self._producer.flush(_SECONDS_TO_DELIVER)
