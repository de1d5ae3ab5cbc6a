"""Where the rows of a program appear: files, a topic, a table of PostgreSQL, its standard output.

The rules this module lives by:

- The harness reads what any reader could read: whole lines of files whose names are not hidden, committed
  messages, committed rows. It reads past the program's proxy, and waits while a server is away.
- Rows are in the order in which they stand there, file by file. With several outputs each row begins with the
  name of its output.
- A line without an end is not a row yet. If it is still there when all is over, a program that died has left
  it, and it is reported. So is a transaction that a program leaves open or prepared which ends by itself; of
  one that the harness ends, it is an entry of the timeline.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.history import Row, Stand, as_tuple
from onceproof.harness.model.program_ends import Output
from onceproof.harness.systems.process.kafka_clients import reader_settings
from onceproof.harness.systems.program.history import Left
from onceproof.harness.systems.program.line_formats import row_or_line_of
from onceproof.harness.systems.program.message_formats import message_row_of
from onceproof.harness.systems.program.trial_end import TrialEnd

if TYPE_CHECKING:
    from confluent_kafka import Consumer

HALF_ROW: Final = "line without an end"
OPEN_TRANSACTION: Final = "open transaction"
PREPARED_TRANSACTION: Final = "prepared transaction"
_PREPARED: Final = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid"
_HIDDEN: Final = (".", "_")
_MOST_MESSAGES: Final = 1000
_SECONDS_TO_LIST: Final = 30.0
_SECONDS_FOR_THE_REST: Final = 0.5
_SECONDS_TO_END: Final = 15.0
_SECONDS_BETWEEN_LOOKS: Final = 0.1


class ProgramOutput(ABC):
    """An output of one trial."""

    address: str
    """What ``{output}`` stands for."""

    @abstractmethod
    def rows(self) -> list[Row] | None:
        """Return all rows that can be read now, in order; None while the server that has them is away."""

    def read_at(self) -> float:
        """Return a monotonic time: what could be read before it, ``rows`` has shown."""
        return time.monotonic()

    def stand(self, look: int, count: int) -> Sequence[Stand]:
        """Return where each of the ``count`` rows of the last look stands, which had a number.

        By default a look is a snapshot, in which rows have no order.
        """
        return [(None, 2 * look - 1, 2 * look)] * count

    def read_to_end(self) -> None:
        """Read what a reader has not been shown yet, when the program is over."""

    def left_behind(self, *, has_ended: bool) -> list[Left]:
        """Return what is left when all is over; ``has_ended``: the program has ended by itself."""
        return []

    def file_of_start(self, start: int) -> Path | None:
        """Return the file that gets the standard output of a start, if that carries rows."""
        return None

    def close(self) -> None:
        """Free what it holds."""


class AllOutputs(ProgramOutput):
    """The outputs of one trial by name; one that stands alone adds nothing to its rows."""

    def __init__(self, outputs: Mapping[str, ProgramOutput]) -> None:
        self._outputs = outputs
        self._rows: dict[str, list[Row]] = {name: [] for name in outputs}

    def rows(self) -> list[Row] | None:
        looks = {name: each.rows() for name, each in self._outputs.items()}
        if len(looks) == 1:
            return next(iter(looks.values()))
        self._rows |= {
            name: [(name, *row) for row in rows] for name, rows in looks.items() if rows is not None
        }
        return [row for rows in self._rows.values() for row in rows]

    def stand(self, look: int, count: int) -> Sequence[Stand]:
        counts = {name: len(rows) for name, rows in self._rows.items()} if len(self._outputs) > 1 else {}
        return [
            stand
            for name, each in self._outputs.items()
            for stand in each.stand(look, counts.get(name, count))
        ]

    def read_at(self) -> float:
        return min(each.read_at() for each in self._outputs.values())

    def read_to_end(self) -> None:
        for each in self._outputs.values():
            each.read_to_end()

    def left_behind(self, *, has_ended: bool) -> list[Left]:
        return [left for each in self._outputs.values() for left in each.left_behind(has_ended=has_ended)]

    def file_of_start(self, start: int) -> Path | None:
        files = [each.file_of_start(start) for each in self._outputs.values()]
        return next((file for file in files if file is not None), None)


def visible_files(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files below a folder that match a pattern and are not hidden, sorted."""
    for path in sorted(folder.glob(pattern)):
        if not any(part.startswith(_HIDDEN) for part in path.relative_to(folder).parts):
            yield path


