"""The keyed count of `bench local` beside the same program of Bytewax, in the same run.

The rules this module lives by:

- Both count the same keys with a Python function, write every count to files whose rows survive a restart
  exactly once, and keep their state on disk every second. One process each.
- Bytewax is in an environment of its own, which `make peers` makes; its packages do not meet ours.
- CPU time is measured, that of all threads, and the time on the wall stands beside it. The two take turns,
  round by round. The best round counts, since other work on the machine only adds.
- What was written is read back before the figures are given: for every key the counts from one to the last,
  each once and in order.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from onceproof.harness.benchmarks.local import PoolSource, WrongCount, job_seconds
from onceproof.harness.benchmarks.measurement import Measurement
from onceproof.harness.model.exit_codes import UsageError
from onceproof.harness.reporting.report_builder import machine_text

RECORDS: Final = 2_000_000
KEYS: Final = (1_000, 100_000)
ROUNDS: Final = 3
BYTEWAX_PROGRAM: Final = Path(__file__).with_name("bytewax_count.py")
ENVIRONMENTS: Final = Path(sys.prefix, "peers")
"""Where `make peers` puts the environments of the peers, each named after its peer."""


def python_of(peer: str, environments: Path = ENVIRONMENTS) -> Path:
    """Return the Python of a peer's environment. Raises UsageError where there is none."""
    python = environments / peer / "bin" / "python"
    if not python.exists():
        raise UsageError(f"bench peers: there is no environment of {peer} in {environments}: run make peers")
    return python


def measure(records: int = RECORDS, keys: Sequence[int] = KEYS, rounds: int = ROUNDS) -> Measurement:
    """Return the records a second of the engine and of Bytewax, for each number of keys."""
    python = python_of("bytewax")
    figures: dict[str, float] = {"records": records}
    floors: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for number in keys:
        source = PoolSource(records, number)
        ours, theirs = [], []
        for _ in range(rounds):
            cpu_seconds, wall_seconds, _ = job_seconds(source)
            ours.append((cpu_seconds, wall_seconds))
            theirs.append(_bytewax_seconds(python, source))
        for kind, prefix in enumerate(("", "wall_")):
            name = f"{prefix}records_per_second_{number}_keys"
            best, other = (min(each[kind] for each in seconds) for seconds in (ours, theirs))
            figures[name] = round(records / best)
            floors[name] = round(records / other)
            ratios[name] = round(other / best, 2)
    return Measurement("peers", figures, floors, ratios, machine_text())


def _bytewax_seconds(python: Path, source: PoolSource) -> tuple[float, float]:
    """Return the CPU seconds of the dataflow, and those on the wall."""
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        pool, output, recovery = (Path(folder, name) for name in ("pool", "output", "recovery"))
        pool.write_text("\n".join([str(key) for key, _ in source.pool]))
        arguments = (BYTEWAX_PROGRAM, pool, source.records, output, recovery)
        command = [str(python), *map(str, arguments)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            said = ended.stderr.strip().splitlines() or ["it says nothing"]
            raise WrongCount(f"Bytewax ended with exit code {ended.returncode}: {said[-1]}")
        check_lines(output.iterdir(), source)
        seconds = json.loads(ended.stdout)
    return seconds["cpu"], seconds["wall"]


def check_lines(parts: Iterable[Path], source: PoolSource) -> None:
    """Raise WrongCount unless every key was counted from one to the last in one of the files."""
    seen: dict[int, int] = {}
    for part in parts:
        with part.open() as lines:
            for line in lines:
                key, count = map(int, line.split(","))
                if count != seen.get(key, 0) + 1:
                    raise WrongCount(f"{part.name}: key {key} counts {count} after {seen.get(key, 0)}")
                seen[key] = count
    if seen != source.counts():
        raise WrongCount(f"{sum(seen.values()):,} records counted, of {source.records:,}")
