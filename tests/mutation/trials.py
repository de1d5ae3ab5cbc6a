"""Tries edits of the engine: each in a copy of the tree, in a process of its own.

Rules:

- The checkout is never edited. A worker has one copy of it, in which it makes and undoes an edit at a time.
- An edited file has a new time, so no bytecode of the unedited file stands for it, and none is written.
- A process that ends without an outcome (a signal, the limit of processor time) is tried once more: what ends
  a process from outside catches no edit. One that ends so again is killed by the end of its process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.mutation.grammar import Edit

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("engine", "harness", "reports", "scenarios", "onceproof")
WAIT_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an edit; ``by`` is the property that it broke first, or how its process ended."""

    killed: bool
    by: str
    scenarios: int
    family: str

    def line(self, edit: Edit) -> dict[str, Any]:
        """Return what a machine reads of it."""
        named = ("path", "function", "kind", "before", "after", "nth")
        return {name: getattr(edit, name) for name in named} | asdict(self)


def copied_tree(folder: Path) -> Path:
    """Copy what the package consists of into a folder, links as links; return the copy."""
    for name in FOLDERS:
        shutil.copytree(
            ROOT / name,
            folder / name,
            symlinks=True,
            ignore=lambda path, names: ["out"] if Path(path).name == "reports" else [],
        )
    return folder


def tried(copy: Path, edit: Edit | None, seed: int, scenarios: int) -> Outcome:
    """Make an edit in a copy, run the scenarios until one fails, and undo it; None: there is no edit."""
    if edit is None:
        return _run(copy, seed, scenarios) or _ENDED
    file = copy / edit.path
    source, times = file.read_bytes(), file.stat()
    file.write_bytes(edit.applied_to(source))
    # An edit within the second in which the bytecode was made would not be seen.
    os.utime(file, (times.st_atime, times.st_mtime + 10))
    try:
        return _run(copy, seed, scenarios) or _run(copy, seed, scenarios) or _ENDED
    finally:
        file.write_bytes(source)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


_ENDED: Final = Outcome(killed=True, by="the end of its process", scenarios=0, family="")


def _run(copy: Path, seed: int, scenarios: int) -> Outcome | None:
    """Return the outcome of the scenarios in a copy; None if the process ended without one."""
    with TemporaryDirectory(dir=copy) as folder:
        command = [sys.executable, "-P", str(Path(__file__).with_name("one_edit.py")), str(copy)]
        try:
            ended = subprocess.run(
                [*command, str(seed), str(scenarios)],
                cwd=folder,
                env={**os.environ, "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=WAIT_SECONDS,
                check=False,
            )
            return Outcome(**json.loads(ended.stdout))
        except (ValueError, TypeError, subprocess.TimeoutExpired):
            return None


def try_all(edits: Sequence[Edit], seed: int, scenarios: int, workers: int) -> Iterator[tuple[Edit, Outcome]]:
    """Try edits, ``workers`` at a time; yield each with its outcome, in their order."""
    with TemporaryDirectory(prefix="onceproof-mutation-") as folder, ThreadPoolExecutor(workers) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            copies.put(copied_tree(Path(folder) / str(number)))

        def one(edit: Edit) -> Outcome:
            copy = copies.get()
            try:
                return tried(copy, edit, seed, scenarios)
            finally:
                copies.put(copy)

        yield from zip(edits, pool.map(one, edits), strict=True)
