"""Outputs that a reader of their format shows: a command, Parquet, objects, tables of Delta Lake and Iceberg.

The rules this module lives by:

- Each read is a whole snapshot. Files that a table does not name, such as those of a killed commit or ones
  that were compacted, are not rows.
- A reader takes its time, so it runs in a thread of its own, and rests twice as long as its last read took,
  up to some seconds. Its library is imported before the program starts.
- A read may fail while the program writes, and is tried again. One that still fails when the program is over
  is a mistake of the reader, reported in one line, and no verdict about the program.
"""

from __future__ import annotations

import io
import subprocess
import time
from abc import abstractmethod
from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

from onceproof.engine.extras import DELTA, ICEBERG, PARQUET, require
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.program_ends import Output
from onceproof.harness.model.program_file import filled
from onceproof.harness.systems.program.history import Left
from onceproof.harness.systems.program.line_formats import UNREADABLE, row_of, row_or_line_of
from onceproof.harness.systems.program.outputs import HALF_ROW, ProgramOutput, is_visible, visible_files
from onceproof.harness.systems.program.trial_end import TrialEnd
from onceproof.harness.systems.program.user_commands import CannotStart, how_it_failed, run_command

_PARQUET: Final = ".parquet"
_RESTS: Final = 2.0
"""How many times as long as a read the pause after it is."""
_LONGEST_REST_SECONDS: Final = 3.0
_LAST_TRIES: Final = 3
_SECONDS_BETWEEN_TRIES: Final = 0.2
_SECONDS_TO_READ: Final = 120.0


class ReaderFailed(Exception):
    """A read has failed; the message says why, in one line."""


class SnapshotOutput(ProgramOutput):
    """Rows that a reader finds, again and again, in a thread of its own."""

    def __init__(self, end: TrialEnd[Output]) -> None:
        end.folder.mkdir()
        self.address = str(end.folder)
        self.end = end
        self._thread = ThreadPoolExecutor(1)
        self._reading: Future[list[Row]] | None = None
        self._began = self._shown_from = time.monotonic()
        self._next_at = 0.0
        self._has_shown = False

    @abstractmethod
    def read(self) -> list[Row]:
        """Return the rows of one snapshot. Raises ReaderFailed; FamilyError if no later read can succeed."""

    def rows(self) -> list[Row] | None:
        now = time.monotonic()
        if self._reading is None:
            if now >= self._next_at:
                self._began = now
                self._reading = self._thread.submit(self.read)
            return None
        if not self._reading.done():
            return None
        reading, self._reading = self._reading, None
        self._next_at = now + min(_RESTS * (now - self._began), _LONGEST_REST_SECONDS)
        try:
            rows = reading.result()
        except ReaderFailed:
            if not self._has_shown:
                # As long as no read succeeds there is nothing to be seen.
                self._shown_from = self._began
            return None
        self._has_shown = True
        self._shown_from = self._began
        return rows

    def read_at(self) -> float:
        return self._shown_from

    def read_to_end(self) -> None:
        if self._reading is not None:
            with suppress(ReaderFailed):
                self._reading.result()
        for last in range(_LAST_TRIES):
            self._reading = self._thread.submit(self.read)
            try:
                self._reading.result()
                return
            except ReaderFailed as error:
                if last == _LAST_TRIES - 1:
                    raise FamilyError(f"{self.end.place}: {error}") from None
                time.sleep(_SECONDS_BETWEEN_TRIES)

    def close(self) -> None:
        self._thread.shutdown()


class CommandOutput(SnapshotOutput):
    """The rows that a command prints as lines of JSON."""

    def read(self) -> list[Row]:
        words = [filled(word, self.end.values) for word in self.end.file.command]
        place = f"{self.end.place}.command"
        try:
            done = run_command(words, self.end.folder, _SECONDS_TO_READ)
        except subprocess.TimeoutExpired:
            raise FamilyError(f"{place}: has not ended within {_SECONDS_TO_READ:.0f} s") from None
        except CannotStart as error:
            raise FamilyError(f"{place}: {error}") from None
        if done.returncode:
            raise ReaderFailed(f"command: {how_it_failed(done.returncode, done.stderr)}")
        read = row_of(self.end.columns, "json")
        rows: list[Row] = []
        for line in done.stdout.decode(errors="replace").splitlines():
            try:
                rows += [read(line)] if line.strip() else []
            except UNREADABLE as error:
                missing = f" without the column {error}" if isinstance(error, KeyError) else ""
                raise ReaderFailed(f"command: prints what is no row{missing}: {line[:80]}") from None
        return rows


class ListedOutput(SnapshotOutput):
    """The rows of listed files, of which the listing is the same before and after they are read."""

    def __init__(self, end: TrialEnd[Output]) -> None:
        super().__init__(end)
        self._known: dict[tuple[str, Hashable], list[Row]] = {}
        """By file, and what changes with its content, its rows."""
        self._half: list[str] = []

    @abstractmethod
    def listing(self) -> list[tuple[str, Hashable]]:
        """Return the names of all files below ``{output}``, each with what changes with its content."""

    @abstractmethod
    def rows_in(self, name: str) -> list[Row] | None:
        """Return the rows of a file; None if it is not whole."""

    def read(self) -> list[Row]:
        while True:
            files = self.listing()
            rows, half = [], []
            for file in files:
                if file not in self._known:
                    found = self.rows_in(file[0])
                    if found is None:
                        half.append(f"{file[0]}: no footer")
                        continue
                    self._known[file] = found
                rows += self._known[file]
            # A compaction that took place meanwhile would show rows of both sides of it.
            if files == self.listing():
                self._half = half
                return rows

    def left_behind(self, *, has_ended: bool) -> list[Left]:
        return [(HALF_ROW, place, True) for place in self._half]


