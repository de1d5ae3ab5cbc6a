"""The simulated world itself: one trace for one scenario, and faults that really strike."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.state.file_envelope import StateError
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.fault_kinds import FaultKind, Point
from onceproof.harness.model.faults import FAULTS, JOB_FAULTS, KILLS
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_ABORTED,
    CHECKPOINT_COMPLETED,
    ERROR,
    TASK_FAILED,
)
from onceproof.harness.model.scenario import Fault, Scenario, Schedule, check
from onceproof.harness.systems.simulation import job_process
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.trial import Trial, scenario_of, try_scenario

SYSTEM = SimulatedSystem()
FAMILY = load_family("word_count")
WORDS = ("bee", "owl", "bee", "toad", "ant", "owl", "newt", "bee", "cat", "owl", "ant", "bee")

EVERY_FAULT = [(kind, point) for kind in JOB_FAULTS for point in FAULTS[kind].points]
FIRST_KILL = Fault("kill_task", "element", occurrence=9)
"""Makes the recovery, in which alone something is aborted."""


def scenario_with(*faults: Fault, **changes: object) -> Scenario:
    """Return a small scenario with two subtasks everywhere, in which about three checkpoints complete."""
    fields: dict[str, object] = {
        "family": "word_count",
        "generator_version": 1,
        "seed": None,
        "parameters": {},
        "records": {"words-0": tuple(enumerate(WORDS)), "words-1": tuple(enumerate(reversed(WORDS)))},
        "parallelism": 2,
        "max_parallelism": 8,
        "source_parallelism": 2,
        "sink_parallelism": 2,
        "channel_capacity": 2,
        "checkpoint_interval_ms": 25,
        "checkpoint_timeout_ms": 150,
        "tolerable_failures": 100,
        "retained": 1,
        "restart_delay_ms": 3,
        "faults": faults,
        "schedule": Schedule("uniform", 7, horizon=800),
        "step_budget": 6000,
        **changes,
    }
    scenario = Scenario(**fields)  # type: ignore[arg-type]
    check(scenario)
    return scenario


def sound(scenario: Scenario, continued: bool = False) -> Trial:
    trial = try_scenario(FAMILY, scenario, twice=False, continued=continued)
    assert trial.verdict.violations == ()
    return trial


def kinds_of(trial: Trial) -> Iterator[str]:
    return (kind for _, kind, _, _ in trial.history.events)


@pytest.mark.parametrize(("kind", "point"), EVERY_FAULT)
def test_each_fault_fires_at_each_of_its_points_and_is_survived(kind: FaultKind, point: Point) -> None:
    fault = Fault(kind, point, delay=30 if FAULTS[kind].delay == "required" else 0)
    before = {"aborted": (FIRST_KILL,), "declined": (Fault("fail_write", "snapshotted"),)}.get(point, ())
    faults = (*before, fault)
    # One point of each kind has its checkpoints restored, which takes longer than the run.
    trial = sound(scenario_with(*faults), continued=point == FAULTS[kind].points[0])
    statistics = trial.history.statistics
    assert statistics.coverage[kind, point] == 1
    if kind in KILLS:
        assert statistics.attempts >= 2
        # Tasks outlive their job master, and are ended in order.
        assert (TASK_FAILED in kinds_of(trial)) == (kind != "kill_master" or len(faults) > 1)


@pytest.mark.parametrize("kind", sorted(KILLS))
@pytest.mark.parametrize("rescale_to", [1, 3])
def test_a_kill_may_rescale_the_next_attempt(kind: FaultKind, rescale_to: int) -> None:
    trial = sound(
        scenario_with(
            Fault(kind, "completed" if kind != "kill_task" else "notified", after=2, rescale_to=rescale_to)
        )
    )
    started = [payload for _, name, _, payload in trial.history.events if name == ATTEMPT_STARTED]
    assert [payload["parallelism"] for payload in started] == [2, rescale_to]
    assert started[1]["restored"] == 1


def test_a_fault_waits_for_its_task_its_checkpoint_and_its_turn() -> None:
    fault = Fault("kill_task", "committing", task="sink-1", checkpoint=2, occurrence=1, after=4)
    trial = sound(scenario_with(fault))
    fired = [
        (name, subject, payload) for _, name, subject, payload in trial.history.events if "fault" in name
    ]
    assert fired == [("fault_fired", "kill_task", {"point": "committing", "task": "sink-1"})]
    struck = next(place for place, name in enumerate(kinds_of(trial)) if name == "fault_fired")
    completed = [
        subject for _, name, subject, _ in trial.history.events[:struck] if name == CHECKPOINT_COMPLETED
    ]
    assert completed[-1] == 2


@pytest.mark.parametrize(("kind", "point"), [("lose_message", "acknowledged"), ("fail_write", "snapshotted")])
def test_an_incomplete_checkpoint_is_aborted_and_the_next_one_completes(
    kind: FaultKind, point: Point
) -> None:
    trial = sound(scenario_with(Fault(kind, point, checkpoint=1)))
    assert CHECKPOINT_ABORTED in kinds_of(trial)
    assert trial.history.statistics.attempts == 1


def test_a_second_copy_of_a_message_may_come_much_later() -> None:
    fault = Fault("duplicate_message", "acknowledged", checkpoint=1, delay=60)
    trial = sound(scenario_with(fault))
    at_once = sound(scenario_with(Fault("duplicate_message", "acknowledged", checkpoint=1)))
    assert trial.history.trace_hash != at_once.history.trace_hash


@pytest.mark.parametrize("kind", sorted(KILLS))
def test_a_run_leaves_nothing_behind_for_the_garbage_collector(kind: FaultKind) -> None:
    scenario = scenario_with(Fault(kind, "completed" if kind != "kill_task" else "notified"))
    SYSTEM.run(FAMILY, scenario)
    gc.collect()
    gc.disable()
    try:
        SYSTEM.run(FAMILY, scenario)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_recording_the_trace_does_not_change_the_run() -> None:
    for seed in range(12):
        scenario = scenario_of(FAMILY, seed)
        plain, traced = SYSTEM.run(FAMILY, scenario), SYSTEM.run(FAMILY, scenario, trace=True)
        assert plain.trace_hash == traced.trace_hash
        assert plain.trace is None
        assert traced.trace


def test_a_scenario_of_each_family_has_one_trace_in_every_process() -> None:
    code = (
        "from onceproof.harness.model.family_places import family_names, load_family;"
        "from onceproof.harness.trials.trial import scenario_of;"
        "from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem;"
        "families = [load_family(name) for name in family_names()];"
        "print(*[SimulatedSystem().run(each, scenario_of(each, 1)).trace_hash for each in families])"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "4242"},
    ).stdout.split()
    families = [load_family(name) for name in family_names()]
    assert elsewhere == [SYSTEM.run(each, scenario_of(each, 1)).trace_hash for each in families]


def test_timers_fire_before_the_end_where_watermarks_come_often() -> None:
    family = load_family("percentiles")
    scenario = replace(scenario_of(family, 1), faults=(), operations=UNSET)
    often, never = (
        SYSTEM.run(family, replace(scenario, watermark_interval_ms=interval)).statistics
        for interval in (1, 100_000)
    )
    assert often.timers_before_end > 0
    assert never.timers_before_end == 0
    assert never.timers_at_end == often.timers_before_end + often.timers_at_end


def test_a_process_that_dies_before_it_fails_to_encode_is_just_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of its write is that of no process any more; the next one meets it itself."""
    refused = []

    def refuse(snapshot: object, canonical: bool) -> None:
        refused.append(canonical)
        raise StateError("a record in flight has no typed form")

    monkeypatch.setattr(job_process, "encode_task_snapshot", refuse)
    of_dying = 0
    for seed in range(20):
        refused.clear()
        kill = Fault("kill_process", "snapshotted", checkpoint=1, occurrence=2)
        trial = try_scenario(FAMILY, scenario_with(kill, schedule=Schedule("uniform", seed, horizon=800)))
        said = [payload["type"] for _, event, _, payload in trial.history.events if event == ERROR]
        assert said == ["StateError"]
        of_dying += len(refused) > len(said)
    assert of_dying > 0


def test_dead_process_that_stays_in_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """When Python frees it must not count: its requests have answers under way."""
    family = load_family("async_lookups")
    scenarios = [scenario_of(family, seed) for seed in (15, 17, 27, 33)]
    hashes = [World(family, each).run().trace_hash for each in scenarios]
    end, kept = World._end_process, []

    def keeping(self: World, power_is_lost: bool = False) -> None:
        kept.append(self.processes.current)
        end(self, power_is_lost)

    monkeypatch.setattr(World, "_end_process", keeping)
    assert [World(family, each).run().trace_hash for each in scenarios] == hashes
    assert kept
