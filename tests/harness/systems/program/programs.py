"""Small programs for tests, each with its file in TOML."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.tolerance import within_tolerance
from onceproof.harness.checkers.verdict import Verdict, judge
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import History
from onceproof.harness.model.program_measures import Measured
from onceproof.harness.model.scenario import InputRecord, Scenario
from onceproof.harness.systems.program.system import CommandSystem
from onceproof.harness.trials.control_runs import learned

RECORDS: Mapping[str, Sequence[InputRecord]] = {"numbers": [(n, (n, "k0")) for n in range(6)]}
COPIES_LINES = """
    import sys, time
    given, written = open(sys.argv[1] + "/numbers.jsonl"), open(sys.argv[2] + "/rows.jsonl", "a")
    while True:
        line = given.readline()
        written.write(line)
        written.flush()
        time.sleep(0 if line else 0.005)
"""
"""Forgets at each start what it has done."""
REMEMBERS = """
    import os, sys, time
    given, written = open(sys.argv[1] + "/numbers.jsonl"), sys.argv[2] + "/rows.jsonl"
    if os.path.exists(written):
        for _ in open(written):
            given.readline()
    while True:
        line = given.readline()
        with open(written, "a") as rows:
            rows.write(line)
        time.sleep(0 if line else 0.005)
"""
"""Skips as many lines as it has written."""
MEASURED = Measured(
    ready_seconds=0.0,
    first_row_seconds=0.2,
    latency_seconds=0.02,
    pause_seconds=0.02,
    work_seconds=0.1,
    answer_work_seconds=0.1,
    stop_seconds=0.01,
    seconds=1.0,
    records=6,
    rows=6,
)
"""What a control run of such a program measures."""
FILES = '[input]\nkind = "files"\n[output]\nkind = "files"\n'


def program(folder: Path, text: str, ends: str = FILES, more: str = "", begin: str = "") -> Path:
    """Write a program in Python and its file; return that file.

    ``ends`` are its tables of input and output, ``more`` what follows on its command, ``begin`` what stands
    before all tables.
    """
    (folder / "program.py").write_text(textwrap.dedent(text), encoding="utf-8")
    words = '"{python}", "{here}/program.py", "{input}", "{output}"'
    (folder / "job.toml").write_text(
        f"{begin}\n[program]\ncommand = [{words}]\n{more}\n{ends}", encoding="utf-8"
    )
    return folder / "job.toml"


def scenario_of(path: Path, **changes: Any) -> Scenario:
    """Return a plain scenario of a program, without faults but for the given ones, of a few records."""
    family = load_family(str(path))
    plain = {"faults": (), "operations": (), "records": RECORDS, "restart_delay_ms": 0, "parallelism": 1}
    return replace(generate(family, 0), seed=None, **{**plain, **changes})


def measured(path: Path, system: CommandSystem, **changes: Any) -> None:
    """Let a control run measure a program on this machine, as busy as it is."""
    learned(system, load_family(str(path)), lambda seed: scenario_of(path, **changes))


def tried(path: Path, system: CommandSystem | None = None, **changes: Any) -> tuple[History, Verdict]:
    """Run a plain scenario of a program and judge it, without a control run: MEASURED stands for one."""
    family = load_family(str(path))
    scenario = scenario_of(path, **changes)
    system = system or CommandSystem()
    system.measured.setdefault(str(path), MEASURED)
    oracle = PythonOracle(family, scenario)
    history = within_tolerance(system.run(family, scenario), oracle)
    return history, judge(scenario, history, oracle)


def events_of(history: History, kind: str) -> list[Any]:
    """Return (subject, payload) of the events of a kind."""
    return [(subject, payload) for _, each, subject, payload in history.events if each == kind]
