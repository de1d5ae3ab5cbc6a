"""Where recorded jobs write, and what of it must be there after a power cut.

The rules this module lives by:

- Part files: one that a reader could have seen is there and unchanged when the job has ended.
- Tables of SQLite: what a reader could have seen as committed is there at once, before the job goes on, for
  the target of an upsert sink may go back when rows are written again. Of a transaction whose commit no
  reader could have seen yet, all is there or nothing.
- SQLite reads a copy of the disk: to open a database may change its files.
"""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import msgspec

from onceproof.engine.connectors.source import Source
from onceproof.engine.connectors.upsert_fence import FENCE
from onceproof.harness.model.columns import column_types_of
from onceproof.harness.model.family import Family
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.systems.local.part_file_io import PartFileIO
from onceproof.harness.systems.process.database_io import TRANSACTIONS, Database, make_sink
from onceproof.harness.systems.process.file_io import LoggedCommits
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.sinks import SinkKind
from onceproof.harness.systems.volatile_disk import Image
from tests.harness.systems.disk.recorded_calls import Call, Replay

OUTPUT: Final = "results/rows"
"""Below the root. Storage and sink each make two folders; the syncs of the one do nothing for the other."""
LOG_PAGES: Final = 6
"""The pages of its log after which SQLite copies them into the database. By default it is 1,000, which no
small job writes."""
OF_THE_USER: Final = "notes"
"""The table that the user's database has before the job begins."""

Tables: TypeAlias = Mapping[str, Sequence[Row]]
"""The rows of each table by its name."""


class RecordedOutput(ABC):
    """The output of a recorded job."""

    @abstractmethod
    def seen(self, calls: Sequence[Call], replay: Replay) -> Any:
        """Return what readers could have seen when a replay has come to a cut."""

    @abstractmethod
    def lost_on(self, disk: Image, seen: Any) -> str | None:
        """Return what is wrong on a disk after the cut, before the job goes on; None if nothing is."""

    @abstractmethod
    def lost_at_end(self, root: Path, seen: Any) -> str | None:
        """Return what is wrong when the job has ended; None if nothing is."""

    @abstractmethod
    def rows(self, root: Path, output: str) -> Counter[Row]:
        """Return the rows that a reader sees in an output below the root."""


class PartFiles(RecordedOutput):
    """Part files in a folder."""

    def seen(self, calls: Sequence[Call], replay: Replay) -> dict[str, bytes]:
        return {
            path: content
            for path, content in replay.disk.live().items()
            if content is not None and path.startswith(f"{OUTPUT}/") and "/." not in path
        }

    def lost_on(self, disk: Image, seen: Any) -> str | None:
        return None

    def lost_at_end(self, root: Path, seen: Any) -> str | None:
        visible = _part_files(root, OUTPUT)
        for name, content in seen.items():
            if visible.get(name) != content:
                return f"{name} was visible before, and is gone or another file"
        return None

    def rows(self, root: Path, output: str) -> Counter[Row]:
        files = _part_files(root, output)
        return Counter(
            as_tuple(msgspec.json.decode(line)) for each in files.values() for line in each.splitlines()
        )


class DatabaseTables(RecordedOutput):
    """Tables of an SQLite database."""

    def seen(self, calls: Sequence[Call], replay: Replay) -> tuple[Tables, Tables]:
        """Return what readers saw, and what they would see if the last transaction was committed, too."""
        published = Replay(calls, replay.disk.root)
        published.run_to(replay.published)
        return _tables_on(published.disk.live()), _tables_on(replay.disk.live())

    def lost_on(self, disk: Image, seen: Any) -> str | None:
        try:
            tables = _tables_on(disk)
        except sqlite3.DatabaseError as error:
            return f"the database cannot be read: {error}"
        if tables in seen:
            return None
        committed, _ = seen
        for name, rows in committed.items():
            if (lost := Counter(rows) - Counter(tables.get(name, ()))) or name not in tables:
                return f"committed rows of table {name} are lost: {list(lost)[:3]}"
        return "a transaction is there in part"

    def lost_at_end(self, root: Path, seen: Any) -> str | None:
        committed, _ = seen
        if (
            OF_THE_USER in committed
            and tables_of(_database(root, OUTPUT))[OF_THE_USER] != committed[OF_THE_USER]
        ):
            return f"table {OF_THE_USER}, which the job does not know, has changed"
        return None

    def rows(self, root: Path, output: str) -> Counter[Row]:
        path = _database(root, output)
        database = Database(path)
        rows = Counter(row for name in database.visible() for row in database.rows(name) or ())
        for name, each in tables_of(path).items():
            if name not in (TRANSACTIONS, OF_THE_USER):
                rows.update(map(as_tuple, each))
        return rows


class DatabaseIO(PartFileIO):
    """The ``JobIO`` of a recorded job whose sinks write to an SQLite database."""

    def __init__(self, source: Source, root: Path, output: str, parallelism: int, family: Family) -> None:
        super().__init__(source, root / output, {}, parallelism)
        self._database = Database(_database(root, output), is_durable=True)
        self._columns = list(column_types_of(family.row_schema))

    def make_sink(self, kind: SinkKind, name: str, *, keys: int = 0) -> Any:
        """Return a sink into the database. Its log of commits is thrown away."""
        commits = LoggedCommits(EventLog(os.devnull), lambda task: None)
        return make_sink(kind, name, self._database, commits, self.parameters, self._columns, keys)


@contextmanager
def short_logs() -> Iterator[None]:
    """Let connections copy their write-ahead log into the database after ``LOG_PAGES`` pages."""
    connect = sqlite3.connect

    def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        return connection

    with replaced(sqlite3, "connect", connected):
        yield


def make_users_table(root: Path) -> None:
    """Make the database as its user had it before: with a rollback journal, and rows that are safe."""
    path = _database(root, OUTPUT)
    if OF_THE_USER in tables_of(path):
        return
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # In this mode of the journal a commit may be undone by a power cut unless it is EXTRA.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("BEGIN")
        connection.execute(f"CREATE TABLE {OF_THE_USER} (note)")
        connection.execute(f"INSERT INTO {OF_THE_USER} VALUES ('kept'), (zeroblob(6000))")
        connection.execute("COMMIT")


def tables_of(path: Path, *, syncs: bool = True) -> dict[str, list[Row]]:
    """Return all tables of a database but the fence, whose counts are no output.

    Raises sqlite3.DatabaseError if the database is damaged. What was left to do by a process that died,
    SQLite does first, with or without syncs.
    """
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA synchronous = {'FULL' if syncs else 'OFF'}")
        [found] = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {
            name: connection.execute('SELECT * FROM "' + name.replace('"', '""') + '"').fetchall()
            for (name,) in names
            if name != FENCE
        }


def _tables_on(disk: Image) -> dict[str, list[Row]]:
    name = _database(Path(), OUTPUT).name
    with TemporaryDirectory() as folder:
        for path, content in disk.items():
            if path.startswith(name) and content is not None:
                Path(folder, path).write_bytes(content)
        return tables_of(Path(folder, name), syncs=False)


def _database(root: Path, output: str) -> Path:
    """Return the path of the database that takes the place of a folder of part files."""
    return root / f"{Path(output).name}.db"


def _part_files(root: Path, output: str) -> dict[str, bytes]:
    """Return the visible part files in an output folder by their paths below the root."""
    return {
        f"{output}/{path.name}": path.read_bytes()
        for path in (root / output).glob("*")
        if not path.name.startswith(".")
    }
