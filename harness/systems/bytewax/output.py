"""The files of a flow's output, as sinks name them and readers read them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.systems.process.job_specification import HIDDEN

_EPOCH_FILE: Final = re.compile(r"part-\d+\.\d{6}")


def part_name(index: int) -> str:
    """Return the name of a partition of a sink."""
    return f"part-{index}"


def index_of(part: str) -> int:
    """Return the index in the name of a partition, or of a file of it."""
    return int(part.partition("-")[2].partition(".")[0])


def epoch_file(part: str, number: int) -> str:
    """Return the name of a file that holds the rows of one epoch."""
    return f"{part}.{number:06}"


def is_epoch_file(name: str) -> bool:
    """Return whether a file holds the rows of one epoch; else rows are appended to it."""
    return _EPOCH_FILE.fullmatch(name) is not None


def rows_in(path: Path, begin: int = 0) -> list[Row]:
    """Return the rows of a file behind its first ``begin`` bytes; a line that was cut short is none."""
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes()[begin:].rpartition(b"\n")
    return [as_tuple(msgspec.json.decode(line)) for line in whole.splitlines()]


def visible_rows(output: Path) -> dict[str, Counter[Row]]:
    """Return by file the rows that a reader of the output sees."""
    paths = [path for path in sorted(output.iterdir()) if not path.name.startswith(HIDDEN)]
    return {path.name: Counter(rows_in(path)) for path in paths}
