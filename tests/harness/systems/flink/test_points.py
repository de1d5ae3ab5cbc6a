"""Where the faults of a scenario strike on Flink."""

from __future__ import annotations

import pytest

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import POINTS
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import ANY_TASK, Fault, check
from onceproof.harness.model.system import applicable
from onceproof.harness.systems.flink.points import (
    CAPABILITIES,
    MISSING,
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


def kills_of(*kinds):
    return tuple([Fault(kind, "completed", occurrence=number + 1) for number, kind in enumerate(kinds)])


@pytest.mark.parametrize(
    ("kinds", "struck"),
    [
        ((), ()),
        (("kill_process",), (0,)),
        (("kill_master", "kill_process", "kill_all", "kill_all"), (0, 2)),
        (("kill_all", "kill_all"), (0, 1)),
        (("kill_master", "kill_master"), (0,)),
    ],
)
def test_first_kill_strikes_and_one_more_of_tasks_and_the_rest_is_counted(kinds, struck):
    faults = kills_of(*kinds)
    taken, left = affordable(faults)
    assert taken == tuple(faults[place] for place in struck)
    assert sum(left.values()) == len(faults) - len(taken)
    assert all(point == "completed" for _, point in left)
