"""The source of files and folders: those that are there, or for ever those that come (Flink: FileSource).

The rules this module lives by:

- A bounded source reads the files that are there when it is built, each file as one split.
- A monitoring source finds files while the job runs, and the engine asks for splits only once. So its splits
  are buckets: a file belongs to the bucket that a hash of its first line names, so that it stays there when
  it grows or is renamed. There are as many buckets as the job has subtasks at its first start, and they stay
  when the job is restarted at another parallelism. In buckets of earlier versions the path names the bucket.
- Who owns a bucket lists the folders and reads the files of the bucket, one after another. The position holds
  the files that are read and those that are not read to their end, each with its content and the place in it
  (`known_files.py`). Flink's enumerator stores the paths alone (ContinuousFileSplitEnumerator).
- So a log is read once although it grows, is renamed and begun anew; a name with new content is a new file.
- A last line without an end waits until it has one, or until the file is older than the interval of looks.
- Files that are found at once are read in the order of their times of change.
- Names that begin with "." or "_" are hidden, those of folders as well (Flink: DefaultFileFilter). A file
  whose format has no lines must be whole when it appears: write it under a hidden name and move it.
- A file that was cut or replaced before it was read to its end is first looked for under other names. If it
  is not found, the option ``source.on-change`` decides; what is under its name now is a new file.
- A file may be deleted once a checkpoint that came after it was read is complete; before, a restart needs it.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from onceproof.engine.configuration.options import FAIL
from onceproof.engine.connectors.bulk_files import BulkFileReader, BulkFormat
from onceproof.engine.connectors.file_content import ChangedFile, CheckedReader, UnreadableFile
from onceproof.engine.connectors.file_source import BLOCK_BYTES, FormattedFileSource
from onceproof.engine.connectors.formats import FileFormat, Format
from onceproof.engine.connectors.known_files import Bucket, KnownFile, KnownFiles, SeenFile, listing_of
from onceproof.engine.connectors.source import SourceIdentity, SplitReader
from onceproof.engine.connectors.text_lines import StreamFormat
from onceproof.engine.durations import Duration, Time, milliseconds_of
from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError

_BUCKET: Final = re.compile(r"bucket ([0-9]+) of ([0-9]+)( by content)?")
_MOST_LOSSES: Final = 2
"""How often a file is looked for, and not found, while nothing is renamed."""
_MOST_LOOKS: Final = 1000


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
        self._single_files = frozenset(path for path in paths if not os.path.isdir(path))
        self._seen: dict[tuple[int, int], SeenFile] = {}
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

    def open_file(self, path: str, position: Any | None, *, holds_back: bool = False) -> CheckedReader:
        """Return a reader of a whole file, from a position of an earlier reader on."""
        if isinstance(self._format, BulkFormat):
            self._warn_of_old(path, position)
            return BulkFileReader(self._format, self._place_of(path), position)
        return super().open_file(path, position, holds_back=holds_back)

    def splits(self) -> Sequence[str]:
        """Return the files, or the one bucket of a job with one subtask."""
        return super().splits() if self._interval_ms is None else self.splits_for(1)

    def splits_for(self, parallelism: int) -> Sequence[str]:
        """Return the files, or a bucket for each subtask."""
        if self._interval_ms is None:
            return super().splits()
        return [f"bucket {number:05d} of {parallelism:05d} by content" for number in range(parallelism)]

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
        number, buckets, by_content = int(match[1]), int(match[2]), bool(match[3])
        if position is not None:
            for stored in (*position[0], *position[1]):
                if isinstance(stored, str):
                    self._warn_of_old(stored, ())
        head_lines = self._format.header_lines if isinstance(self._format, Format) else None
        bucket = Bucket(
            self._given,
            self._single_files,
            number,
            buckets,
            by_content,
            head_lines,
            self._seen,
            self._folder,
        )
        return BucketReader(bucket, self.open_file, self._interval_ms, position)

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


class BucketReader(CheckedReader):
    """Reads the files of one bucket, and finds new ones while it has none to read."""

    def __init__(
        self,
        bucket: Bucket,
        open_file: Callable[..., CheckedReader],
        interval_ms: int,
        position: Any | None,
    ) -> None:
        """Look for files with the first read.

        Args:
            bucket: lists the files.
            open_file: returns a reader of a file at a position of it.
            interval_ms: how often to look.
            position: of an earlier reader; None: no file has been read.
        """
        super().__init__()
        done, left, at = ((), (), None) if position is None else position
        self._open_file = open_file
        self._interval_ms = interval_ms
        self._done = [KnownFile.restored(stored, True) for stored in done]
        self._left = deque([KnownFile.restored(stored, False) for stored in left])
        if at is not None:
            # Of an earlier version.
            self._left[0].position = at
        self._known = KnownFiles(bucket, interval_ms, [*self._done, *self._left])
        self._reader: CheckedReader | None = None
        self._losses = 0
        self._next_look_ms = 0.0

    def read(self, limit: int) -> list[Record]:
        """Return records of one file."""
        while self._left or self._look():
            known = self._left[0]
            try:
                records = self._read_file(known, limit)
            except UnreadableFile as error:
                self._miss(known, error)
                continue
            if records:
                self._losses = 0
                return records
        return []

    def _read_file(self, known: KnownFile, limit: int) -> list[Record]:
        """Return records of a file; at its end, none is left to read of it."""
        reader = self._reader
        if reader is None:
            young = known.stamp is not None and self._known.is_young(known.stamp, time.time_ns())
            known.tried = known.stamp, young
            reader = self._reader = self._open_file(known.path, known.position, holds_back=young)
            if known.position is None:
                reader.expect(known.mark)
        records = reader.read(limit)
        if reader.exhausted:
            self._close()
            self._end_first()
        return records

    def _end_first(self) -> None:
        known = self._left.popleft()
        known.is_read = True
        self._done.append(known)
        self._losses = 0

    def _miss(self, known: KnownFile, error: UnreadableFile) -> None:
        """Look for a file that is not under its name any more, or give it up.

        Raises UnreadableFile if it cannot be found.
        """
        self._close()
        for _ in range(_MOST_LOOKS):
            # While files are being renamed, a listing may lack some, and each name be another file by now.
            settled = self._known.is_settled()
            self._find()
            self._losses += settled and self._known.is_settled()
            if self._losses > _MOST_LOSSES:
                break
            if known.is_placed:
                return
        if not isinstance(error, ChangedFile):
            if self._reaction == FAIL or not isinstance(error.__cause__, FileNotFoundError):
                raise error
            error = ChangedFile(known.path, known.end, "it is gone")
        # New content under the name is a new file, which is read from its beginning.
        self.begins_again(error)
        self._end_first()

    def _look(self) -> bool:
        """Find new files if it is time to; return whether there are any."""
        now_ms = _now_ms()
        if now_ms < self._next_look_ms:
            return False
        self._next_look_ms = now_ms + self._interval_ms
        self._find()
        return bool(self._left)

    def _find(self) -> None:
        found = self._known.look(time.time_ns())
        waiting = set(self._left)
        new = [known for known in found if known not in waiting]
        if new:
            self._left += new
            waiting.update(new)
            for known in new:
                known.is_read = False
            self._done = [known for known in self._done if known not in waiting]

    @property
    def position(self) -> Any:
        """The files read, and those found and not read to their end; each with its content."""
        if self._reader is not None:
            self._left[0].position = self._reader.position
        return [known.stored() for known in self._done], [known.stored() for known in self._left], None

    @property
    def exhausted(self) -> bool:
        """Whether no file will come: never known."""
        return False

    @property
    def retry_ms(self) -> int:
        """The time until the next look."""
        return max(1, int(self._next_look_ms - _now_ms()) + 1)

    def close(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._reader is not None:
            self._left[0].position = self._reader.position
            self._reader.close()
            self._reader = None


def list_files(paths: Sequence[str]) -> list[str]:
    """Return the visible files at and below ``paths``, the oldest first. Raises UnreadableFile."""
    return list(listing_of(paths))


def _now_ms() -> float:
    return time.monotonic() * 1000
