"""The examination of a failure on a system that is not deterministic: few runs, and notes on the rest."""

from __future__ import annotations

from contextlib import closing
from itertools import count, islice
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario, Schedule, read_scenario
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.reporting.report_builder import build_report, failure_of, write_report
from onceproof.harness.shrinking.shrinker import MOST_RUNS
from onceproof.harness.systems.local.system import CAPABILITIES
from onceproof.harness.systems.simulation.simulated_system import DatabaseSystem
from onceproof.harness.trials.evidence import FOLDER
from onceproof.harness.trials.examination import VISIBLE_EVENTS_ONLY, examine, runs_of
from onceproof.harness.trials.failures import FailureCase, examine_failures
from onceproof.harness.trials.real_shrinking import MOST_RUNS as REAL_MOST_RUNS
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.trial import SIMULATED, run_scenario, scenario_of


class OneByOne:
    """The simulation as a system without determinism and schedules."""

    name = "local"
    capabilities = CAPABILITIES
    missing = SIMULATED.missing

    def __init__(self, fails: int = 1000) -> None:
        """After so many runs it loses nothing any more, since it runs no faults."""
        self.left = fails
        self.closed = 0

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """One run, without a trace."""
        self.left -= 1
        if self.left < 0:
            scenario = plain(scenario)
        return SIMULATED.run(family, replace(scenario, schedule=Schedule()))

    def close(self) -> None:
        """There is nothing to end."""
        self.closed += 1


def plain(scenario: Scenario) -> Scenario:
    """The scenario without what could go wrong."""
    return replace(scenario, faults=(), operations=())


@pytest.fixture
def result(forgetful: Path) -> RunResult:
    """A run in which a job forgot its totals."""
    family = load_family(str(forgetful))
    found = RunResult((family,), (str(forgetful),), 0, 1)
    drawn = (scenario_of(family, scenario_seed(0, family.name, number)) for number in count())
    # A stop with a savepoint loses the totals as well, without any fault.
    small = (
        scenario
        for scenario in drawn
        if scenario.record_count() < 20
        and not scenario.asked
        and [fault.kind in KILLS - {"kill_master"} for fault in scenario.faults] == [True]
    )
    for scenario in islice(small, 12):
        found.tally.add(run_scenario(family, scenario, OneByOne())[0])
    assert found.tally.failed
    return found


def cases_of(result: RunResult, system: OneByOne, folder: Path, shrink_runs: int = 40) -> list[FailureCase]:
    result.system = system
    return examine_failures(result, RunPlan((), out=folder, shrink_runs=shrink_runs))


def test_a_failure_is_shrunk_explained_and_drawn(result: RunResult, tmp_path: Path) -> None:
    system = OneByOne()
    # One whose search ended within its runs.
    case = next(each for each in cases_of(result, system, tmp_path) if each.takes is not None)
    assert case.repeated
    assert case.shrunk.after.records < case.shrunk.before.records
    assert case.shrunk.runs <= 40
    assert case.shrink.endswith("--system local")
    failure = failure_of(case)
    assert failure.trace is not None
    assert failure.trace.attempts
    assert any(row.mark != "equal" for row in failure.rows)
    assert VISIBLE_EVENTS_ONLY in failure.notes
    assert f"{case.shrunk.runs} runs on local" in failure.notes[0]
    page = write_report(build_report(result, [case]), tmp_path)
    text = page.read_text(encoding="utf-8")
    assert "Method and limits" in text
    assert "no arrows for records and messages" in text
    assert "No trace was recorded" not in text
    assert "schedule choice" not in text
    # Driver processes that were started for it are stopped.
    assert system.closed


def test_the_shrunk_and_the_original_scenario_are_written(result: RunResult, tmp_path: Path) -> None:
    case = cases_of(result, OneByOne(), tmp_path)[0]
    kept = [read_scenario(path) for path in sorted((tmp_path / FOLDER).iterdir())]
    assert len(kept) == 2 * len(result.tally.groups)
    assert case.scenario in kept
    assert case.original in kept


def test_a_failure_that_does_not_repeat_is_shown_by_its_violations(result: RunResult, tmp_path: Path) -> None:
    case = cases_of(result, OneByOne(fails=0), tmp_path)[0]
    assert not case.repeated
    assert case.shrunk.runs == 3
    assert case.explanation.sentence.startswith("Row (shop-")
    failure = failure_of(case)
    # The passing run is not shown instead of the failed one.
    assert (failure.rows, failure.story, failure.takes) == ((), (), "")
    assert failure.trace is None or not failure.trace.marks
    assert "did not fail again in 3 runs on local" in failure.notes[0]
    write_report(build_report(result, [case]), tmp_path)


def test_without_runs_to_shrink_in_the_original_is_explained(result: RunResult, tmp_path: Path) -> None:
    case = cases_of(result, OneByOne(), tmp_path, shrink_runs=0)[0]
    assert case.shrunk.runs == 1
    assert case.shrunk.after == case.shrunk.before
    assert case.explanation.cause
    assert case.takes is None
    assert any("--shrink-runs" in note for note in case.notes)


def test_a_failure_on_a_real_system_is_shrunk_only_where_that_is_asked_for() -> None:
    assert runs_of(SIMULATED, None) == MOST_RUNS
    assert runs_of(OneByOne(), None) == 0
    assert runs_of(OneByOne(), None, is_wanted=True) == REAL_MOST_RUNS
    for system in (SIMULATED, OneByOne()):
        assert runs_of(system, 7) == 7
        assert runs_of(system, 0, is_wanted=True) == 0


def test_examining_a_passing_scenario_returns_a_passing_trial(forgetful: Path) -> None:
    family = load_family(str(forgetful))
    scenario = plain(scenario_of(family, scenario_seed(0, family.name, 0)))
    for system in (SIMULATED, OneByOne()):
        examined = examine(system, family, scenario, None, 1000)
        assert not examined.repeated
        assert examined.trial is not None
        assert examined.trial.verdict.passed


def test_the_shrunk_scenario_holds_the_settings_of_its_system(forgetful: Path) -> None:
    family = load_family(str(forgetful))
    scenarios = [scenario_of(family, scenario_seed(0, family.name, number)) for number in range(12)]
    with closing(DatabaseSystem()) as system:
        # Of an even seed the other setting is what a scenario without a seed has, and is left out as idle.
        odd = [each for each in scenarios if each.seed % 2]
        failing = next(each for each in odd if not run_scenario(family, each, system)[0].passed)
        assert failing.state_backend is UNSET
        examined = examine(system, family, failing, None, 100)
        assert examined.repeated
        small = examined.shrunk.scenario
        assert (small.state_backend, small.incremental) == ("rocksdb", bool(failing.seed % 2))
        # So it fails on the plain simulation too.
        assert not run_scenario(family, small, SIMULATED)[0].passed
