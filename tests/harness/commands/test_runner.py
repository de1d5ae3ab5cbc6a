"""`run`: the same outcomes on any number of workers, and the recovery from dead workers."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from onceproof.harness.checkers.outcome import Outcome, from_line
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.seeds import Share, scenario_seed
from onceproof.harness.reporting.run_summary import exhausted_lines
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.output_files import OUTCOMES, OutputUnwritable
from onceproof.harness.trials.pool import Batch, Start, WorkerDied, WorkerPool
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult, interrupts_held, load_families, run, scenarios_of_share
from onceproof.harness.trials.tally import Tally

FAMILIES = ("word_count", "page_views")


def lines_of(folder: Path) -> list[Outcome]:
    return [from_line(line) for line in (folder / OUTCOMES).read_bytes().splitlines()]


def without_times(outcomes: list[Outcome]) -> list[dict[str, object]]:
    kept = [field for field in Outcome.__struct_fields__ if field not in ("milliseconds", "recovery_seconds")]
    return [{field: getattr(outcome, field) for field in kept} for outcome in outcomes]


@pytest.mark.parametrize("by_turns", [False, True])
def test_share_of_a_run_has_as_many_scenarios_as_are_announced(by_turns: bool) -> None:
    names = ("word_table", "visits_and_purchases")
    announced = []
    for first in range(2):
        plan = RunPlan(names, scenarios=6, share=Share(2, first), takes_all=by_turns, workers=1)
        expected = scenarios_of_share(load_families(names), plan)
        assert expected == run(plan).tally.scenarios
        announced.append(expected)
    # In a round the second family has one turn, or two.
    assert announced == ([3, 3] if by_turns else [4, 2])
    assert scenarios_of_share(load_families(names), replace(plan, scenarios=None)) is None


def test_number_of_workers_does_not_change_the_outcomes(tmp_path: Path) -> None:
    hashes = []
    for workers in (1, 2):
        result = run(RunPlan(FAMILIES, scenarios=50, seed=7, workers=workers), tmp_path / str(workers))
        assert result.tally.scenarios == 50
        assert result.tally.failed == 0
        hashes.append(result.tally.trace_hash())
    assert hashes[0] == hashes[1]
    assert without_times(lines_of(tmp_path / "1")) == without_times(lines_of(tmp_path / "2"))


def test_shorter_run_is_a_prefix_of_a_longer_one(tmp_path: Path) -> None:
    run(RunPlan(FAMILIES, scenarios=5, seed=3, workers=1), tmp_path / "short")
    run(RunPlan(FAMILIES, scenarios=12, seed=3, workers=1), tmp_path / "long")
    short, long = lines_of(tmp_path / "short"), lines_of(tmp_path / "long")
    assert without_times(short) == without_times(long[:5])
    assert [outcome.family for outcome in long[:4]] == ["word_count", "page_views"] * 2
    assert [outcome.seed for outcome in long[:4:2]] == [scenario_seed(3, "word_count", n) for n in (0, 1)]


def test_family_that_meets_nothing_new_ends_early(tmp_path: Path) -> None:
    names = ("word_count", "tickets")
    result = run(RunPlan(names, scenarios=600, until_exhausted=1, workers=1), tmp_path)
    assert set(result.exhausted) == set(names)
    for name, met in result.exhausted.items():
        assert met.scenarios == result.tally.families[name].scenarios < 300
        assert met.since_new == 1
    # Of each family they are the first of a run without the limit.
    lines = lines_of(tmp_path)
    for name in names:
        seeds = [outcome.seed for outcome in lines if outcome.family == name]
        assert seeds == [scenario_seed(0, name, number) for number in range(len(seeds))]
    (line, _) = exhausted_lines(result)
    assert line.startswith("tickets ended early, exhausted: its last 1 scenario met nothing new beside")


def test_family_with_more_turns_has_more_scenarios_only_in_a_run_of_all(tmp_path: Path) -> None:
    names = ("word_table", "full_join")
    counts = {}
    for by_turns in (False, True):
        result = run(RunPlan(names, scenarios=20, seed=3, workers=2, takes_all=by_turns))
        counts[by_turns] = [result.tally.families[name].scenarios for name in names]
    assert counts == {False: [10, 10], True: [4, 16]}


def test_family_from_a_file_runs_in_workers(tmp_path: Path, sales: Path) -> None:
    result = run(RunPlan((str(sales),), scenarios=16, workers=2))
    assert result.tally.families["sales"].scenarios == 16
    assert result.family("sales").name == "sales"
    assert result.asked_for("sales") == str(sales)


def test_output_of_a_family_does_not_disturb_the_worker_messages(
    sales: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = sales.read_text(encoding="utf-8")
    sales.write_text(
        text.replace("    rows = []", "    rows = []\n    print('so far so good')"), encoding="utf-8"
    )
    result = run(RunPlan((str(sales),), scenarios=8, workers=2))
    assert result.tally.scenarios == 8
    captured = capfd.readouterr()
    assert "so far so good" in captured.err


def deadly(sales: Path, times: int) -> Path:
    """Return a family that kills its worker process ``times`` times."""
    text = sales.read_text(encoding="utf-8")
    notes = sales.parent / "deaths"
    notes.mkdir()
    for number in range(times):
        (notes / str(number)).touch()
    killing = f"""
