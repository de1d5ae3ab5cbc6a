"""What the files of a job on Flink say: the log of its source, the metadata of checkpoints, part files.

The rules this module lives by:

- Nothing is read by Flink. The positions of splits and the names of part files stand in the metadata as text,
  because states are small enough to be stored there, and the source writes its positions as text.
- A split that neither a reader nor the enumerator has any more has been read: its subtask had finished.
- A part file whose name does not begin with a dot is visible; it is renamed once, and never changed.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote_plus

from onceproof.harness.model.history import Row
from onceproof.harness.systems.kit.growing_file import GrowingFile
from onceproof.harness.systems.process.job_specification import HIDDEN
from onceproof.harness.systems.process.visible_outputs import read_json_rows

METADATA: Final = "_metadata"
_MAGIC: Final = 0x4960672D
_SPLIT: Final = re.compile(rb"\[onceproof-(?:read|waiting) \d+ (\d+) \d+ ([^\]\s]*)\]")
_PART: Final = re.compile(rb"/(part-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+)")
_KEPT: Final = "chk-"
_NO_OFFSET: Final = b"\x80" + bytes(7)
_HIGHEST_OFFSET: Final = 1 << 31


class SourceEvent(NamedTuple):
    """One line of the source's log."""

    kind: str
    """A protocol point, or ``aborted``."""
    source: str
    subtask: int
    """-1: the enumerator, which runs in the JobManager."""
    attempt: int
    pid: int
    """The process of Flink that has logged it."""
    checkpoint: int
    """The checkpoint that it is about; of ``restored``: from which the reader begins. 0: none."""


class Metadata(NamedTuple):
    """What one checkpoint or savepoint holds."""

    checkpoint: int
    cut: dict[str, int]
    transactions: tuple[str, ...]
    """The part files that are visible once it is complete, or were before."""


class SourceLog:
    """Reads what sources have appended to their log since the last time."""

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path)

    def new_events(self) -> list[SourceEvent]:
        """Return the new lines; one that is not whole yet comes the next time."""
        try:
            lines = self._file.new_lines()
        except FileNotFoundError:
            return []
        return [SourceEvent(**json.loads(line)) for line in lines]


def read_metadata(content: bytes, lengths: Mapping[str, int]) -> Metadata | None:
    """Return what the metadata of a checkpoint say; None if they are not whole.

    Args:
        content: of the file ``_metadata``.
        lengths: by split, the number of its records.
    """
    if len(content) < 16:
        return None
    magic, _, checkpoint = struct.unpack_from(">iiq", content)
    if magic != _MAGIC:
        return None
    cut = dict(lengths)
    for offset, name in _SPLIT.findall(content):
        if name:
            # A table that is read twice has two positions.
            split = unquote_plus(name.decode())
            cut[split] = min(cut.get(split, int(offset)), int(offset))
    parts = {name.decode(): None for name in _PART.findall(content)}
    return Metadata(checkpoint, cut, tuple(parts))


def topics_cut(content: bytes, partitions: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return from the metadata of a checkpoint the next offset of each split of Kafka's source.

    ``partitions``: by topic, the splits that its partitions are. The source stores of a partition topic,
    number, next offset, and where it stops. One that was not begun has no offset yet.
    """
    cut = {split: 0 for splits in partitions.values() for split in splits}
    for topic, splits in partitions.items():
        name = len(topic).to_bytes(2) + topic.encode()
        for number, offset, stops_at in re.findall(
            b"(?s)" + re.escape(name) + b"(.{4})(.{8})(.{8})", content
        ):
            place, begun = int.from_bytes(number), int.from_bytes(offset, signed=True)
            if place < len(splits) and begun < _HIGHEST_OFFSET and _is_offset(stops_at):
                cut[splits[place]] = max(cut[splits[place]], begun)
    return cut


def _is_offset(stored: bytes) -> bool:
    """Return whether eight bytes are an offset, or say that there is none; other states have others there."""
    return stored == _NO_OFFSET or -4 < int.from_bytes(stored, signed=True) < _HIGHEST_OFFSET


class CheckpointFiles:
    """Finds the checkpoints of a job: those that are there, and those that Flink deletes at its end.

    Args:
        checkpoints: Flink's folder, with a folder for each start of the job.
        kept: where the source links the metadata of complete checkpoints.
        stops: Flink's folder of the savepoints with which jobs end; they commit as checkpoints do.
        lengths: by split, the number of its records.
        listed_in: returns the transactions beside part files that some metadata list.
    """

    def __init__(
        self,
        checkpoints: Path,
        kept: Path,
        stops: Path,
        lengths: Mapping[str, int],
        listed_in: Callable[[bytes], Sequence[str]] = lambda _: (),
    ) -> None:
        self._checkpoints = checkpoints
        self._kept = kept
        self._stops = stops
        self._lengths = lengths
        self._listed_in = listed_in
        self._known: set[int] = set()
        self._read_before: set[Path] = set()
        self._places: dict[int, Path] = {}
        """By id, the folder from which a job can go on."""

    def new_checkpoints(self) -> list[Metadata]:
        """Return the checkpoints that have become complete since the last time, in the order of their ids."""
        found = {}
        for path in [
            *self._kept.glob(f"{_KEPT}*"),
            *self._checkpoints.glob(f"*/{_KEPT}*/{METADATA}"),
            *self._stops.glob(f"*/{METADATA}"),
        ]:
            if path in self._read_before:
                continue
            metadata = self._read(path)
            if metadata is None:
                continue
            self._read_before.add(path)
            number = metadata.checkpoint
            if path.name == METADATA:
                self._places[number] = path.parent
            if number not in self._known:
                self._known.add(number)
                found[number] = metadata
        return [found[number] for number in sorted(found)]

    def place_of(self, checkpoint: int) -> Path | None:
        """Return the folder from which a job can go on; None if Flink has deleted it."""
        place = self._places.get(checkpoint)
        return None if place is None or not (place / METADATA).exists() else place

    def savepoint(self, folder: Path) -> Metadata | None:
        """Return the savepoint in a folder; None if it cannot be read."""
        return self._read(folder / METADATA)

    def _read(self, path: Path) -> Metadata | None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        metadata = read_metadata(content, self._lengths)
        if metadata is None:
            return None
        return metadata._replace(transactions=(*metadata.transactions, *self._listed_in(content)))


class FlinkPartFiles:
    """Finds the part files that have become visible, and those that have gone.

    Args:
        folder: that has them.
        row_of: makes a row of what a line holds.
    """

    def __init__(self, folder: Path, row_of: Callable[[Row], Row] = lambda line: line) -> None:
        self._folder, self._row_of = folder, row_of
        self._seen: set[str] = set()

    def changes(self) -> tuple[dict[str, list[Row]], list[str]]:
        """Return the rows of each new visible file, by name, and the names of those that are gone."""
        names = {path.name for path in self._folder.iterdir() if not path.name.startswith(HIDDEN)}
        new = {
            name: list(map(self._row_of, read_json_rows(self._folder / name)))
            for name in sorted(names - self._seen)
        }
        gone = sorted(self._seen - names)
        self._seen = names
        return new, gone
