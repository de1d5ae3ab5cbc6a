"""The source of files and folders: those that are there, or for ever those that come (Flink: FileSource).

The rules this module lives by:

- A bounded source reads the files that are there when it is built, each file as one split.
- A monitoring source finds files while the job runs, and the engine asks for splits only once. So its splits
  are buckets: a file belongs to the bucket that a hash of its path names. There are as many buckets as the
  job has subtasks at its first start, and they stay when the job is restarted at another parallelism.
- Who owns a bucket lists the folders and reads the files of the bucket, one after another. The position holds
  the files that are read, those that are found and not read yet, and the offset in the first of these. So a
  file is read once, whichever subtask owns the bucket: the position is what Flink's enumerator stores as
  pathsAlreadyProcessed (ContinuousFileSplitEnumerator).
- Files that are found at once are read in the order of their times of change.
- A file must be whole when it appears: write it under a hidden name, or elsewhere in the file system, and
  move it. Names that begin with "." or "_" are hidden, those of folders as well (Flink: DefaultFileFilter).
- A file that has been read is never read again, also if it changes. It may be deleted once a later checkpoint
  is complete; before, a restart needs it.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

from onceproof.engine.connectors.bulk_files import BulkFileReader, BulkFormat
from onceproof.engine.connectors.file_source import BLOCK_BYTES, FormattedFileSource, unreadable
from onceproof.engine.connectors.formats import FileFormat
from onceproof.engine.connectors.source import SourceIdentity, SplitReader
from onceproof.engine.connectors.text_lines import StreamFormat
from onceproof.engine.durations import Duration, Time, milliseconds_of
from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError

_HIDDEN: Final = (".", "_")
_BUCKET: Final = re.compile(r"bucket ([0-9]+) of ([0-9]+)")
_HASH_BYTES: Final = 8


class WrongBucket(UnrecoverableError, ValueError):
    """A checkpoint lists a split that a monitoring source does not have. The message is one line."""


class FileSource(FormattedFileSource):
    """Reads files and folders, once or for ever (PyFlink: FileSource)."""

    def __init__(self, file_format: FileFormat, paths: Sequence[str], interval_ms: int | None) -> None:
        """Called by the builder.

        Args:
            file_format: the format of each file.
            paths: files and folders, which are read with all folders below them.
            interval_ms: how often to look for new files, in milliseconds; None: never.

        Raises:
            UnreadableFile: a path does not exist.
        """
        files = list_files(paths)
        super().__init__(files if interval_ms is None else paths, file_format, None, BLOCK_BYTES)
        self._given = tuple(paths)
        self._interval_ms = interval_ms
        self.is_bounded = interval_ms is None

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Return a builder of a source that reads records one after another.

        Args:
            stream_format: such as ``StreamFormat.text_line_format()``.
            paths: files and folders.

        Raises:
            TypeError: ``stream_format`` is another object.
            ValueError: there is no path.
        """
        if not isinstance(stream_format, StreamFormat):
            raise TypeError(
                f"for_record_stream_format takes a StreamFormat, not {stream_format!r}:"
                " such as StreamFormat.text_line_format()"
            )
        if not paths:
            raise ValueError("for_record_stream_format has no path: name the files or folders to read")
        return FileSourceBuilder(stream_format.file_format, [os.fspath(path) for path in paths])

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Return a builder of a source that reads files block by block.

        Args:
            bulk_format: such as ``ParquetColumnarRowInputFormat``.
            paths: files and folders.

        Raises:
            TypeError: ``bulk_format`` is another object.
            ValueError: there is no path.
        """
        if not isinstance(bulk_format, BulkFormat):
            raise TypeError(
                f"for_bulk_file_format takes a BulkFormat, not {bulk_format!r}:"
                " such as ParquetColumnarRowInputFormat"
            )
        if not paths:
            raise ValueError("for_bulk_file_format has no path: name the files or folders to read")
        return FileSourceBuilder(bulk_format, [os.fspath(path) for path in paths])

    def open_file(self, path: str, position: Any | None) -> SplitReader:
        """Return a reader of a whole file, from a position of an earlier reader on."""
        if isinstance(self._format, BulkFormat):
            return BulkFileReader(self._format, self._place_of(path), position)
        return super().open_file(path, position)

    def splits(self) -> Sequence[str]:
        """Return the files, or the one bucket of a job with one subtask."""
        return super().splits() if self._interval_ms is None else self.splits_for(1)

    def splits_for(self, parallelism: int) -> Sequence[str]:
        """Return the files, or a bucket for each subtask."""
        if self._interval_ms is None:
            return super().splits()
        return [f"bucket {number:05d} of {parallelism:05d}" for number in range(parallelism)]

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """Return a reader of a file or of a bucket.

        Raises:
            UnreadableFile: the source has no such file.
            WrongBucket: the source has no such bucket.
        """
        if self._interval_ms is None:
            return super().open_split(split, position)
        match = _BUCKET.fullmatch(split)
        if match is None:
            raise WrongBucket(
                f"split {split!r} is of a source that reads files once, and this one monitors its folders:"
                " restore with the source that the checkpoint was taken with"
            )
        number, buckets = int(match[1]), int(match[2])

        def find() -> list[str]:
            files = list_files(self._given, self._folder)
            return [path for path in files if bucket_of(path, buckets) == number]

        return BucketReader(find, self.open_file, self._interval_ms, position)

    def identity(self) -> SourceIdentity:
        """Return the format and the paths as they were given; how often it looks for files may change."""
        return SourceIdentity(f"{type(self._format).__name__} files {', '.join(sorted(self._given))}")


class FileSourceBuilder:
    """Builds a FileSource (PyFlink: FileSourceBuilder)."""

    def __init__(self, file_format: FileFormat, paths: Sequence[str]) -> None:
        self._format = file_format
        self._paths = paths
        self._interval_ms: int | None = None

    def monitor_continuously(self, discovery_interval: Duration | Time) -> FileSourceBuilder:
        """Read for ever the files that come.

        Args:
            discovery_interval: how often to look for new files.

        Raises:
            ValueError: the interval is not positive.
        """
        interval_ms = milliseconds_of(discovery_interval, "discovery interval")
        if interval_ms < 1:
            raise ValueError(f"discovery interval {interval_ms} ms must be positive")
        self._interval_ms = interval_ms
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there, then end: the default."""
        self._interval_ms = None
        return self

    def build(self) -> FileSource:
        """Return the source. Raises UnreadableFile if a path does not exist."""
        return FileSource(self._format, self._paths, self._interval_ms)


