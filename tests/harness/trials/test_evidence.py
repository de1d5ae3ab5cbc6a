"""Evidence that a worker keeps of a failure, which may not repeat when it is examined."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_answers import MissingPoints
from onceproof.harness.model.history import History
from onceproof.harness.model.run_record import RunRecord
from onceproof.harness.trials.pool import Batch, Start
from onceproof.harness.trials.worker import LoadedRun


class Stuck:
    """A real system on which no job ends; each run prints its number."""

    name = "stuck"
    capabilities: frozenset[Any] = frozenset()
    missing: Final[MissingPoints] = {}

    def __init__(self) -> None:
        self.runs = 0

    def refusal(self, family: object) -> str:
        return ""

    def run(self, family: object, scenario: object, trace: bool = False) -> History:
        self.runs += 1
        record = RunRecord()
        record.add_line(0.0, "worker", f"run {self.runs}")
        return History(record=record)


def test_the_first_failure_of_a_signature_is_kept(tmp_path: Path) -> None:
    family = load_family("word_count")
    run = LoadedRun(Start(0, ("word_count",), "stuck", out=str(tmp_path)), (family,), Stuck())
    assert len(run.run_batch(Batch(0, 2)).lines) == 2
    (timeline,) = tmp_path.glob("failures/word_count-*/timeline.txt")
    assert timeline.read_text() == "1970-01-01T00:00:00.000+00:00   worker prints: run 1\n"
    assert (timeline.parent / "scenario.json").is_file()


def test_a_run_without_a_folder_of_results_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    family = load_family("word_count")
    run = LoadedRun(Start(0, ("word_count",), "stuck"), (family,), Stuck())
    assert len(run.run_batch(Batch(0, 1)).lines) == 1
    assert list(tmp_path.iterdir()) == []
