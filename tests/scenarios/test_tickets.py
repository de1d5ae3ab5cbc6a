"""The family tickets: numbers by hand, its one machine, and operator state that is changed in place."""

from __future__ import annotations

import msgspec

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import NOTHING_DECLARED
from onceproof.harness.model.family_places import load_family
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.trial import check_family, try_scenario
from onceproof.scenarios import tickets
from tests.scenarios.golden import meaning_of

FAMILY = load_family("tickets")
GOLDEN = "1:8f5dd663e39e4c4a"


def test_five_seeds_have_their_golden_hashes() -> None:
    # Of the family's own part only: faults and schedules are pinned where they are drawn.
    assert meaning_of(FAMILY) == GOLDEN


def test_it_is_a_family() -> None:
    check_family(FAMILY)


def test_tickets_are_numbered_over_all_queues() -> None:
    records = {"queue-0": [(0, "a-pay"), (7, "b-buy")], "queue-1": [(0, "a-pay"), (7, "a-ask")]}
    rows = tickets.expected(records, NOTHING_DECLARED)
    assert sorted(rows) == [("a-ask", 1, 1), ("a-pay", 1, 1), ("a-pay", 2, 2), ("b-buy", 1, 1)]


def test_there_is_one_machine_whatever_the_scenario_says() -> None:
    scenario = generate(FAMILY, 5)
    assert scenario.source_parallelism == 1
    asks_for_three = msgspec.structs.replace(scenario, source_parallelism=3, max_parallelism=8)
    vertices = {vertex.name: vertex for vertex in World(FAMILY, asks_for_three).job.build_graph().vertices}
    assert vertices["door -> machine -> strips"].parallelism == 1


def test_a_sound_engine_passes_and_both_numbers_of_each_ticket_agree() -> None:
    rows = 0
    for seed in range(30):
        trial = try_scenario(FAMILY, generate(FAMILY, seed))
        assert trial.verdict.violations == ()
        for _, kind, _, payload in trial.history.events:
            if kind == "transaction_visible":
                rows += len(payload["rows"])
                assert all(ticket == served for _, ticket, served in payload["rows"])
    assert rows > 200
