"""Where the faults of scenarios strike a flow."""

from __future__ import annotations

import msgspec

from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import POINTS
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import ANY_TASK, Fault
from onceproof.harness.systems.bytewax.points import (
    CAPABILITIES,
    MISSING,
    MOST_WORKERS,
    PLACES,
    prepared,
)
from onceproof.harness.trials.trial import scenario_of


def prepared_with(*faults):
    drawn = scenario_of(load_family("word_count"), 3)
    return prepared(msgspec.structs.replace(drawn, faults=faults))


def test_every_point_but_an_abort_is_like_a_step_of_a_flow():
    assert set(PLACES) == set(POINTS) - {"aborted"}
    assert all(PLACES[place] == place for place in PLACES.values())


def test_faults_that_a_flow_can_take_strike_at_a_step_that_it_has():
    faults = [Fault(kind, point) for kind, row in FAULTS.items() for point in row.points]
    for fault, after in zip(faults, prepared_with(*faults).faults, strict=True):
        can_be_taken = FAULTS[fault.kind].needs in CAPABILITIES and fault.point in PLACES
        assert after.point == (PLACES[fault.point] if can_be_taken else fault.point)
        assert ((after.kind, after.point) in MISSING) == (
            FAULTS[fault.kind].needs in CAPABILITIES and fault.point not in PLACES
        )


def test_prepared_scenario_stays_as_it_is():
    once = prepared_with(Fault("kill_task", "uploaded", task="count-1", checkpoint=4, occurrence=9))
    assert prepared(once) == once


def test_kill_waits_for_no_task_and_no_checkpoint_of_the_engine():
    drawn = Fault(
        "kill_task", "aligned", task="count-1", checkpoint=7, occurrence=40, after=90, rescale_to=8, delay=5
    )
    [fault] = prepared_with(drawn).faults
    assert (fault.point, fault.task, fault.checkpoint) == ("barrier_received", ANY_TASK, 0)
    assert (fault.occurrence, fault.after, fault.delay) == (2, 0, 0)
    assert fault.rescale_to == MOST_WORKERS
