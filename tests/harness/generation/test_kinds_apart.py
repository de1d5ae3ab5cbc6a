"""A further kind of fault, pattern or weight changes only the scenarios in which it occurs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from onceproof.harness.generation import fault_patterns
from onceproof.harness.generation.drawn_faults import JobOutline, draw_kill
from onceproof.harness.generation.generator import UNAIMED, generate
from onceproof.harness.generation.outside_faults import with_outside_faults
from onceproof.harness.generation.server_faults import with_server_faults
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import FaultKind
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault, Scenario, to_json
from onceproof.harness.model.system import capabilities_of

SEEDS = 200
SCRATCH: FaultKind = "scratch"  # type: ignore[assignment]
"""A kind that no table has."""
FAMILIES = [load_family(name) for name in ("word_count", "postgres_rows", "word_batches")]
LOCAL = capabilities_of("local")

Draw = Callable[[Family, int], Scenario]


def unaimed(family: Family, seed: int) -> Scenario:
    return generate(family, seed, UNAIMED)


def in_processes(family: Family, seed: int) -> Scenario:
    return with_outside_faults(family, with_server_faults(family, generate(family, seed)), LOCAL)


def drawn(draw: Draw) -> list[Scenario]:
    return [draw(family, seed) for family in FAMILIES for seed in range(SEEDS)]


def share_of_scratch(before: list[Scenario], draw: Draw) -> float:
    """Return in which share of the scenarios the kind occurs, after all others were found unchanged."""
    after = drawn(draw)
    occurs = [any(fault.kind == SCRATCH for fault in scenario.faults) for scenario in after]
    for was, scenario, has_it in zip(before, after, occurs, strict=True):
        assert has_it or to_json(scenario) == to_json(was)
    return sum(occurs) / len(occurs)


def added(monkeypatch: pytest.MonkeyPatch, like: FaultKind, weight: int) -> None:
    row = FAULTS[like]
    outside = row.outside_weight and weight
    monkeypatch.setitem(
        FAULTS,
        SCRATCH,
        replace(row, kind=SCRATCH, weight=row.weight and weight, outside_weight=outside),
    )


@pytest.fixture(scope="module")
def before() -> dict[Draw, list[Scenario]]:
    return {draw: drawn(draw) for draw in (generate, unaimed, in_processes)}


@pytest.mark.parametrize(
    ("like", "draw"),
    [
        ("kill_process", generate),
        ("kill_task", unaimed),
        ("delay_message", generate),
        ("late_write", generate),
        ("clock_ahead", unaimed),
        ("fail_commit", generate),
        ("fail_read", generate),
        ("move_output", in_processes),
        ("cut_connection", in_processes),
    ],
)
def test_scenarios_in_which_a_new_kind_does_not_occur_stay_the_same(
    like: FaultKind, draw: Draw, before: dict[Draw, list[Scenario]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = []
    for weight in (2, 8):
        added(monkeypatch, like, weight)
        shares.append(share_of_scratch(before[draw], draw))
    once, often = shares
    assert 0 < once < 0.5
    assert 1.3 * once < often


def test_new_kind_without_a_weight_is_drawn_nowhere(
    before: dict[Draw, list[Scenario]], monkeypatch: pytest.MonkeyPatch
) -> None:
    added(monkeypatch, "kill_process", 0)
    assert share_of_scratch(before[generate], generate) == 0


@pytest.mark.parametrize(("weight", "least", "most"), [(1, 0.0, 0.03), (8, 0.03, 0.16)])
def test_pattern_of_a_new_kind_occurs_as_often_as_its_weight_says(
    weight: int,
    least: float,
    most: float,
    before: dict[Draw, list[Scenario]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scratch_and_kill(chance: Chance, stage: JobOutline) -> list[Fault]:
        return [draw_kill(chance, stage, "completed", 0), Fault(SCRATCH, "element")]

    # Only its own pattern has it.
    patterns = {each: of for each, of in fault_patterns.PATTERNS.items() if each.__name__ != "_anything"}
    monkeypatch.setattr(fault_patterns, "PATTERNS", patterns)
    without = drawn(generate)
    added(monkeypatch, "move_output", 1)
    monkeypatch.setattr(fault_patterns, "PATTERNS", {**patterns, scratch_and_kill: weight})
    assert least < share_of_scratch(without, generate) < most
