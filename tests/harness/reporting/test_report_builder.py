"""Reports built from the results of a run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from onceproof.harness.checkers import PROPERTIES
from onceproof.harness.checkers.coverage import CAMPAIGN
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_kinds import POINTS
from onceproof.harness.model.faults import FAULTS, JOB_FAULTS
from onceproof.harness.model.system import find_system
from onceproof.harness.reporting.report_builder import (
    build_report,
    coverage_of,
    coverage_problems,
    facts_of,
    write_report,
)
from onceproof.harness.systems.local.system import LocalSystem
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult, run
from onceproof.harness.trials.tally import Tally
from onceproof.reports.headline import conclude
from onceproof.reports.model import CoverageCell, Report, decode, encode

# So that one test process has the run of all of them.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def result() -> RunResult:
    return run(RunPlan(("word_count", "page_views"), scenarios=80, seed=13, workers=1))


@pytest.fixture(scope="module")
def report(result: RunResult) -> Report:
    return build_report(result, [], "onceproof run --seed 13")


def test_passing_run_gives_a_passing_report(report: Report) -> None:
    assert conclude(report).status == "passed"
    assert report.facts.scenarios == 80
    assert report.facts.seed == 13
    assert report.facts.command == "onceproof run --seed 13"
    assert [family.family for family in report.families] == ["page_views", "word_count"]
    for family in report.families:
        checked = {each.property: each.passed for each in family.properties}
        # At-least-once scenarios are judged by mode instead of exactly_once; page_views has none.
        assert ("mode" in checked) == (family.family == "word_count")
        assert checked["exactly_once"] + checked.get("mode", 0) == 40
        always = set(PROPERTIES) - {"exactly_once", "mode", "conformance"}
        assert {name: checked[name] for name in always} == dict.fromkeys(always, 40)
        assert 0 < checked["conformance"] < 40, "a share of the runs is watched"
        assert 0 < checked["determinism"] < 5


def test_example_has_a_kill_and_a_rescale(report: Report) -> None:
    example = report.example
    assert example is not None
    before, after = example.trace.attempts
    assert before.parallelism != after.parallelism
    assert example.trace.kills
    assert "--trace" in example.replay
    assert f"with parallelism {after.parallelism} instead of {before.parallelism}" in example.sentence
    assert example.story


def test_costs_cover_the_scenarios_that_restarted(report: Report, result: RunResult) -> None:
    assert [cost.count for cost in report.costs] == [result.tally.replayed.total()] * 2
    assert 0 < report.costs[0].count < 400


def test_page_can_be_rendered_from_report_json(report: Report, tmp_path: Path) -> None:
    assert decode(encode(report), "report.json") == report
    page = write_report(report, tmp_path)
    assert page.read_text(encoding="utf-8").startswith("<!")


def test_coverage_has_a_cell_for_each_planned_pair(result: RunResult) -> None:
    coverage = coverage_of(result.tally)
    cells = [cell for cell in coverage.cells if cell.kind in JOB_FAULTS]
    assert len(cells) == sum(len(FAULTS[kind].points) for kind in JOB_FAULTS)
    assert all(cell.planned for cell in coverage.cells if cell.kind not in JOB_FAULTS)
    assert not coverage.required
    assert all(cell.planned >= cell.fired for cell in coverage.cells)
    assert coverage_problems(result.tally) == []


def test_coverage_lists_faults_of_servers_where_they_were_planned() -> None:
    system = LocalSystem()
    system.capabilities |= {Capability.SERVER_FAULTS}
    tally = Tally(
        planned=Counter({"kill_server/committing": 2}), fired=Counter({"kill_server/committing": 1})
    )
    cells = [cell for cell in coverage_of(tally, system).cells if cell.kind not in JOB_FAULTS]
    assert cells == [CoverageCell("kill_server", "committing", 2, 1)]


def test_large_run_reports_a_protocol_point_that_never_occurred() -> None:
    tally = Tally(scenarios=CAMPAIGN)
    tally.points.update({point: 1 for point in POINTS if point != "aborted"})
    assert coverage_of(tally).required
    assert coverage_problems(tally) == ["protocol point never passed: aborted"]


def test_faults_that_a_system_cannot_inject_have_no_cell_and_are_counted(result: RunResult) -> None:
    system = find_system("spark")
    pairs = {(cell.kind, cell.point) for cell in coverage_of(result.tally, system).cells}
    assert ("kill_task", "aligned") in pairs
    assert (
        not {("kill_task", "committing"), ("kill_process", "aborted"), ("lose_message", "notified")} & pairs
    )
    tally = Tally(scenarios=CAMPAIGN, not_applicable=3)
    tally.points.update({point: 1 for point in POINTS if point != "aborted"})
    assert coverage_problems(tally, system) == []
    facts = facts_of(RunResult(result.families, result.names, 9, 1, tally, 1.0, system=system)).others
    assert ("not applicable", "3 planned faults that this system cannot inject") in facts


def test_interrupted_run_does_not_pass(result: RunResult) -> None:
    stopped = RunResult(result.families, result.names, 9, 1, result.tally, 1.0, interrupted=True)
    assert conclude(build_report(stopped, [])).status == "interrupted"


def test_report_has_the_start_time_of_the_run(report: Report, result: RunResult) -> None:
    assert report.facts.started == result.started.strftime("%Y-%m-%d %H:%M:%S UTC")
