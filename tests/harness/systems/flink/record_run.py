"""Records what is seen of one run on Flink: ``... -m tests.harness.systems.flink.record_run FAMILY SEED``.

It needs `onceproof flink install`. It writes the calls of `FlinkHistory`, beside this file;
tests build the history from it again, and judge it, where no Flink is installed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import to_json
from onceproof.harness.systems.flink import run as flink_run
from onceproof.harness.systems.flink.history import FlinkHistory
from onceproof.harness.systems.flink.system import FlinkSystem

RECORDED = Path(__file__).parent / "recorded_run.json"
NOTED = (
    "job_started",
    "job_stopped",
    "stop_asked",
    "stop_failed",
    "savepoint_completed",
    "fault_fired",
    "job_finished",
    "job_failed",
    "out_of_time",
    "leak",
    "look",
)
"""The methods of FlinkHistory by which a run says what happens."""


class RecordedHistory(FlinkHistory):
    """A history that notes each call that says something."""


_CALLS: list[tuple[str, Any]] = []


def _noting(name: str) -> Any:
    method = getattr(FlinkHistory, name)

    def noted(self: FlinkHistory, *arguments: Any) -> Any:
        if name != "look" or any(arguments):
            _CALLS.append((name, msgspec.to_builtins(arguments)))
        return method(self, *arguments)

    return noted


def main(family_name: str, seed: int) -> None:
    """Run the scenario of a seed, and write what was seen."""
    for name in NOTED:
        setattr(RecordedHistory, name, _noting(name))
    flink_run.FlinkHistory = RecordedHistory
    system = FlinkSystem()
    try:
        scenario = system.prepared(generate(load_family(family_name), seed))
        system.run(load_family(family_name), scenario)
    finally:
        system.close()
    recorded = {"scenario": json.loads(to_json(scenario)), "calls": _CALLS}
    RECORDED.write_text(json.dumps(recorded, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
