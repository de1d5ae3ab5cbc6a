"""The splits of a scenario as files, which the engine's source of files reads: an input that can change.

The rules this module lives by:

- A line is a record: ``[timestamp, value]`` as JSON, and all are of one length: an offset in a file is the
  beginning of a line in another one as well. The engine reads blocks of a few lines, so most reads happen
  when the file may have changed.
- What changes is what was read: a file is shortened to half of what a completed checkpoint covers, or other
  content takes its name, which differs from its first byte on. So a job that is restored from that checkpoint
  must notice; one that has the file open, and needs nothing of it again, may end with the right rows.
- The change is named by the file, which the job has to name when it reports it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from onceproof.engine.connectors.file_source import JsonLinesSource
from onceproof.harness.model.scenario import Fault, InputRecord

BLOCK_BYTES = 64


def write_files(folder: Path, records: Mapping[str, Sequence[InputRecord]]) -> dict[str, str]:
    """Write a file for each split into a folder. Return the paths by split."""
    paths = {}
    for number, (split, rows) in enumerate(records.items()):
        path = folder / f"input-{number}.jsonl"
        lines = [msgspec.json.encode(row) for row in rows]
        width = max(map(len, lines), default=0) + 1
        path.write_bytes(b"".join([line.ljust(width) + b"\n" for line in lines]))
        paths[split] = str(path)
    return paths


def source_of(paths: Mapping[str, str]) -> JsonLinesSource:
    """Return the engine's source of the files."""
    return JsonLinesSource(list(paths.values()), block_bytes=BLOCK_BYTES)


def change(path: str, read: int, fault: Fault) -> None:
    """Change a file of which a completed checkpoint covers ``read`` records, by the means of a fault."""
    file = Path(path)
    lines = file.read_bytes().splitlines(keepends=True)
    if fault.means == "replaced":
        replacement = file.with_suffix(".new")
        # A space moves to the front: with few lines, or equal ones, the order alone may be the same.
        replacement.write_bytes(b"".join([b" " + line[:-2] + b"\n" for line in reversed(lines)]))
        os.replace(replacement, file)
    else:
        os.truncate(file, sum(map(len, lines[: read // 2])))
