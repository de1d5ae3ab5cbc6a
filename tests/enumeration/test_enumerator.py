"""The units of an enumeration, their shares, and the output of the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials import examination
from tests.enumeration.__main__ import main
from tests.enumeration.enumerator import Enumerated, enumerate_faults
from tests.enumeration.units import Units
from tests.planted.catalogue import find_mutant

FIRST = 400
SHARE = 6448
"""Two units whose first fault strikes late, so that few second ones can follow it."""


@pytest.fixture(scope="module")
def units() -> Units:
    return Units([load_family("word_count")])


@pytest.fixture(scope="module")
def share() -> Enumerated:
    return enumerate_faults(["word_count"], workers=1, share=SHARE, first=FIRST)


def test_a_share_passes_and_is_the_same_on_two_workers(share: Enumerated) -> None:
    assert share.counts.failed == 0
    assert share.units == 2
    assert share.counts.pairs > 0
    again = enumerate_faults(["word_count"], workers=2, share=SHARE, first=FIRST + SHARE)
    assert again.workers == 2
    assert again.trace_hash() == share.trace_hash()
    assert again.jobs == share.jobs
    assert again.fired == share.fired


def test_the_first_unit_of_a_case_is_the_run_without_a_fault(units: Units) -> None:
    result = units.run(0)
    assert (result.singles, result.pairs, result.failed, result.fired) == (1, 0, 0, {})


def test_a_planted_bug_is_found_and_counted_by_its_signature(units: Units) -> None:
    number = 372
    assert not units.run(number).failed
    with find_mutant("pending-dropped-on-restore").applied() as reach:
        result = units.run(number)
    assert reach.times
    assert ("exactly_once", "lost") in {each.outcome.signature for each in result.failures}
    assert sum(each.count for each in result.failures) == result.failed


def test_the_command_prints_counts_and_hash(
    share: Enumerated, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ["--share", str(SHARE), "--first", str(FIRST), "-n", "1", "--out", str(tmp_path)]
    assert main([*options, "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    counts = share.counts
    assert document["trace_hash"] == share.trace_hash()
    assert (document["scenarios"], document["passed"], document["failed"]) == (counts.scenarios,) * 2 + (0,)
    assert document["families"] == {"word_count": {"scenarios": counts.scenarios, "failed": 0}}
    assert f"{counts.scenarios:,} scenarios on 17 schedules" in captured.err


def test_a_failure_is_shrunk_written_and_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(examination, "MOST_RUNS", 20)
    options = ["--share", str(2 * SHARE), "--first", str(FIRST), "-n", "1", "--out", str(tmp_path)]
    with find_mutant("pending-dropped-on-restore").applied():
        assert main(options) == 1
    output = capsys.readouterr().out
    assert "FAILED word_count: restore_anywhere, lost" in output
    assert [path.name for path in tmp_path.glob("failures/*.json")]
    assert "of two faults, 0 FAILED" not in output


def test_an_unknown_family_is_refused_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["word_cuont"]) == 4
    assert "did you mean word_count?" in capsys.readouterr().err
