"""Where the faults of a scenario strike on Flink."""

from __future__ import annotations

import pytest

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS, POINTS
from onceproof.harness.model.scenario import ANY_TASK, Fault, check
from onceproof.harness.model.system import applicable
from onceproof.harness.systems.flink.flink_points import (
    CAPABILITIES,
    MISSING,
    MOST_KILLS,
    PLACES,
    affordable,
    prepared,
)


def scenarios(count):
    family = load_family("word_count")
    return [generate(family, seed) for seed in range(count)]


def test_prepared_scenario_stays_as_it_is_and_is_a_scenario():
    for scenario in scenarios(60):
        ready = prepared(scenario)
        check(ready)
        assert prepared(ready) == ready
        assert ready.records == scenario.records


def test_every_kill_of_a_prepared_scenario_waits_for_a_point_that_is_seen():
    kinds = set()
    for scenario in scenarios(60):
        ready = prepared(scenario)
        for fault in applicable(ready.faults, CAPABILITIES, MISSING)[0]:
            kinds.add(fault.kind)
            assert fault.point in PLACES.values()
            assert (fault.task, fault.after, fault.means) == (ANY_TASK, 0, "")
    assert kinds == {"kill_task", "kill_all", "kill_process", "kill_master"}


def test_each_point_is_seen_or_has_its_place_or_has_a_reason():
    unplaced = {point for point in POINTS if point not in PLACES}
    assert unplaced == {"aborted"}
    for kind in ("kill_task", "kill_all", "kill_process", "kill_master"):
        for point in FAULTS[kind].points:
            assert (PLACES.get(point) == point) != ((kind, point) in MISSING)


@pytest.mark.parametrize("kills", [0, MOST_KILLS, MOST_KILLS + 3])
def test_kills_beyond_the_first_few_are_counted_as_left_out(kills):
    faults = tuple([Fault("kill_all", "element", occurrence=number + 1) for number in range(kills)])
    taken, left = affordable(faults)
    assert taken == faults[:MOST_KILLS]
    assert left == ({("kill_all", "element"): kills - MOST_KILLS} if kills > MOST_KILLS else {})
