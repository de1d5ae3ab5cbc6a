"""`onceproof hunt`: its findings, its page, and how it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.commands import hunt as hunt_module
from onceproof.harness.commands.runs_cli import seconds_of
from onceproof.harness.trials.hunt_state import read_state
from onceproof.harness.trials.hunting import SIZE
from onceproof.reports.render import read

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command


def test_what_fails_is_shrunk_once_and_counted_when_the_hunt_goes_on(
    onceproof: Command, forgetful: Path
) -> None:
    # The first scenarios of this seed fail, for which there is time on any machine.
    options = ("hunt", str(forgetful), "--seed", "3", "--out", "out", "-n", "1", "--shrink-runs", "1")
    first = onceproof(*options, "--max-time", "1")
    assert first.code == 1
    assert "FAILED forgetful: " in first.out
    state = read_state(Path("out"))
    assert state is not None
    finding = state.findings[0]
    assert Path(finding.failure.replay.split()[2]).exists()
    # The time of the first session counts, and what it found is not shrunk again.
    after, sessions = state, 1
    while after.findings[0].count == finding.count:
        again = onceproof(*options, "--max-time", str(after.seconds + 0.3))
        assert again.code == 1
        assert "the hunt resumes: " in again.error
        read = read_state(Path("out"))
        assert read is not None
        after, sessions = read, sessions + 1
        assert after.sessions == sessions
    assert after.findings[0].first == finding.first


def test_hunt_whose_time_is_over_runs_nothing_more(onceproof: Command) -> None:
    options = ("hunt", "word_count", "--out", "out", "-n", "1", "--max-time", "0.3")
    assert onceproof(*options).code == 0
    before = read_state(Path("out"))
    ended = onceproof(*options, "--json")
    after = read_state(Path("out"))
    assert ended.code == 0
    assert before is not None
    assert after is not None
    assert [each.scenarios for each in after.families] == [each.scenarios for each in before.families]
    document = json.loads(ended.out)
    assert document["scenarios"] == after.families[0].scenarios
    assert document["findings"] == []
    assert document["trace_hash"] is None


def test_page_loads_itself_anew_only_while_the_hunt_goes_on(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = []
    write = hunt_module.write_report

    def watched(report: object, folder: Path, *rest: object, **more: object) -> Path:
        page = write(report, folder, *rest, **more)  # type: ignore[arg-type]
        pages.append(page.read_text(encoding="utf-8"))
        return page

    monkeypatch.setattr(hunt_module, "write_report", watched)
    monkeypatch.setattr(hunt_module, "PAGE_EACH_SECONDS", 0)
    onceproof("hunt", "word_count", "--out", "out", "-n", "1", "--max-time", "1")
    assert len(pages) >= 2
    assert all(len(page.encode()) < hunt_module.MOST_PAGE_BYTES for page in pages)
    assert 'http-equiv="refresh"' not in pages[-1]
    assert read(Path("out")).facts.scenarios > 0


def test_hunt_of_another_seed_or_other_families_is_refused(onceproof: Command) -> None:
    onceproof("hunt", "word_count", "--out", "out", "-n", "1", "--max-time", "0.1")
    ended = onceproof("hunt", "word_count", "--out", "out", "--seed", "7", "--max-time", "0.1")
    assert ended.code == 4
    assert "the seed of the hunt there: 0; now asked: 7" in ended.error
    ended = onceproof("hunt", "tickets", "--out", "out", "--max-time", "0.1")
    assert ended.code == 4
    assert "the families of the hunt there" in ended.error


def test_interrupted_hunt_keeps_what_has_ended(onceproof: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    takes = []
    take = hunt_module.Hunt.take

    def interrupted(self: hunt_module.Hunt, done: object) -> object:
        taken = take(self, done)  # type: ignore[arg-type]
        takes.append(taken)
        if len(takes) == 2:
            raise KeyboardInterrupt
        return taken

    monkeypatch.setattr(hunt_module.Hunt, "take", interrupted)
    ended = onceproof("hunt", "word_count", "--out", "out", "-n", "1")
    assert ended.code == 130
    assert "ended early: the same command resumes from here" in ended.out
    state = read_state(Path("out"))
    assert state is not None
    assert sum(each.scenarios for each in state.families) == 2 * SIZE


@pytest.mark.parametrize(
    ("text", "seconds"), [("8h", 28_800), ("30m", 1800), ("90", 90), ("1.5 min", 90), ("2d", 172_800)]
)
def test_durations_are_read_with_their_units(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


def test_what_is_no_duration_is_refused_in_a_line(onceproof: Command) -> None:
    ended = onceproof("hunt", "--max-time", "soon")
    assert ended.code == 4
    assert "'soon' is no duration: write 8h, 30m, or 90 for seconds" in ended.error


def test_family_that_the_simulation_cannot_run_is_refused_in_a_line(onceproof: Command) -> None:
    program = Path(__file__).parents[3] / "scenarios" / "programs" / "totals" / "totals.toml"
    ended = onceproof("hunt", str(program), "--out", "out")
    assert ended.code == 4
    line = f"{program}: a program runs on the system command, not on simulated: `onceproof run {program}`"
    assert ended.error == f"onceproof: {line}\n"
