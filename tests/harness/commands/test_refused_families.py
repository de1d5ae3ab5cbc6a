"""Families that a system cannot run are left out with the reason where all were asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceproof.harness.commands import run as run_module
from onceproof.harness.commands.run import without_refused
from onceproof.harness.model.exit_codes import UsageError
from onceproof.harness.model.family_places import family_names
from onceproof.harness.reporting.report_builder import build_report, write_report
from onceproof.harness.reporting.run_summary import summary_document, summary_lines
from onceproof.harness.settings.planning import RUN, RunOptions, plan_run
from onceproof.harness.settings.project_settings import Settings
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import run
from onceproof.reports.model import decode, encode

Refusals = Callable[[str], str]


class TryingSystem(SimulatedSystem):
    """Refuses families when their jobs are built."""

    def __init__(self, reason_of: Refusals) -> None:
        self._reason_of = reason_of
        self.tried: list[str] = []

    def refusals(self, trials: Any) -> dict[str, str]:
        self.tried = [family.name for family, _ in trials]
        return {name: reason for name in self.tried if (reason := self._reason_of(name))}


@pytest.fixture
def trying(monkeypatch: pytest.MonkeyPatch) -> Callable[[Refusals], TryingSystem]:
    def install(reason_of: Refusals) -> TryingSystem:
        system = TryingSystem(reason_of)
        monkeypatch.setattr(run_module, "find_system", lambda name: system)
        return system

    return install


def all_families(system: str = "simulated") -> RunPlan:
    return plan_run(Settings(), RUN, RunOptions(system=system))


def test_family_whose_job_cannot_be_built_is_left_out_with_the_reason(trying: Any) -> None:
    system = trying(lambda name: "no evictors" if name == "top_speed" else "")
    plan = without_refused(all_families())
    assert set(plan.families) == set(family_names()) - {"top_speed"}
    assert plan.refused == (("top_speed", "no evictors"),)
    # Jobs that are drawn with the records differ, so several of them are built.
    assert system.tried.count("word_count") == 1 < system.tried.count("random_job")


def test_reasons_that_are_known_beforehand_stand_beside_those_that_are_tried(trying: Any) -> None:
    system = trying(lambda name: "too many words" if name == "word_count" else "")
    plan = without_refused(all_families("bytewax"))
    assert set(system.tried) == {"word_count", "running_sum", "page_windows"}
    reasons = dict(plan.refused)
    assert (reasons["word_count"], reasons["visits"]) == (
        "too many words",
        "the family has no job for bytewax",
    )
    assert set(plan.families) == {"running_sum", "page_windows"}


def test_family_that_is_named_is_not_tried_and_stays(trying: Any) -> None:
    system = trying(lambda name: "never")
    plan = plan_run(Settings(), RUN, RunOptions(families=["word_count"]))
    assert without_refused(plan) == plan
    assert system.tried == []


def test_system_that_refuses_every_family_is_an_error_in_a_line(trying: Any) -> None:
    trying(lambda name: "never")
    with pytest.raises(UsageError, match="system simulated can run none of the built-in families"):
        without_refused(all_families())


def test_refused_families_are_in_the_summary_the_document_and_the_page(tmp_path: Path) -> None:
    refused = (("tickets", "no operator state"), ("top_speed", "no evictors"), ("visits", "no evictors"))
    result = run(RunPlan(("word_count",), scenarios=2, seed=1, workers=1))
    report = build_report(result, [], refused=refused)
    assert decode(encode(report), "report.json") == report
    lines = list(summary_lines(result, [], report, tmp_path / "index.html"))
    assert "not applicable on simulated: tickets: no operator state" in lines
    assert "not applicable on simulated: top_speed and visits: no evictors" in lines
    assert summary_document(result, report, tmp_path)["not_applicable"] == dict(refused)
    page = write_report(report, tmp_path).read_text(encoding="utf-8")
    assert "simulated cannot run 3 families" in page
    for family, reason in refused:
        assert family in page
        assert reason in page


def test_cost_of_a_scenario_is_stated_where_waiting_is_measured(tmp_path: Path) -> None:
    result = run(RunPlan(("word_count",), scenarios=2, seed=1, workers=1))
    page = tmp_path / "index.html"
    assert summary_document(result, build_report(result, []), page)["waiting_share"] is None
    tally = result.tally.families["word_count"]
    tally.milliseconds, tally.waited_milliseconds = 8_000.0, 2_000.0
    report = build_report(result, [])
    stated = "4.0 s, 25% of it waiting for the system to start"
    assert dict(report.facts.others)["cost of a scenario"] == stated
    assert f"a scenario: {stated}" in list(summary_lines(result, [], report, page))
    document = summary_document(result, report, tmp_path)
    assert (document["scenario_seconds"], document["waiting_share"]) == (4.0, 0.25)
    assert stated in write_report(report, tmp_path).read_text(encoding="utf-8")