class ParquetOutput(ListedOutput):
    """The rows of the Parquet files below a folder; a file without its footer is not there yet."""

    def __init__(self, end: TrialEnd[Output]) -> None:
        require(f"{end.place}.kind 'parquet'", PARQUET)
        import_module("pyarrow.parquet")
        super().__init__(end)

    def listing(self) -> list[tuple[str, Hashable]]:
        found: list[tuple[str, Hashable]] = []
        for path in visible_files(self.end.folder, self.end.file.pattern):
            with suppress(FileNotFoundError):
                if path.is_file():
                    about = path.stat()
                    name = str(path.relative_to(self.end.folder))
                    found.append((name, (about.st_size, about.st_mtime_ns)))
        return found

    def rows_in(self, name: str) -> list[Row] | None:
        return _rows_of_parquet(self.end.folder / name, self.end)


class ObjectsOutput(ListedOutput):
    """The rows of the objects below an address: lines, or Parquet where the name says so."""

    def __init__(self, end: TrialEnd[Output]) -> None:
        from onceproof.harness.systems.process.object_io import StoreReader

        super().__init__(end)
        assert end.objects is not None, "the trial has a place in the store"
        self._folder = end.folder.name
        self._below = f"{end.objects.prefix}/{self._folder}/"
        self.address = f"s3://{end.objects.bucket}/{self._below}".rstrip("/")
        self._store = StoreReader(end.objects)
        self._row_of = row_or_line_of(end.columns, end.file.format)

    def listing(self) -> list[tuple[str, Hashable]]:
        listed = self._store.ask(lambda: self._store.objects(self._folder))
        names = [(each.key.removeprefix(self._below), each.identity) for each in listed]
        return [each for each in sorted(names) if is_visible(each[0], self.end.file.pattern)]

    def rows_in(self, name: str) -> list[Row] | None:
        from botocore.exceptions import ClientError

        try:
            content = self._store.ask(lambda: self._store.content(f"{self._below}{name}"))
        except ClientError as error:
            # It was deleted since it was listed.
            raise _failed(error) from None
        if name.endswith(_PARQUET):
            require(f"{self.end.place}: {name}", PARQUET)
            return _rows_of_parquet(io.BytesIO(content), self.end)
        lines = content.decode(errors="replace").splitlines()
        return [self._row_of(line) for line in lines if line.strip()]


class DeltaOutput(SnapshotOutput):
    """The rows of the newest version of a table of Delta Lake."""

    def __init__(self, end: TrialEnd[Output]) -> None:
        require(f"{end.place}.kind 'delta'", DELTA)
        import_module("deltalake")
        super().__init__(end)

    def read(self) -> list[Row]:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            return _rows_of(DeltaTable(self.address).to_pyarrow_table(), self.end)
        except TableNotFoundError:
            # The program makes it.
            return []
        except (DeltaError, OSError) as error:
            raise _failed(error) from None


class IcebergOutput(SnapshotOutput):
    """The rows of the current snapshot of a table of Iceberg, by its catalog or by its newest metadata."""

    def __init__(self, end: TrialEnd[Output]) -> None:
        require(f"{end.place}.kind 'iceberg'", ICEBERG)
        import_module("pyiceberg.catalog")
        super().__init__(end)

    def read(self) -> list[Row]:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table = self._table()
            return [] if table is None else _rows_of(table.scan().to_arrow(), self.end)
        except NoSuchTableError:
            return []
        except FamilyError:
            raise
        except Exception as error:
            # A catalog raises what its client library does.
            raise _failed(error) from None

    def _table(self) -> Any:
        """Return the table; None if the folder has no metadata yet."""
        from pyiceberg.catalog import load_catalog
        from pyiceberg.table import StaticTable

        file = self.end.file
        if file.catalog:
            properties = {name: filled(text, self.end.values) for name, text in file.catalog.items()}
            # Tables in a database belong to the name of their catalog.
            name = properties.pop("name", "default")
            return load_catalog(name, **{"init_catalog_tables": "false", **properties}).load_table(file.table)
        metadata = self.end.folder / "metadata"
        hint = metadata / "version-hint.text"
        if hint.exists():
            return StaticTable.from_metadata(str(metadata / f"v{hint.read_text().strip()}.metadata.json"))
        found = sorted(metadata.glob("*.metadata.json"), key=_version)
        return StaticTable.from_metadata(str(found[-1])) if found else None


def _version(metadata: Path) -> int:
    """Return the version in the name of a file of metadata: 00003-UUID.metadata.json or v3.metadata.json."""
    digits = metadata.name.lstrip("v").partition("-")[0].partition(".")[0]
    return int(digits) if digits.isdecimal() else -1


def _rows_of(table: Any, end: TrialEnd[Output]) -> list[Row]:
    """Return the rows of a table of Arrow. Raises FamilyError if it lacks a column."""
    names = list(end.columns) or table.column_names
    for name in names:
        if name not in table.column_names:
            raise FamilyError(
                f"{end.place}.columns: the output has no column {name!r}; there are"
                f" {', '.join(table.column_names)}"
            )
    return [tuple([as_tuple(row[name]) for name in names]) for row in table.select(names).to_pylist()]


def _rows_of_parquet(file: Path | IO[bytes], end: TrialEnd[Output]) -> list[Row] | None:
    """Return the rows of a file of Parquet; None if it has no footer."""
    import pyarrow
    import pyarrow.parquet

    try:
        # `read_table` would add columns for folders named as NAME=VALUE.
        return _rows_of(pyarrow.parquet.ParquetFile(file).read(), end)
    except (pyarrow.ArrowInvalid, OSError):
        return None


def _failed(error: Exception) -> ReaderFailed:
    return ReaderFailed(" ".join(str(error).split()) or type(error).__name__)
