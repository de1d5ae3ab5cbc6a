"""Faults that set the wall clock: how far, for whom, and what the job under trial makes of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from onceproof.engine.runtime.clocks import Clocks
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import RESTART_WAIT, TRANSACTION_VISIBLE, WAIT_BEGUN
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.model.step_limits import with_ample_limits
from onceproof.harness.systems.clock_jumps import ShiftedClocks, ahead_after_ms, first_ahead_ms, jump_ms
from onceproof.harness.systems.fault_clock import ClockState
from onceproof.harness.systems.local.system import LocalSystem
from onceproof.harness.trials.trial import Trial, try_scenario
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import find_mutant

AN_HOUR_MS = 3_600_000
AHEAD = Fault("clock_ahead", "element", occurrence=8, delay=AN_HOUR_MS)
BACK = Fault("clock_back", "element", occurrence=8, delay=AN_HOUR_MS)
DEDUPLICATION = load_family("deduplication")
READINGS = tuple((time, (device, 1)) for time, device in enumerate(("bell", "lamp", "door") * 10))


def deduplication_with(*faults: Fault) -> Scenario:
    return scenario_with(*faults, family="deduplication", records={"a": READINGS, "b": READINGS})


def simulated(scenario: Scenario) -> Trial:
    return try_scenario(load_family(scenario.family), scenario, twice=False)


def seen_ms(trial_events: list[tuple[int, str, object, dict[str, object]]]) -> list[int]:
    """Return the processing times that the rows of the deduplication declare."""
    visible = [payload["rows"] for _, kind, _, payload in trial_events if kind == TRANSACTION_VISIBLE]
    return [row[-1] for rows in visible for row in rows]  # type: ignore[attr-defined]


def test_jump_is_forward_or_back_and_other_faults_set_no_clock():
    assert [jump_ms(each) for each in (AHEAD, BACK, Fault("kill_all", "element"))] == [
        AN_HOUR_MS,
        -AN_HOUR_MS,
        0,
    ]


def test_simulated_wall_clock_begins_so_far_ahead_that_it_never_shows_less_than_zero():
    assert first_ahead_ms((BACK, AHEAD, BACK)) == 2 * AN_HOUR_MS


def test_process_begins_with_the_clock_that_earlier_processes_have_met():
    faults = (AHEAD, BACK, AHEAD)
    # The first has struck, the second was hit and strikes three passes later, the third still waits.
    state = ClockState(left=(0, 0, 2), striking=((1, "x-0", 3),))
    assert ahead_after_ms(faults, state) == AN_HOUR_MS
    assert ahead_after_ms(faults, ClockState()) == 0


def test_only_the_wall_clock_of_a_process_is_shifted():
    clocks = ShiftedClocks(5_000)
    clocks.jump(BACK)
    before, seen, after = Clocks().wall_ms(), clocks.wall_ms(), Clocks().wall_ms()
    assert before <= seen - 5_000 + AN_HOUR_MS <= after
    before, seen, after = Clocks().steady_ms(), clocks.steady_ms(), Clocks().steady_ms()
    assert before <= seen <= after


@pytest.mark.parametrize("jumps_after", [0, 40], ids=["before the kill", "after the kill"])
def test_simulated_processing_time_jumps_and_stays_set_for_the_next_process(jumps_after):
    jump = replace(AHEAD, after=jumps_after)
    kill = Fault("kill_process", "element", occurrence=9)
    trial = simulated(deduplication_with(jump, kill))
    assert trial.verdict.violations == ()
    assert trial.history.statistics.coverage["clock_ahead", "element"] == 1
    assert max(seen_ms(trial.history.events)) > AN_HOUR_MS


@pytest.mark.parametrize("jump", [AHEAD, BACK], ids=["ahead", "back"])
@pytest.mark.parametrize("family", ["word_count", "nexmark_q12"])
def test_clock_that_jumps_changes_no_rows_in_the_simulation(family, jump):
    loaded = load_family(family)
    for seed in (0, 2):
        scenario = generate(loaded, seed)
        faults = (jump, Fault("kill_all", "element", occurrence=3, after=2))
        trial = try_scenario(loaded, _without_limits(scenario, faults), twice=False)
        assert trial.verdict.violations == ()
        assert trial.history.statistics.coverage[jump.kind, "element"] == 1


def _without_limits(scenario: Scenario, faults: tuple[Fault, ...]) -> Scenario:
    return with_ample_limits(replace(scenario, seed=None, faults=faults))


def test_restart_by_the_wall_clock_is_caught_as_a_late_restart():
    kill = Fault("kill_task", "element", occurrence=8)
    back = Fault("clock_back", "element", occurrence=8, after=20, delay=AN_HOUR_MS)
    scenario = scenario_with(back, kill, restart_delay_ms=40)
    assert simulated(scenario).verdict.violations == ()
    with find_mutant("restart-by-the-wall-clock").applied() as reach:
        trial = simulated(scenario)
    assert reach.times
    assert set(trial.verdict.failed_properties()) == {"timeliness", "conformance"}
    waits = [
        payload["ms"]
        for _, kind, what, payload in trial.history.events
        if kind == WAIT_BEGUN and what == RESTART_WAIT
    ]
    assert max(waits) > AN_HOUR_MS - 100


def test_deduplication_is_never_tried_with_a_clock_that_goes_back():
    kinds = {fault.kind for seed in range(400) for fault in generate(DEDUPLICATION, seed).faults}
    assert "clock_ahead" in kinds
    assert "clock_back" not in kinds


@pytest.mark.local_kill
def test_real_process_sees_the_clock_that_was_set_before_it_began():
    kill = Fault("kill_process", "completed", checkpoint=2)
    scenario = deduplication_with(AHEAD, kill)
    begun = Clocks().wall_ms()
    history = LocalSystem().run(DEDUPLICATION, scenario)
    assert judge(scenario, history, PythonOracle(DEDUPLICATION, scenario)).violations == ()
    assert history.statistics.coverage == {("clock_ahead", "element"): 1, ("kill_process", "completed"): 1}
    seen = sorted(seen_ms(history.events))
    assert seen[-1] - seen[0] > AN_HOUR_MS - 1
    assert seen[-1] - begun > AN_HOUR_MS - 1_000
