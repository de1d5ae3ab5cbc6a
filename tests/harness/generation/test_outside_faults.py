"""Faults of what the engine has no hand in: few scenarios have one, and all others are what they were."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from onceproof.harness.generation import outside_faults, outside_patterns
from onceproof.harness.generation.generator import generate
from onceproof.harness.generation.outside_faults import CHANGED_TOPICS, SHARE, with_outside_faults
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import TOPIC_CHANGES, FaultKind
from onceproof.harness.model.faults import FAULTS, KILLS
from onceproof.harness.model.scenario import Fault, Scenario, check, from_json, to_json
from onceproof.harness.model.system import capabilities_of
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.trial import as_run

SEEDS = 1200
FAMILY = load_family("word_count")
OF_PROCESSES = frozenset(row.kind for row in FAULTS.values() if row.outside_weight)
LOCAL, WORKERS = capabilities_of("local"), capabilities_of("local-workers")


def those(scenario: Scenario, kinds: frozenset[FaultKind] = OF_PROCESSES) -> list[Fault]:
    return [fault for fault in scenario.faults if fault.kind in kinds]


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    return [generate(FAMILY, seed) for seed in range(SEEDS)]


@pytest.mark.parametrize(
    ("kind", "share", "least", "most"),
    [
        ("function_leaves", "LEAVING_FUNCTIONS", 0.015, 0.05),
        ("change_input", "CHANGED_INPUT", 0.01, 0.04),
    ],
)
def test_scenarios_without_the_kind_are_what_they_are_where_none_is_drawn(
    kind: FaultKind,
    share: str,
    least: float,
    most: float,
    scenarios: list[Scenario],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    having = [bool(those(scenario, frozenset({kind}))) for scenario in scenarios]
    assert least < sum(having) / SEEDS < most
    monkeypatch.setattr(outside_patterns, share, 0.0)
    for seed, (scenario, has_one) in enumerate(zip(scenarios, having, strict=True)):
        if not has_one:
            assert generate(FAMILY, seed) == scenario


@pytest.mark.parametrize("name", ["files_rolling", "objects_rolling", "objects_parquet"])
def test_consumers_take_output_of_part_files_in_a_few_scenarios(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = load_family(name)
    drawn = [generate(family, seed) for seed in range(600)]
    having = [bool(those(scenario, frozenset({"move_output"}))) for scenario in drawn]
    assert 0.02 < sum(having) / len(drawn) < 0.08
    kills = [len(those(scenario, KILLS)) for scenario, has_one in zip(drawn, having, strict=True) if has_one]
    assert sum(map(bool, kills)) > 0.7 * len(kills)
    monkeypatch.setattr(outside_patterns, "MOVED_OUTPUT", 0.0)
    for seed, (scenario, has_one) in enumerate(zip(drawn, having, strict=True)):
        assert (generate(family, seed) == scenario) is not has_one


@pytest.mark.parametrize("name", ["word_count", "word_batches", "word_table", "postgres_rows", "kafka_rows"])
def test_what_has_no_name_is_not_drawn_to_be_taken_away(name: str) -> None:
    family = load_family(name)
    assert not any(those(generate(family, seed), frozenset({"move_output"})) for seed in range(300))


def test_every_way_to_leave_and_to_change_is_drawn(scenarios: list[Scenario]) -> None:
    drawn = {(fault.kind, fault.means) for scenario in scenarios for fault in those(scenario)}
    ways = {"", "interrupt", "cancelled", "generator_exit", "stop_iteration"}
    assert drawn == {("function_leaves", means) for means in ways} | {
        ("change_input", means) for means in ("", "replaced")
    }


@pytest.mark.parametrize("family", ["kafka_rows", "bursts"])
def test_input_of_kafka_and_of_jobs_that_declare_does_not_change(family: str) -> None:
    other: Family = load_family(family)
    assert not any(those(generate(other, seed), frozenset({"change_input"})) for seed in range(300))


def test_the_simulation_runs_the_scenario_as_it_is(scenarios: list[Scenario]) -> None:
    system = SimulatedSystem()
    assert all(as_run(system, FAMILY, scenario) == scenario for scenario in scenarios[:200])


@pytest.mark.parametrize("capabilities", [LOCAL, WORKERS], ids=["local", "local-workers"])
def test_real_processes_get_every_kind_they_can_suffer(
    capabilities: frozenset[Capability], scenarios: list[Scenario]
) -> None:
    drawn = [with_outside_faults(FAMILY, scenario, capabilities) for scenario in scenarios]
    for before, after in zip(scenarios, drawn, strict=True):
        check(after)
        assert from_json(to_json(after)) == after
        assert replace(after, faults=before.faults) == before
        assert with_outside_faults(FAMILY, after, capabilities) == after
    suffered = {kind for kind in OF_PROCESSES if FAULTS[kind].needs in capabilities}
    counts = Counter(fault.kind for scenario in drawn for fault in those(scenario) if fault.kind in suffered)
    assert set(counts) == suffered
    assert min(counts.values()) > 0.02 * SEEDS
    share = sum(after != before for before, after in zip(scenarios, drawn, strict=True)) / SEEDS
    assert SHARE - 0.05 < share < SHARE + 0.05


def test_topics_change_where_a_job_has_kafka_at_its_ends() -> None:
    family = load_family("kafka_to_kafka")
    scenarios = [generate(family, seed) for seed in range(300)]
    drawn = [with_outside_faults(family, each, LOCAL) for each in scenarios]
    changes = [fault for each in drawn for fault in those(each, frozenset({"change_input"}))]
    assert {fault.means for fault in changes} == set(TOPIC_CHANGES)
    assert CHANGED_TOPICS - 0.07 < len(changes) / len(drawn) < CHANGED_TOPICS + 0.07
    for before, after in zip(scenarios, drawn, strict=True):
        check(after)
        assert with_outside_faults(family, after, LOCAL) == after
        assert not (before.is_endless and those(after, frozenset({"change_input"})))


def test_topics_are_drawn_apart_from_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    family = load_family("kafka_to_kafka")
    scenarios = [generate(family, seed) for seed in range(200)]
    drawn = [with_outside_faults(family, each, LOCAL) for each in scenarios]
    monkeypatch.setattr(outside_faults, "CHANGED_TOPICS", 0.0)
    for before, after in zip(scenarios, drawn, strict=True):
        if not those(after, frozenset({"change_input"})):
            assert with_outside_faults(family, before, LOCAL) == after


@pytest.mark.parametrize("family", ["word_count", "kafka_exactly_once_window"])
def test_topics_do_not_change_of_jobs_that_have_none_or_declare(family: str) -> None:
    other: Family = load_family(family)
    drawn = [with_outside_faults(other, generate(other, seed), LOCAL) for seed in range(200)]
    assert all(fault.means not in TOPIC_CHANGES for each in drawn for fault in those(each))


def test_systems_that_carry_none_out_have_none_drawn(scenarios: list[Scenario]) -> None:
    for name in ("spark", "relay", "flink"):
        capabilities = capabilities_of(name)
        assert all(with_outside_faults(FAMILY, each, capabilities) == each for each in scenarios[:100])


def test_scenario_without_a_seed_stays_as_it_is(scenarios: list[Scenario]) -> None:
    written = [replace(scenario, seed=None) for scenario in scenarios[:50]]
    assert all(with_outside_faults(FAMILY, each, LOCAL) == each for each in written)
