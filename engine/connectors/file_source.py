"""Sources that read CSV and JSON lines files, with a split for each file or each byte range of a file.

The rules this module lives by:

- A split is a file or a byte range of it, whose records and positions are those of `file_reader.py`.
- A position knows the content that was read (`file_content.py`). If the file is another one, the option
  ``source.on-change`` decides. Positions of earlier versions know no content; they restore with a warning.
- Byte ranges need one record for each line. A CSV file with a quoted field that spans lines is refused when
  it is to be read by ranges; read whole, it is accepted.
- A malformed row is an error that names the file and the line. The line number is computed only then.
"""

from __future__ import annotations

import csv
import logging
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from onceproof.engine.connectors.file_content import (
    CheckedReader,
    UnreadableFile,
    is_packed,
    unreadable,
)
from onceproof.engine.connectors.file_reader import WHOLE, FileRange, FileReader
from onceproof.engine.connectors.formats import (
    CsvFormat,
    FileFormat,
    Format,
    JsonLinesFormat,
    MalformedRow,
    Schema,
)
from onceproof.engine.connectors.source import Source, SourceIdentity, SplitReader
from onceproof.engine.locations import folder_of_relative

__all__ = ["CsvSource", "JsonLinesSource", "MalformedRow"]

BLOCK_BYTES: Final = 1 << 16
"""The size of a block; its rows fit a processor's cache."""

_RANGE: Final = re.compile(r"(.*)@([0-9]{15})-([0-9]{15})(\+?)", re.DOTALL)

_logger = logging.getLogger(__name__)


class FormattedFileSource(Source):
    """Base of the sources that read files in a format, from their paths."""

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        file_format: FileFormat,
        bytes_per_split: int | None,
        block_bytes: int,
    ) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else paths
        self._paths = [os.fspath(path) for path in given]
        for path in self._paths:
            if self._paths.count(path) > 1:
                raise ValueError(f"file {path} is given twice: its records would be read twice")
        if bytes_per_split is not None and bytes_per_split < 1:
            raise ValueError(f"bytes_per_split is {bytes_per_split}: give at least 1, or leave it out")
        self._folder = folder_of_relative(self._paths)
        self._format = file_format
        self._bytes_per_split = bytes_per_split
        self._block_bytes = block_bytes
        self._has_warned = False

    def splits(self) -> Sequence[str]:
        """Return the paths, or ``path@begin-end`` for each byte range; the last one of a file ends in "+"."""
        splits: list[str] = []
        for path in self._paths:
            size = _size(self._place_of(path))
            packed = is_packed(path)
            step = self._bytes_per_split
            if step is None:
                splits.append(path)
                continue
            if packed:
                raise UnreadableFile(
                    f"file {path} is compressed, which byte ranges are not made of: leave out bytes_per_split"
                )
            self.check_ranges(self._place_of(path))
            for begin in range(0, max(size, 1), step):
                end = min(begin + step, size)
                splits.append(f"{path}@{begin:015d}-{end:015d}{'+' * (end == size)}")
        return splits

    def check_ranges(self, path: str) -> None:
        """Raise MalformedRow if the file cannot be read by byte ranges."""

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """Return a reader of one file or range; its first read opens the file.

        Raises:
            UnreadableFile: the source has no such split.
        """
        if split not in self._paths:
            match = _RANGE.fullmatch(split)
            if match is None or match[1] not in self._paths:
                raise UnreadableFile(
                    f"split {split!r} is not of this source, which reads {', '.join(self._paths)}:"
                    " restore with the files that the checkpoint was taken with"
                )
            return self._lines(match[1], FileRange(int(match[2]), int(match[3]), bool(match[4])), position)
        return self.open_file(split, position)

    def _place_of(self, path: str) -> str:
        """Return the absolute path of a file; splits and positions name it as it was given."""
        return os.path.join(self._folder, path)

    def open_file(self, path: str, position: Any | None, *, holds_back: bool = False) -> CheckedReader:
        """Return a reader of a whole file, from a position of an earlier reader on.

        ``holds_back``: a last line without an end is not read yet, because it may grow.
        """
        return self._lines(path, WHOLE, position, holds_back)

    def _lines(self, path: str, part: FileRange, position: Any, holds_back: bool = False) -> FileReader:
        assert isinstance(self._format, Format)
        self._warn_of_old(path, position)
        return FileReader(self._format, self._place_of(path), part, position, self._block_bytes, holds_back)

    def _warn_of_old(self, path: str, position: Any) -> None:
        """Warn, once, where a position of an earlier version does not know the content of its file."""
        if position is not None and len(position) < 3 and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "the position in file %s is of an earlier version, which did not note the content of files:"
                " whether this is the file that was read is checked from now on",
                path,
            )

    def identity(self) -> SourceIdentity:
        """Return the format and the paths as they were given: columns and byte ranges may change."""
        return SourceIdentity(f"{type(self._format).__name__} files {', '.join(sorted(self._paths))}")


class CsvSource(FormattedFileSource):
    """Reads CSV files as in RFC 4180; a value is a tuple of the columns in ``schema`` (ours).

    With a header, the schema may name some of the columns, in any order. In the columns ``nullable``, a field
    that is one of ``null_values`` is None. ``timestamp_column`` has the timestamp of a record in
    milliseconds. ``bytes_per_split`` makes a split for each range of that size; then no quoted field may span
    lines.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        schema: Schema,
        *,
        timestamp_column: str | None = None,
        delimiter: str = ",",
        header: bool = True,
        nullable: Iterable[str] = (),
        null_values: Iterable[str] = ("",),
        bytes_per_split: int | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        csv_format = CsvFormat(
            schema,
            timestamp_column=timestamp_column,
            delimiter=delimiter,
            header=header,
            nullable=tuple(nullable),
            null_values=tuple(null_values),
        )
        super().__init__(paths, csv_format, bytes_per_split, block_bytes)
        self._delimiter = delimiter
        self._checked: dict[str, tuple[int, int]] = {}

    def check_ranges(self, path: str) -> None:
        """Search for a quoted field that spans lines, once for each version of a file."""
        status = os.stat(path)
        key = (status.st_size, status.st_mtime_ns)
        if self._checked.get(path) == key:
            return
        with open(path, "rb") as file:
            has_quotes = any(b'"' in block for block in iter(lambda: file.read(1 << 20), b""))
        if has_quotes:
            with open(path, encoding="utf-8", errors="replace", newline="\n") as text:
                reader = csv.reader(text, delimiter=self._delimiter)
                for count, _ in enumerate(reader, 1):
                    if reader.line_num != count:
                        raise MalformedRow(
                            path,
                            count,
                            "a quoted field spans lines, so the file cannot be read by byte ranges:"
                            " leave out bytes_per_split",
                        )
        self._checked[path] = key


class JsonLinesSource(FormattedFileSource):
    """Reads files with one JSON document for each line (ours).

    With a schema, each document must be an object, and a value is the tuple of the fields in ``schema``;
    other fields are ignored, those in ``nullable`` may be null or missing. Without a schema, a value is the
    document.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        schema: Schema | None = None,
        *,
        timestamp_column: str | None = None,
        nullable: Iterable[str] = (),
        bytes_per_split: int | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        json_format = JsonLinesFormat(schema, timestamp_column=timestamp_column, nullable=tuple(nullable))
        super().__init__(paths, json_format, bytes_per_split, block_bytes)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise unreadable(path, error) from error
