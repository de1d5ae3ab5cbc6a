"""`onceproof campaign`: its trace hash, its report and its JUnit file equal those of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from onceproof.engine.runtime.java import JavaMissing
from onceproof.harness.checkers.outcome import from_line, hash_text, trace_number
from onceproof.harness.trials.output_files import OUTCOMES
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import run

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command


def test_missing_java_keeps_the_results_of_an_earlier_campaign(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def find_none(environment: object) -> None:
        raise JavaMissing("no Java 17 or later: run `make setup`, which provides one, or set JAVA_HOME")

    monkeypatch.setattr("onceproof.harness.commands.campaign.find_java", find_none)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / OUTCOMES).write_text("of the night before", encoding="utf-8")
    ended = onceproof("campaign", "word_count", "--scenarios", "10", "--out", "out")
    assert ended.code == 4
    assert ended.error == (
        "onceproof: no Java 17 or later: run `make setup`, which provides one, or set JAVA_HOME\n"
    )
    assert (tmp_path / "out" / OUTCOMES).read_text(encoding="utf-8") == "of the night before"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_campaign_and_run_give_the_same_trace_hash(onceproof: Command, tmp_path: Path, sales: Path) -> None:
    # The family is the one of the docs, so that its SQL is tested.
    out = tmp_path / "out"
    options = ["--scenarios", "40", "--seed", "7", "--out", str(out), "--json"]
    ended = onceproof("campaign", str(sales), *options, "--junit", str(tmp_path / "junit.xml"))
    assert ended.code == 0, ended.error
    document = json.loads(ended.out)
    same = run(RunPlan((str(sales),), scenarios=40, seed=7, workers=1))
    assert document["trace_hash"] == same.tally.trace_hash()
    assert (document["scenarios"], document["failed"]) == (40, 0)
    report = json.loads((out / "report.json").read_bytes())
    assert report["oracles"]["scenarios"] == 40
    assert "the oracles in Python and Spark SQL agree on 40 scenarios" in ended.error
    outcomes = [from_line(line) for line in (out / OUTCOMES).read_bytes().splitlines()]
    assert hash_text(sum(map(trace_number, outcomes))) == document["trace_hash"]
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [suite.attrib["name"] for suite in suites] == ["sales", "run"]
    assert "oracles agree" in [case.attrib["name"] for case in suites[1].findall("testcase")]
