"""Faults of servers: a function of the seed, on top of all else, for families with a server alone."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.generation.server_faults import LONGEST_DEATH_MS, LONGEST_PAUSE_MS, with_server_faults
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import POINTS, SERVERS
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault, Scenario, check, from_json, to_json
from onceproof.harness.services import servers
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.trial import as_run, try_scenario

FAMILY = load_family("postgres_rows")
KINDS = [kind for kind, row in FAULTS.items() if row.strikes == "server"]
GOLDEN = "a700b62e83cb9c73"


def drawn(seed: int) -> Scenario:
    return with_server_faults(FAMILY, generate(FAMILY, seed))


def of_servers(scenario: Scenario) -> list[Fault]:
    return [fault for fault in scenario.faults if fault.server]


def test_five_seeds_have_their_golden_hash() -> None:
    text = msgspec.json.encode([of_servers(drawn(seed)) for seed in range(5)])
    assert sha256(text).hexdigest()[:16] == GOLDEN


def test_faults_of_servers_come_behind_the_others_and_are_drawn_once() -> None:
    for seed in range(200):
        before, after = generate(FAMILY, seed), drawn(seed)
        check(after)
        assert from_json(to_json(after)) == after
        assert after.faults[: len(before.faults)] == before.faults
        assert replace(after, faults=before.faults) == before
        assert with_server_faults(FAMILY, after) == after


def test_every_kind_is_drawn_at_every_point_with_and_without_a_kill() -> None:
    faults = [fault for seed in range(3000) for fault in of_servers(drawn(seed))]
    assert {(fault.kind, fault.point) for fault in faults} == {(k, p) for k in KINDS for p in POINTS}
    assert {fault.server for fault in faults} == {"postgres"}
    means = Counter((fault.kind, fault.means) for fault in faults)
    assert set(means) == {*((kind, "") for kind in KINDS), ("cut_connection", "answer")}
    delays = {kind: [each.delay for each in faults if each.kind == kind] for kind in KINDS}
    assert min(delays["kill_server"]) == 0 < max(delays["kill_server"]) < LONGEST_DEATH_MS
    assert 1 <= min(delays["pause_server"]) < max(delays["pause_server"]) <= LONGEST_PAUSE_MS
    assert set(delays["cut_connection"]) == {0}
    counts = Counter(len(of_servers(drawn(seed))) for seed in range(500))
    assert set(counts) == {0, 1, 2, 3}


def test_family_without_a_server_and_scenario_without_a_seed_stay_as_they_are() -> None:
    scenario = generate(load_family("word_count"), 3)
    assert with_server_faults(load_family("word_count"), scenario) == scenario
    unseeded = replace(generate(FAMILY, 3), seed=None)
    assert with_server_faults(FAMILY, unseeded) == unseeded


def test_simulation_draws_none_and_counts_given_ones_as_not_applicable() -> None:
    system = SimulatedSystem()
    scenario = generate(FAMILY, 3)
    assert as_run(system, FAMILY, scenario) == scenario
    fault = Fault("kill_server", "committing", server="postgres")
    trial = try_scenario(FAMILY, replace(scenario, seed=None, faults=(fault,)))
    assert trial.verdict.passed
    assert trial.history.statistics.not_applicable == {("kill_server", "committing"): 1}
    assert not trial.history.statistics.coverage


def test_servers_of_faults_are_those_that_the_command_starts() -> None:
    assert set(SERVERS) == set(servers.SERVERS)
