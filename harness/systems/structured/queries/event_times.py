"""The times in the texts of a query's records, and the records that close its windows.

Rules:

- Times are dates, and numbers that are seconds, milliseconds or microseconds since 1970, wherever they are.
- A query with a watermark gets *closing records* behind all others, one in each batch, so far ahead that all
  windows, joins and timers of the others are over. No guarantee closes those of the closing records. The
  first one moves the watermark, and each further one lets one more stateful operator see it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, zip_longest
from typing import Final

from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.model.split_names import source_of

FIRST_TIME: Final = datetime(2026, 3, 2, 9, tzinfo=UTC)
FIRST_MS: Final = int(FIRST_TIME.timestamp() * 1000)
"""The time of the first record of a source that has no time of its own."""
MOST_CLOSING_RECORDS: Final = 4
FAR: Final = timedelta(days=1_000)
FAR_MS: Final = int(FAR.total_seconds() * 1000)
_DATE: Final = r"(20\d\d|19\d\d)-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?"
_EPOCH: Final = r"(?<![\w.-])(1\d{9}(\d{3}(\d{3})?)?)(?![\w.])"
_TIME: Final = re.compile(f"(?P<date>{_DATE})|(?P<epoch>{_EPOCH})")


def own_records(records: Mapping[str, Sequence[InputRecord]], source: str) -> list[InputRecord]:
    """Return the records of one of several sources, in the order in which its splits give them in turn."""
    own = [each for split, each in records.items() if source_of(split) == source]
    turns = [record for turn in zip_longest(*own) for record in turn]
    return [record for record in turns if record is not None]


def late_among(records: Sequence[InputRecord], delay_ms: int) -> list[int]:
    """Return the places of the records that are behind the latest one before them by more than a delay."""
    times = [time_of(str(text)) or time for time, text in records]
    latest = accumulate(times, max)
    return [
        place for place, (time, most) in enumerate(zip(times, latest, strict=True)) if most - time > delay_ms
    ]


def closing_records(records: Sequence[InputRecord], count: int) -> list[InputRecord]:
    """Return what closes the records of a source: its last one, far ahead."""
    if not records:
        return []
    time, text = max(records, key=lambda record: (time_of(str(record[1])) or record[0], record[0]))
    return [(time + FAR_MS + number, _TIME.sub(_ahead, str(text))) for number in range(count)]


def time_of(text: str) -> int | None:
    """Return the first time in a text, in milliseconds; None if there is none."""
    for found in _TIME.finditer(text):
        if found["epoch"]:
            return int(found["epoch"].ljust(13, "0")[:13])
        date = _read(found["date"])
        if date is not None:
            return int(date.timestamp() * 1000)
    return None


def _read(date: str) -> datetime | None:
    try:
        return datetime.fromisoformat(date).replace(tzinfo=UTC)
    except ValueError:
        return None


def _ahead(found: re.Match[str]) -> str:
    """Return a time in a text, far later and in the same format."""
    if found["epoch"]:
        return str(int(found["epoch"]) + int(FAR.total_seconds()) * 10 ** (len(found["epoch"]) - 10))
    date = found["date"]
    read = _read(date)
    return date if read is None else (read + FAR).strftime("%Y-%m-%d") + date[10:]
