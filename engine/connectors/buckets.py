"""Buckets of the file sink: the folders below its base path that rows are distributed over.

The rules this module lives by:

- A bucket is a relative path of one or more plain names, such as ``2026-11-24--09`` or ``country=at/day=24``;
  the empty text is the base path itself. No name begins with ``.`` or ``_``: readers skip those.
- Assigners have no state: a restart asks again, and the answer may differ by then. That moves rows that were
  not committed to another bucket, and never repeats or loses one.
- The time of an assigner is the processing time of the task, never the clock of the machine.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.state.file_envelope import is_plain_name

HOURS: Final = "yyyy-MM-dd--HH"
LONGEST_BUCKET: Final = 1_000
"""In bytes; a path may have some thousands."""

_FIELDS: Final[dict[str, Callable[[datetime], str]]] = {
    "yyyy": lambda time: f"{time.year:04d}",
    "uuuu": lambda time: f"{time.year:04d}",
    "yy": lambda time: f"{time.year % 100:02d}",
    "MM": lambda time: f"{time.month:02d}",
    "M": lambda time: f"{time.month}",
    "dd": lambda time: f"{time.day:02d}",
    "d": lambda time: f"{time.day}",
    "DDD": lambda time: f"{time.timetuple().tm_yday:03d}",
    "HH": lambda time: f"{time.hour:02d}",
    "H": lambda time: f"{time.hour}",
    "mm": lambda time: f"{time.minute:02d}",
    "m": lambda time: f"{time.minute}",
    "ss": lambda time: f"{time.second:02d}",
    "s": lambda time: f"{time.second}",
    "SSS": lambda time: f"{time.microsecond // 1000:03d}",
}
"""The fields of Java's DateTimeFormatter that name folders; all are numbers."""
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z']+)")
_OFFSET: Final = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


class WrongBucket(UnrecoverableError, ValueError):
    """An assigner gives a bucket that cannot be a folder. The message is one line."""


def bucket_mistake(bucket: object) -> str | None:
    """Return what is wrong with a bucket; None if it is the base path or a path below it."""
    if not isinstance(bucket, str):
        return "is not text"
    if bucket == "":
        return None
    for name in bucket.split("/"):
        if not is_plain_name(name):
            return "is not a relative path of plain names"
        if name.startswith((".", "_")):
            return "has a name that begins with . or _, which readers skip"
    try:
        length = len(bucket.encode())
    except UnicodeEncodeError:
        return "has characters that no file name can have"
    return f"is longer than {LONGEST_BUCKET} bytes" if length > LONGEST_BUCKET else None


class BucketAssigner(ABC):
    """Decides into which bucket a row goes (PyFlink: BucketAssigner)."""

    depends_on_rows = True
    """False: the rows of one moment go into one bucket, and the sink asks once for many."""

    @abstractmethod
    def get_bucket_id(self, element: Any, context: Any) -> str:
        """Return the bucket of a row: a relative path, or the empty text for the base path.

        Args:
            element: the row.
            context: a SinkFunction.Context with the row's timestamp and the processing time.
        """

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Return the assigner that writes all files to the base path."""
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = HOURS, timezone_id: str | None = None
    ) -> DateTimeBucketAssigner:
        """Return an assigner by processing time; see DateTimeBucketAssigner."""
        return DateTimeBucketAssigner(format_str, timezone_id)


class BasePathBucketAssigner(BucketAssigner):
    """Writes all files to the base path (Flink: BasePathBucketAssigner)."""

    depends_on_rows = False

    def get_bucket_id(self, element: Any, context: Any) -> str:
        return ""


class DateTimeBucketAssigner(BucketAssigner):
    """Writes the rows of an hour, or another part of time, into one folder (Flink: DateTimeBucketAssigner).

    Args:
        format_str: the folder's name as a pattern of Java's DateTimeFormatter, made of ``yyyy``, ``MM``,
            ``dd``, ``HH`` and other numbers, text in single quotes, and signs.
        timezone_id: a name such as ``Europe/Vienna``, or an offset such as ``GMT-08:00``; None: that of the
            machine.

    Raises:
        ValueError: the pattern has another letter, or there is no such time zone.
    """

    depends_on_rows = False

    def __init__(self, format_str: str = HOURS, timezone_id: str | None = None) -> None:
        self._format = format_str
        self._timezone_id = timezone_id
        self._prepare()

    def __getstate__(self) -> tuple[str, str | None]:
        return self._format, self._timezone_id

    def __setstate__(self, state: tuple[str, str | None]) -> None:
        self._format, self._timezone_id = state
        self._prepare()

    def _prepare(self) -> None:
        self._zone = None if self._timezone_id is None else _zone_of(self._timezone_id)
        self._parts = _parts_of(self._format)
        mistake = bucket_mistake(self._bucket_at(0))
        if mistake is not None:
            raise ValueError(f"the pattern {self._format!r} gives a bucket that {mistake}")

    def get_bucket_id(self, element: Any, context: Any) -> str:
        return self._bucket_at(context.current_processing_time())

    def _bucket_at(self, time_ms: int) -> str:
        time = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)).astimezone(self._zone)
        return "".join([part if isinstance(part, str) else part(time) for part in self._parts])


def _parts_of(pattern: str) -> list[str | Callable[[datetime], str]]:
    """Split a pattern into texts and fields. Raises ValueError for what is neither."""
    parts: list[str | Callable[[datetime], str]] = []
    end = 0
    for match in _TOKEN.finditer(pattern):
        if match.start() != end:
            break
        end = match.end()
        quoted, letters, _, signs = match.groups()
        if letters is not None:
            if letters not in _FIELDS:
                raise ValueError(
                    f"{letters!r} in the pattern {pattern!r} is not a field that names a folder: write"
                    f" {', '.join(_FIELDS)}, or put text in single quotes"
                )
            parts.append(_FIELDS[letters])
        else:
            parts.append(signs if quoted is None else quoted.replace("''", "'") or "'")
    if end != len(pattern):
        raise ValueError(f"the pattern {pattern!r} has a quote that never closes")
    return parts


def _zone_of(timezone_id: str) -> tzinfo:
    """Return a time zone by its name or offset. Raises ValueError if there is none."""
    match = _OFFSET.fullmatch(timezone_id)
    if match is not None:
        hours, minutes = int(match[2]), int(match[3] or 0)
        if hours <= 18 and minutes < 60:
            offset = timedelta(hours=hours, minutes=minutes)
            return timezone(-offset if match[1] == "-" else offset)
    try:
        return ZoneInfo(timezone_id)
    except (LookupError, ValueError, OSError):
        raise ValueError(
            f"there is no time zone {timezone_id!r}: write a name such as 'Europe/Vienna', or an offset"
            " such as 'GMT-08:00'"
        ) from None
