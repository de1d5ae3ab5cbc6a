"""The plan of a comparison: which families run on which systems, and why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.settings import comparison_plan
from onceproof.harness.settings.comparison_plan import plan_comparison
from onceproof.harness.settings.planning import RunOptions
from onceproof.harness.settings.project_settings import Settings
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem


def test_each_system_has_a_run_with_the_same_seed_in_its_own_folder() -> None:
    plan = plan_comparison(
        Settings(seed=5, out=Path("results")),
        RunOptions(families=["word_count", "page_views"], scenarios=3),
        "simulated, local,simulated",
    )
    assert [run.system for run in plan.runs] == ["simulated", "local"]
    assert {(run.families, run.scenarios, run.seed) for run in plan.runs} == {
        (("word_count", "page_views"), 6, 5)
    }
    assert plan.out == Path("results", "compare")
    assert [run.out for run in plan.runs] == [plan.out / "simulated", plan.out / "local"]
    assert plan.left_out == ()


def test_family_that_a_system_cannot_run_is_left_out_with_the_reason() -> None:
    plan = plan_comparison(
        Settings(), RunOptions(families=["word_count", "postgres_rows"], scenarios=1), "local,spark"
    )
    assert [run.families for run in plan.runs] == [("word_count", "postgres_rows"), ("word_count",)]
    assert plan.left_out == (
        "postgres_rows is left out on spark: it starts no server, and the family needs postgres",
    )


def test_family_whose_job_a_system_cannot_build_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Builds(SimulatedSystem):
        def refusals(self, trials: object) -> dict[str, str]:
            return {"page_views": "no reduce"}

    monkeypatch.setattr(comparison_plan, "find_system", lambda name: Builds())
    plan = plan_comparison(
        Settings(), RunOptions(families=["word_count", "page_views"], scenarios=1), "simulated"
    )
    assert [run.families for run in plan.runs] == [("word_count",)]
    assert plan.left_out == ("page_views is left out on simulated: no reduce",)
