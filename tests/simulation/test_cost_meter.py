"""What a run costs: measured as it runs, compared with what can be seen from outside, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import CHECKPOINT_ABORTED, FAULT_FIRED, TASK_FAILED
from onceproof.harness.model.scenario import Fault, Scenario, Schedule
from onceproof.harness.systems.simulation.actions import Action, Slot
from onceproof.harness.systems.simulation.cost_meter import MeasuredSystem, measured_world
from onceproof.harness.systems.simulation.schedule import NOTHING, FairChooser, ListingChooser
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.trial import scenario_of

FAMILY = load_family("word_count")
SEEDS = range(24)


class BlockedChannels(ListingChooser):
    """The fair schedule, which counts the blocked channels at every step."""

    def __init__(self) -> None:
        self.steps = 0
        self._fair = FairChooser()

    def choose(self, slots: Sequence[Slot], pending: Sequence[Action], step: int) -> int:
        choice = self._fair.choose(slots, pending, step)
        if choice != NOTHING:
            self.steps += sum(slot.blocked[slot.channel] for slot in slots)
        return choice


def undisturbed(seed: int) -> Scenario:
    schedule = Schedule("preemptions", horizon=1_000_000)
    return replace(scenario_of(FAMILY, seed), faults=(), schedule=schedule, mode=UNSET)


def test_alignment_is_for_how_many_steps_channels_were_blocked() -> None:
    compared = 0
    for seed in range(2 * len(SEEDS)):
        counting = BlockedChannels()
        history = measured_world(FAMILY, undisturbed(seed), chooser=counting).run()
        steps = history.statistics.alignment_steps
        assert steps is not None
        if any(kind == CHECKPOINT_ABORTED for _, kind, _, _ in history.events):
            # An alignment that is given up blocks channels, too, and leads to nothing.
            assert steps <= counting.steps
        else:
            assert steps == counting.steps
            compared += steps > 0
    assert compared > 3


def test_some_runs_align_for_long_and_some_not_at_all() -> None:
    runs = [MeasuredSystem().run(FAMILY, undisturbed(seed)) for seed in SEEDS]
    steps = [history.statistics.alignment_steps or 0 for history in runs]
    assert min(steps) == 0
    assert max(steps) > 100


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cost_meter_does_not_change_the_run(seed: int) -> None:
    scenario = scenario_of(FAMILY, seed)
    plain, measured = (system.run(FAMILY, scenario) for system in (SimulatedSystem(), MeasuredSystem()))
    assert measured.trace_hash == plain.trace_hash
    assert measured.statistics.recovery_steps == plain.statistics.recovery_steps
    # Not measured is not the same as nothing to measure.
    assert plain.statistics.alignment_steps is None
    is_aligned = scenario.checkpoint_mode.barriers == "aligned"
    assert (measured.statistics.alignment_steps is not None) == is_aligned


def test_an_alignment_that_a_death_cuts_off_is_not_finished_by_the_next_process() -> None:
    """The next process may give the same number to a checkpoint again."""
    kill = Fault("kill_process", "barrier_received", occurrence=2, after=1)
    for seed in SEEDS:
        scenario = replace(undisturbed(seed), faults=(kill,), restart_delay_ms=500)
        history = MeasuredSystem().run(FAMILY, scenario)
        steps = history.statistics.alignment_steps
        assert steps is not None
        # Each channel waits for a part of the run at the most, and not while nothing runs.
        channels = scenario.parallelisms()
        most = channels.source * channels.keyed + channels.keyed * channels.sink
        assert steps <= most * history.statistics.steps


def test_a_recovery_lasts_until_all_tasks_run_again() -> None:
    seen = 0
    for seed in SEEDS:
        kill = Fault("kill_all", "element", occurrence=5)
        scenario = replace(scenario_of(FAMILY, seed), faults=(kill,), operations=UNSET, endless=UNSET)
        history = SimulatedSystem().run(FAMILY, scenario, trace=True)
        if not any(kind == FAULT_FIRED for _, kind, _, _ in history.events):
            continue
        seen += 1
        died = next(step for step, kind, _, _ in history.events if kind == TASK_FAILED)
        assert history.trace is not None
        marks = history.trace["marks"]
        restored = [mark["step"] for mark in marks if mark["kind"] == "restored" and mark["step"] > died]
        assert history.statistics.recovery_steps == max(restored) - died
    assert seen > 6
