"""The plan of a comparison: which families run on which systems, and why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family_places import load_family
from onceproof.harness.settings.comparison_plan import plan_comparison, reasons_against
from onceproof.harness.settings.project_settings import Settings
from onceproof.harness.systems.local.local_system import LocalSystem
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem


class OtherEngine(SimulatedSystem):
    """A system of another engine, which runs the queries that families declare."""

    name = "structured_streaming"
    capabilities = frozenset({Capability.KILL_TASK, Capability.CHECKPOINTS_SEEN})


class WithoutServers(SimulatedSystem):
    """A system of real processes that starts no servers."""

    name = "spark"
    capabilities = frozenset({Capability.KILL_TASK, Capability.ENGINE})


def test_each_system_has_a_run_with_the_same_seed_in_its_own_folder() -> None:
    plan = plan_comparison(
        Settings(seed=5, out=Path("results")),
        families=["word_count", "page_views"],
        systems="simulated, local,simulated",
        scenarios=3,
    )
    assert [run.system for run in plan.runs] == ["simulated", "local"]
    assert {(run.families, run.scenarios, run.seed) for run in plan.runs} == {
        (("word_count", "page_views"), 6, 5)
    }
    assert plan.out == Path("results", "compare")
    assert [run.out for run in plan.runs] == [plan.out / "simulated", plan.out / "local"]
    assert plan.left_out == ()


@pytest.mark.parametrize(
    ("family", "system", "reasons"),
    [
        ("word_count", OtherEngine(), []),
        ("postgres_rows", OtherEngine(), ["the family has no streaming_query"]),
        ("postgres_rows", SimulatedSystem(), []),
        ("postgres_rows", LocalSystem(), []),
        ("postgres_rows", WithoutServers(), ["it starts no server, and the family needs postgres"]),
    ],
)
def test_families_are_left_out_where_they_cannot_run(
    family: str, system: SimulatedSystem, reasons: list[str]
) -> None:
    assert list(reasons_against(system, load_family(family))) == reasons
