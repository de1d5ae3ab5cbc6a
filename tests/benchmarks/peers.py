"""Our runtimes beside other engines: a keyed count, tumbling windows and a query of Nexmark, in one run.

The rules this module lives by:

- Every engine reads the same files of text, keeps its state on disk as it goes (every second, or by batches),
  and writes its rows to files whose rows survive a restart exactly once. Each run is a process of its own.
- What was written is read back before a figure is given (`peer_cases.py`).
- Bytewax and Flink are in environments of their own in the user's cache, which are made if need be. One that
  cannot be installed, or lacks its Java, is left out with one line that says so; the others are measured.
- Processor time is compared, that of Java and of all workers included, without their start; the time on the
  wall stands beside it. Engines take turns, round by round. The best round counts, since other work on the
  machine only adds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceproof.engine.extras import ExtraMissing, require
from onceproof.engine.runtime.java import JavaMissing, find_java
from onceproof.harness.model.exit_codes import UsageError
from onceproof.harness.reporting.report_builder import machine_text
from onceproof.harness.services.service import ServiceError
from onceproof.harness.systems.bytewax.system import PACKAGES as BYTEWAX
from onceproof.harness.systems.flink.home import PACKAGES as FLINK
from onceproof.harness.systems.kit.packages import python_with
from tests.benchmarks.local import WrongCount
from tests.benchmarks.measurement import Measurement
from tests.benchmarks.peer_cases import BATCHES, CASES, COUNT, check_output, write_input

RECORDS: Final = 500_000
ROUNDS: Final = 2
LONGEST_SECONDS: Final = 1_800.0

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
MODULES: Final = "tests.benchmarks"


def _ours(runtime: str) -> Callable[[], Sequence[str]]:
    return lambda: (sys.executable, "-m", f"{MODULES}.peer_engine", runtime)


def _on_spark() -> Sequence[str]:
    require("the benchmark peers", "spark")
    find_java(os.environ)
    return _ours("spark")()


def _bytewax() -> Sequence[str]:
    return python_with(BYTEWAX), str(HERE / "bytewax_peer.py")


def _flink(way: str) -> Callable[[], Sequence[str]]:
    def command() -> Sequence[str]:
        find_java(os.environ)
        return python_with(FLINK), str(HERE / "flink_peer.py"), way

    return command


def _structured() -> Sequence[str]:
    require("the benchmark peers", "spark")
    find_java(os.environ)
    return sys.executable, "-m", f"{MODULES}.spark_structured_peer"


ENGINES: Final[Mapping[str, Callable[[], Sequence[str]]]] = {
    "local": _ours("local"),
    "spark": _on_spark,
    "bytewax": _bytewax,
    "pyflink": _flink("thread"),
    "flink": _flink("java"),
    "structured_streaming": _structured,
}
"""By the name of an engine, its command: the program, and behind it what stands behind the folders."""
OURS: Final = ("local", "spark")
IN_BATCHES: Final = ("structured_streaming",)
"""The engines that read files in batches."""
ONLY: Final[Mapping[str, str]] = {"pyflink": COUNT}
"""By engine the one case that it runs: windows of event time did not end in PyFlink's thread mode."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """What a run takes."""

    cpu: float
    wall: float


def measure(
    records: int = RECORDS,
    rounds: int = ROUNDS,
    cases: Sequence[str] = tuple(CASES),
    engines: Sequence[str] = tuple(ENGINES),
) -> Measurement:
    """Return the records a second of each engine in each case, and how many times as many ours takes."""
    commands = _commands(engines)
    found = Measurement("peers", {"records": records}, {}, {}, machine_text())
    for case in cases:
        lines = CASES[case].lines(records)
        rows = CASES[case].rows(lines)
        able = {name: words for name, words in commands.items() if ONLY.get(name, case) == case}
        for name in commands.keys() - able.keys():
            print(f"bench peers: {name} is left out of {case}: it runs {ONLY[name]} only", file=sys.stderr)
        taken: dict[str, list[Seconds]] = {name: [] for name in able}
        for _ in range(rounds):
            for name, command in able.items():
                with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
                    write_input(lines, Path(folder, "input"), BATCHES if name in IN_BATCHES else 1)
                    taken[name].append(_run(name, command, case, Path(folder), records))
                    check_output(rows, Path(folder, "output"), f"{name}, {case}")
        _enter(found, case, records, taken)
    return found


def _commands(engines: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the commands of the engines that are there; say in one line each which are not."""
    commands: dict[str, Sequence[str]] = {}
    for name in engines:
        try:
            commands[name] = ENGINES[name]()
        except (ExtraMissing, JavaMissing, ServiceError) as error:
            print(f"bench peers: {name} is left out: {error}", file=sys.stderr)
    if not commands:
        raise UsageError("bench peers: no engine is installed")
    return commands


def _run(name: str, command: Sequence[str], case: str, folder: Path, records: int) -> Seconds:
    """Run a case on an engine."""
    places = [str(folder / place) for place in ("input", "output", "state")]
    # The options of our programs follow the module, those of the others the file.
    is_module = command[1] == "-m"
    size = 3 if is_module else 2
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} if is_module else None
    words = [*command[:size], case, *places, *command[size:], *([str(records)] if name in OURS else [])]
    return seconds_of(words, folder, environment, f"{name}, {case}")


def seconds_of(
    words: Sequence[str], folder: Path, environment: Mapping[str, str] | None, what: str
) -> Seconds:
    """Return what a program says of itself in its last line. Raises WrongCount where it fails."""
    try:
        ended = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=environment,
            timeout=LONGEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise WrongCount(f"{what}: it has not ended after {LONGEST_SECONDS:.0f} s") from None
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or ["it says nothing"]
        raise WrongCount(f"{what}: exit code {ended.returncode}: {said[-1]}")
    return Seconds(**json.loads(ended.stdout.strip().splitlines()[-1]))


def _enter(found: Measurement, case: str, records: int, taken: Mapping[str, Sequence[Seconds]]) -> None:
    """Enter the best round of each engine, and ours beside the others."""
    cpu = {name: min(each.cpu for each in rounds) for name, rounds in taken.items()}
    wall = {name: min(each.wall for each in rounds) for name, rounds in taken.items()}
    for name in taken:
        place = found.figures if name in OURS else found.floors
        place[f"{case}_{name}_records_per_second"] = round(records / cpu[name])
        place[f"{case}_{name}_wall_records_per_second"] = round(records / wall[name])
        if name not in OURS and "local" in taken:
            found.ratios[f"{case}_local_to_{name}"] = round(cpu[name] / cpu["local"], 2)
            found.ratios[f"{case}_local_to_{name}_wall"] = round(wall[name] / wall["local"], 2)