import os
import pathlib
import signal
import sys

_expected = expected


def expected(records, declared):
    here = "onceproof.harness.commands.cli" not in sys.modules and os.getppid() == {os.getpid()}
    if here and len(records) == 2:
        for note in pathlib.Path({str(notes)!r}).iterdir():
            try:
                note.unlink()
            except FileNotFoundError:
                # The other worker has taken it.
                continue
            os.kill(os.getpid(), signal.SIGKILL)
    return _expected(records, declared)
"""
    sales.write_text(text + killing, encoding="utf-8")
    return sales


def test_batch_of_a_dead_worker_runs_again(
    tmp_path: Path, sales: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = run(RunPlan((str(sales),), scenarios=64, workers=1)).tally.trace_hash()
    warnings: list[str] = []
    result = run(
        RunPlan((str(deadly(sales, 1)),), scenarios=64, workers=2), tmp_path / "out", warn=warnings.append
    )
    assert result.tally.trace_hash() == sound
    assert len(lines_of(tmp_path / "out")) == 64
    assert len(warnings) == 1
    assert warnings[0].startswith("a worker was killed by SIGKILL; scenarios ")


def test_a_scenario_that_kills_two_workers_fails_alone(tmp_path: Path, sales: Path) -> None:
    warnings: list[str] = []
    family = str(deadly(sales, 6))
    result = run(RunPlan((family,), scenarios=64, workers=2), tmp_path / "out", warn=warnings.append)
    assert result.tally.scenarios == len(lines_of(tmp_path / "out")) == 64
    # Another process may have sent the first signal, so the scenario is tried again.
    assert any("are run once more" in line for line in warnings)
    assert 1 <= result.tally.failed <= 3
    assert {signature for _, signature in result.tally.groups} == {("no_error", "its process died: SIGKILL")}


def test_worker_that_cannot_start_is_reported() -> None:
    pool = WorkerPool(1, Start(0, ("no_such_family",), "simulated"), lambda text: None)
    try:
        with pytest.raises(WorkerDied, match="a second worker ended with exit code 1"):
            list(pool.run(iter([Batch(0, 1)])))
    finally:
        pool.close(at_once=True)


def test_mistakes_are_reported_before_the_first_scenario(tmp_path: Path) -> None:
    with pytest.raises(FamilyError):
        run(RunPlan(("word_count", "wrod_count"), scenarios=5), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").touch()
    with pytest.raises(OutputUnwritable, match="cannot be written to"):
        run(RunPlan(("word_count",), scenarios=5), tmp_path / "file" / "out")


def test_progress_is_reported_after_each_batch() -> None:
    seen: list[int] = []

    def note(tally: Tally) -> None:
        seen.append(tally.scenarios)

    result = run(RunPlan(("word_count",), scenarios=20, workers=1), progress=note)
    assert isinstance(result, RunResult)
    assert seen == sorted(seen)
    assert seen[-1] == 20


def test_scenarios_of_a_real_system_are_reported_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SimulatedSystem.capabilities - {Capability.DETERMINISM}
    monkeypatch.setattr(SimulatedSystem, "capabilities", real)
    seen: list[int] = []
    run(
        RunPlan(("word_count",), scenarios=20, workers=1), progress=lambda tally: seen.append(tally.scenarios)
    )
    assert seen == [*range(1, 21)]


def test_an_interrupt_waits_until_the_lines_of_a_batch_are_written() -> None:
    reached: list[str] = []

    def interrupted() -> None:
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            reached.append("written")
        reached.append("later")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == ["written"]
