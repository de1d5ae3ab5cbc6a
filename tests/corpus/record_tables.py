"""Records what the programs of `tables` print on real Flink, and what its planner answers them.

    python -m tests.corpus.record_tables [NAME...]     # all, or some

It needs `onceproof flink install`. The tests need neither Flink nor Java: they read `tables.json.gz`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.engine.api.submission import submitted
from onceproof.engine.configuration import Configuration
from onceproof.engine.table.api.planning import use_planner
from onceproof.engine.table.planner.planner_process import Planner, PlanRequest
from onceproof.harness.scripts.pyflink_imports import pyflink_imports
from onceproof.harness.systems.flink.planner import find_planner

HERE: Final = Path(__file__).parent
PROGRAMS: Final = HERE / "tables"
RECORDED: Final = HERE / "tables.json.gz"
Recorded = dict[str, dict[str, Any]]


def recorded() -> Recorded:
    """Return by program its ``lines`` on Flink, and by digest of the request the planner's ``answers``."""
    return json.loads(gzip.decompress(RECORDED.read_bytes())) if RECORDED.exists() else {}


def digest(request: PlanRequest) -> str:
    """Return another text for another request."""
    return hashlib.sha256(msgspec.json.encode(request)).hexdigest()[:16]


@contextmanager
def answering(answers: Mapping[str, Any]) -> Iterator[None]:
    """Answer programs inside the block from what was recorded."""
    use_planner(lambda request: answers[digest(request)])
    try:
        yield
    finally:
        use_planner(None)


def printed(path: Path) -> list[str]:
    """Run a program on the engine, and return the lines that it prints."""
    said, arguments = StringIO(), sys.argv
    sys.argv = [str(path)]
    try:
        with (
            redirect_stdout(said),
            pyflink_imports(),
            submitted(Configuration(), lambda graph: None, str(path), Configuration()),
        ):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = arguments
    return said.getvalue().splitlines()


def main(names: list[str]) -> None:
    """Record programs."""
    home = find_planner()
    environment = {**os.environ, "JAVA_HOME": home.java_home}
    environment["PATH"] = f"{Path(home.python).parent}{os.pathsep}{environment['PATH']}"
    found = recorded()
    with Planner(home) as planner:
        for path in sorted(PROGRAMS.glob("*.py")):
            if names and path.stem not in names:
                continue
            answers: dict[str, Any] = {}

            def ask(request: PlanRequest, answers: dict[str, Any] = answers) -> dict[str, Any]:
                answers[digest(request)] = planner.plan(request)
                return answers[digest(request)]

            use_planner(ask)
            printed(path)
            command = [home.python, str(path)]
            ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            found[path.stem] = {"lines": ran.stdout.splitlines(), "answers": answers}
            RECORDED.write_bytes(gzip.compress(json.dumps(found, sort_keys=True).encode(), mtime=0))
            print(f"{path.stem}: {len(ran.stdout.splitlines())} lines, {len(answers)} answers")
    use_planner(None)


if __name__ == "__main__":
    main(sys.argv[1:])