def is_visible(name: str, pattern: str) -> bool:
    """Return whether a name below an address matches a pattern, as a file's does, and is not hidden."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = [words.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern)]
    is_hidden = any(part.startswith(_HIDDEN) for part in name.split("/"))
    return not is_hidden and re.fullmatch("".join(parts), name) is not None


class OutputFiles(ProgramOutput):
    """The lines of the files below a folder that match a pattern."""

    def __init__(self, end: TrialEnd[Output]) -> None:
        end.folder.mkdir()
        self.address = str(end.folder)
        self._folder = end.folder
        self._pattern = end.file.pattern
        self._row_of = row_or_line_of(end.columns, end.file.format)
        self._half: list[str] = []
        self._places: list[str] = []

    def rows(self) -> list[Row]:
        rows: list[Row] = []
        self._half, self._places = [], []
        for path in visible_files(self._folder, self._pattern):
            # A file may be renamed or removed between the list and the read.
            with suppress(FileNotFoundError, IsADirectoryError):
                rows += self._rows_of(path)
            self._places += [str(path)] * (len(rows) - len(self._places))
        return rows

    def stand(self, look: int, count: int) -> Sequence[Stand]:
        # Files are read one after another: what this look has found may have been there since the last began.
        return [(place, 2 * look - 2, 2 * look + 1) for place in self._places]

    def left_behind(self, *, has_ended: bool) -> list[Left]:
        return [(HALF_ROW, place, True) for place in self._half]

    def _rows_of(self, path: Path) -> list[Row]:
        *lines, rest = path.read_bytes().split(b"\n")
        if rest:
            self._half.append(f"{path.relative_to(self._folder)}: {rest[:80].decode(errors='replace')}")
        return [
            self._row_of(line.decode(errors="replace").removesuffix("\r")) for line in lines if line.strip()
        ]


class StandardOutput(OutputFiles):
    """The lines that all starts of the program have printed, one start after another."""

    def __init__(self, end: TrialEnd[Output]) -> None:
        super().__init__(end)
        self.address = "-"

    def file_of_start(self, start: int) -> Path:
        return self._folder / f"{start:06}.txt"

    def stand(self, look: int, count: int) -> Sequence[Stand]:
        return [("", look, look)] * count


class OutputTopic(ProgramOutput):
    """The committed messages of a topic."""

    def __init__(self, end: TrialEnd[Output]) -> None:
        from confluent_kafka import Consumer, TopicPartition

        topic = self.address = end.topic
        self._row_of = message_row_of(end.file, end.columns, end.here, end.place)
        self._server = end.server
        self._rows: list[Row] = []
        self._partitions: list[str] = []
        self._consumer = Consumer(reader_settings(end.server, f"{topic}-harness"))
        partitions = self._consumer.list_topics(topic, timeout=_SECONDS_TO_LIST).topics[topic].partitions
        self._places = [TopicPartition(topic, number, 0) for number in partitions]
        self._consumer.assign(self._places)

    def rows(self) -> list[Row]:
        self._take(0)
        return self._rows

    def stand(self, look: int, count: int) -> Sequence[Stand]:
        # What one partition shows says nothing of when another one had its messages.
        return [(partition, 0, 0) for partition in self._partitions]

    def read_to_end(self) -> None:
        while self._take(_SECONDS_FOR_THE_REST):
            pass

    def left_behind(self, *, has_ended: bool) -> list[Left]:
        from confluent_kafka import Consumer, KafkaException

        committed = reader_settings(self._server, f"{self.address}-end")
        reader = Consumer({**committed, "isolation.level": "read_uncommitted"})
        # The broker writes down the end of a transaction a moment after the program has learned of it.
        deadline = time.monotonic() + (_SECONDS_TO_END if has_ended else 0.0)
        try:
            while True:
                left = list(self._open_transactions(reader))
                if not left or time.monotonic() > deadline:
                    return [(OPEN_TRANSACTION, where, has_ended) for where in left]
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        except KafkaException:
            # The broker is away, which says nothing of transactions.
            return []
        finally:
            reader.close()

    def close(self) -> None:
        self._consumer.close()

    def _open_transactions(self, reader: Consumer) -> Iterator[str]:
        """Yield where transactions are open, behind which a reader of committed messages sees nothing."""
        for place in self._places:
            stable, end = [
                each.get_watermark_offsets(place, timeout=_SECONDS_TO_LIST)[1]
                for each in (self._consumer, reader)
            ]
            if stable < end:
                yield f"in {place.topic}-{place.partition}, from offset {stable}"

    def _take(self, seconds: float) -> int:
        messages = self._consumer.consume(_MOST_MESSAGES, seconds)
        read = [message for message in messages if message.error() is None]
        self._rows += [self._row_of(_bytes_of(each.key()), _bytes_of(each.value())) for each in read]
        self._partitions += [str(message.partition()) for message in read]
        return len(messages)


def _bytes_of(part: str | bytes | None) -> bytes:
    return part.encode() if isinstance(part, str) else part or b""


class OutputTable(ProgramOutput):
    """The committed rows of a table of PostgreSQL."""

    def __init__(self, end: TrialEnd[Output]) -> None:
        from psycopg import sql

        table = self.address = end.file.table
        self._server = end.server
        self._place = f"{end.place}.table"
        named = sql.SQL(", ").join(map(sql.Identifier, end.columns)) if end.columns else sql.SQL("*")
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

    def left_behind(self, *, has_ended: bool) -> list[Left]:
        import psycopg

        try:
            with psycopg.connect(self._server, autocommit=True, connect_timeout=2) as connection:
                found = connection.execute(_PREPARED).fetchall()
        except psycopg.OperationalError:
            return []
        return [(PREPARED_TRANSACTION, name, has_ended) for (name,) in found]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
