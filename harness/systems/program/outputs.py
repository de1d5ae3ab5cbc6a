"""Where the rows of a program appear: files, a topic, a table of PostgreSQL, its standard output.

The rules this module lives by:

- The harness reads what any reader could read: whole lines of files whose names are not hidden, committed
  messages, committed rows. It reads past the program's proxy, and waits while a server is away.
- Rows are in the order in which they stand there, file by file.
- A line without an end is not a row yet. If it is still there when all is over, a program that died has left
  it, and it is reported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.history import Row, Stand, as_tuple
from onceproof.harness.systems.process.kafka_clients import reader_settings
from onceproof.harness.systems.program.line_formats import RowOf

_HIDDEN: Final = (".", "_")
_MOST_MESSAGES: Final = 1000
_SECONDS_TO_LIST: Final = 5.0
_SECONDS_FOR_THE_REST: Final = 0.5


class ProgramOutput(ABC):
    """The output of one trial."""

    address: str
    """What ``{output}`` stands for."""

    @abstractmethod
    def rows(self) -> list[Row] | None:
        """Return all rows that can be read now, in order; None while the server that has them is away."""

    def stand(self, look: int, count: int) -> Sequence[Stand]:
        """Return where each of the ``count`` rows of the last look stands, which had a number.

        By default a look is a snapshot, in which rows have no order.
        """
        return [(None, 2 * look - 1, 2 * look)] * count

    def read_to_end(self) -> None:
        """Read what a reader has not been shown yet, when the program is over."""

    def half_rows(self) -> list[str]:
        """Return the places of lines that have no end."""
        return []

    def close(self) -> None:
        """Free what it holds."""


class OutputFiles(ProgramOutput):
    """The lines of the files below a folder that match a pattern."""

    def __init__(self, folder: Path, pattern: str, row_of: RowOf) -> None:
        folder.mkdir()
        self.address = str(folder)
        self._folder = folder
        self._pattern = pattern
        self._row_of = row_of
        self._half: list[str] = []
        self._places: list[str] = []

    def rows(self) -> list[Row]:
        rows: list[Row] = []
        self._half, self._places = [], []
        for path in sorted(self._folder.glob(self._pattern)):
            parts = path.relative_to(self._folder).parts
            if any(part.startswith(_HIDDEN) for part in parts):
                continue
            # A file may be renamed or removed between the list and the read.
            with suppress(FileNotFoundError, IsADirectoryError):
                rows += self._rows_of(path)
            self._places += [str(path)] * (len(rows) - len(self._places))
        return rows

    def stand(self, look: int, count: int) -> Sequence[Stand]:
        # Files are read one after another: what this look has found may have been there since the last began.
        return [(place, 2 * look - 2, 2 * look + 1) for place in self._places]

    def half_rows(self) -> list[str]:
        return self._half

    def _rows_of(self, path: Path) -> list[Row]:
        *lines, rest = path.read_bytes().split(b"\n")
        if rest:
            self._half.append(f"{path.relative_to(self._folder)}: {rest[:80].decode(errors='replace')}")
        return [
            self._row_of(line.decode(errors="replace").removesuffix("\r")) for line in lines if line.strip()
        ]


class StandardOutput(ProgramOutput):
    """The lines that all starts of the program have printed, one start after another."""

    address = "-"

    def __init__(self, folder: Path, row_of: RowOf) -> None:
        self._files = OutputFiles(folder, "*", row_of)
        self._folder = folder

    def path(self, start: int) -> Path:
        """Return the file that gets the standard output of a start."""
        return self._folder / f"{start:06}.txt"

    def rows(self) -> list[Row]:
        return self._files.rows()

    def stand(self, look: int, count: int) -> Sequence[Stand]:
        return [("", look, look)] * count

    def half_rows(self) -> list[str]:
        return self._files.half_rows()


class OutputTopic(ProgramOutput):
    """The committed messages of a topic.

    Args:
        servers: of the broker, past the proxy of the program.
        topic: which exists.
        row_of: reads a message's value as a row.
    """

    def __init__(self, servers: str, topic: str, row_of: RowOf) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self.address = topic
        self._row_of = row_of
        self._rows: list[Row] = []
        self._partitions: list[str] = []
        self._consumer = Consumer(reader_settings(servers, f"{topic}-harness"))
        partitions = self._consumer.list_topics(topic, timeout=_SECONDS_TO_LIST).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])

    def rows(self) -> list[Row]:
        self._take(0)
        return self._rows

    def stand(self, look: int, count: int) -> Sequence[Stand]:
        # What one partition shows says nothing of when another one had its messages.
        return [(partition, 0, 0) for partition in self._partitions]

    def read_to_end(self) -> None:
        while self._take(_SECONDS_FOR_THE_REST):
            pass

    def close(self) -> None:
        self._consumer.close()

    def _take(self, seconds: float) -> int:
        messages = self._consumer.consume(_MOST_MESSAGES, seconds)
        read = [message for message in messages if message.error() is None]
        self._rows += [self._row_of((message.value() or b"").decode(errors="replace")) for message in read]
        self._partitions += [str(message.partition()) for message in read]
        return len(messages)


class OutputTable(ProgramOutput):
    """The committed rows of a table of PostgreSQL.

    Args:
        address: of the database, past the proxy of the program.
        table: its name, after that of its schema and a dot if it has one.
        columns: those that are compared; none: all.
        place: of the table in the file of the program, for errors.
    """

    def __init__(self, address: str, table: str, columns: Sequence[str], place: str) -> None:
        from psycopg import sql

        self.address = table
        self._server = address
        self._place = place
        named = sql.SQL(", ").join(map(sql.Identifier, columns)) if columns else sql.SQL("*")
        self._question = sql.SQL("SELECT {} FROM {}").format(named, sql.Identifier(*table.split(".")))
        self._connection: Any = None

    def rows(self) -> list[Row] | None:
        import psycopg

        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self._server, autocommit=True, connect_timeout=2)
            return [as_tuple(row) for row in self._connection.execute(self._question)]
        except psycopg.errors.UndefinedTable:
            # The program may make it.
            return []
        except psycopg.errors.UndefinedColumn as error:
            raise FamilyError(f"{self._place}: {error.diag.message_primary}") from None
        except psycopg.OperationalError:
            self._connection = None
            return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