class BucketReader(SplitReader):
    """Reads the files of one bucket, and finds new ones while it has none to read."""

    def __init__(
        self,
        find: Callable[[], list[str]],
        open_file: Callable[[str, Any], SplitReader],
        interval_ms: int,
        position: Any | None,
    ) -> None:
        """Look for files with the first read.

        Args:
            find: returns the files of the bucket that exist now, the oldest first.
            open_file: returns a reader of a file at a position of it.
            interval_ms: how often to look.
            position: of an earlier reader; None: no file has been read.
        """
        done, left, at = ((), (), None) if position is None else position
        self._find = find
        self._open_file = open_file
        self._interval_ms = interval_ms
        self._done: list[str] = list(done)
        self._left = deque(left)
        self._known = {*done, *left}
        self._resume: Any = at
        self._reader: SplitReader | None = None
        self._next_look_ms = 0.0

    def read(self, limit: int) -> list[Record]:
        """Return records of one file."""
        while self._left or self._look():
            if self._reader is None:
                self._reader = self._open_file(self._left[0], self._resume)
            reader = self._reader
            records = reader.read(limit)
            if reader.exhausted:
                reader.close()
                self._reader = self._resume = None
                self._done.append(self._left.popleft())
            if records:
                return records
        return []

    def _look(self) -> bool:
        """Find new files if it is time to; return whether there are any."""
        now_ms = _now_ms()
        if now_ms < self._next_look_ms:
            return False
        self._next_look_ms = now_ms + self._interval_ms
        found = [path for path in self._find() if path not in self._known]
        self._left += found
        self._known.update(found)
        return bool(found)

    @property
    def position(self) -> Any:
        """The files read, the files found and not read, and the position in the first of these."""
        at = self._resume if self._reader is None else self._reader.position
        return list(self._done), list(self._left), at

    @property
    def exhausted(self) -> bool:
        """Whether no file will come: never known."""
        return False

    @property
    def retry_ms(self) -> int:
        """The time until the next look."""
        return max(1, int(self._next_look_ms - _now_ms()) + 1)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


def list_files(paths: Sequence[str], folder: str = "") -> list[str]:
    """Return the visible files at and below ``paths``, the oldest first. Raises UnreadableFile.

    Relative paths are in ``folder``, and what is below them is relative as well; "": the working folder.
    """
    found: dict[str, int] = {}
    for path in paths:
        place = os.path.join(folder, path)
        try:
            if os.path.isdir(place):
                for file, changed_ns in _files_below(place):
                    found[path + file[len(place) :]] = changed_ns
            else:
                found[path] = os.stat(place).st_mtime_ns
        except OSError as error:
            raise unreadable(place, error) from error
    return sorted(found, key=lambda path: (found[path], path))


def _files_below(folder: str) -> Iterator[tuple[str, int]]:
    """Yield each file with its time of change; what is deleted meanwhile is left out."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_HIDDEN):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    yield from _files_below(entry.path)
                elif entry.is_file():
                    yield entry.path, entry.stat().st_mtime_ns
            except FileNotFoundError:
                continue


def bucket_of(path: str, buckets: int) -> int:
    """Return the bucket of a file, the same in every process."""
    digest = sha256(os.fsencode(path)).digest()
    return int.from_bytes(digest[:_HASH_BYTES], "big") % buckets


def _now_ms() -> float:
    return time.monotonic() * 1000
