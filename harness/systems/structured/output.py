"""Reads the output folder and the checkpoint location of a query, as a reader outside sees them.

The rules this module lives by:

- The output is a folder of files with one JSON row per line, an array or an object. Files and folders whose
  names begin with a dot or an underscore are hidden, as for Spark's own readers.
- If Spark's file sink has written the folder, its log lists the visible files of each batch. Spark compacts
  that log after ten batches; a scenario has fewer.
- A table is one file that the sink replaces as a whole.
- Rows are a multiset: moving the same rows to another file changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.harness.model.history import Row, as_tuple

TABLE: Final = "table.jsonl"
_SINK_LOG: Final = "_spark_metadata"
_HIDDEN: Final = (".", "_")


def visible_rows(output: Path) -> Counter[Row]:
    """Return all visible rows."""
    return Counter(row for rows in visible_batches(output).values() for row in rows)


def visible_batches(output: Path) -> dict[int | None, list[Row]]:
    """Return the visible rows by the batch that added them; the key None stands for an unknown batch."""
    log = output / _SINK_LOG
    if log.is_dir():
        return {batch: rows_in(files) for batch, files in _logged(log)}
    return {None: rows_in(_files(output))}


def rows_in(files: Iterable[Path]) -> list[Row]:
    """Return the rows in the files."""
    return [_row(msgspec.json.decode(line)) for file in files for line in file.read_bytes().splitlines()]


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(_HIDDEN):
            continue
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


def _logged(log: Path) -> Iterator[tuple[int, list[Path]]]:
    """Yield each batch in the log of the file sink, with the files that it added."""
    for batch, path in _entries(log):
        entries = [msgspec.json.decode(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]
        yield batch, [Path(entry["path"].removeprefix("file://")) for entry in entries]


def _row(value: Any) -> Row:
    return tuple(map(as_tuple, value.values() if isinstance(value, dict) else value))


def batch_ends(checkpoint: Path) -> dict[int, dict[str, int]]:
    """Return the planned batches of a query, each with the offset of every split at its end."""
    return {batch: _end_of(path) for batch, path in _entries(checkpoint / "offsets")}


def last_end(checkpoint: Path) -> dict[str, int]:
    """Return the end of the last planned batch; nothing where none is planned."""
    ends = batch_ends(checkpoint)
    return ends[max(ends)] if ends else {}


def finished_batches(checkpoint: Path) -> list[int]:
    """Return the batches in the commit log of a query."""
    return [batch for batch, _ in _entries(checkpoint / "commits")]


def _entries(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    return sorted((int(path.name), path) for path in folder.iterdir() if path.name.isdecimal())


def _end_of(path: Path) -> dict[str, int]:
    """Return the offsets of all sources, each in a line after the version and the settings."""
    end: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8").splitlines()[2:]:
        # A source that has not begun has a dash.
        end |= msgspec.json.decode(line) if line.startswith("{") else {}
    return end
