"""The job master dies alone: its tasks outlive it, until the next one has them ended."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    TRANSACTION_VISIBLE,
    History,
)
from onceproof.harness.model.scenario import Fault, Scenario, Schedule
from onceproof.harness.systems.simulation.fault_injection import PointObserver
from onceproof.harness.systems.simulation.job_process import SimulatedProcess
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.trial import try_scenario

FAMILY = load_family("word_count")


class OrphanObserver(PointObserver):
    """Notes what tasks do while they have no master, and how many of them run when an attempt is deployed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.done_alone: list[str] = []
        self.living_at_deployment: list[int] = []

    def point_passed(self, point: str, task: str, checkpoint_id: int) -> None:
        processes = self.world.processes
        if processes.current is None:
            self.done_alone.append(point)
        elif point == "restoring":
            self.living_at_deployment.append(len(processes.orphaned_tasks()))


def scenario(*faults: Fault, delay: int = 30, schedule: Schedule | None = None) -> Scenario:
    # All that these tests count on is set here: what a seed draws changes with the generator.
    words = tuple((time, ("ant", "bee", "cat", "dog", "elk")[time % 5]) for time in range(40))
    drawn = replace(
        generate(FAMILY, 0),
        records={"words-0": words, "words-1": words},
        parallelism=2,
        source_parallelism=2,
        sink_parallelism=2,
        max_parallelism=8,
        tolerable_failures=100,
    )
    plain = replace(drawn, faults=faults, restart_delay_ms=delay, seed=None, retained=1)
    plain = replace(plain, checkpoint_interval_ms=30, channel_capacity=2, mode=UNSET)
    return replace(plain, schedule=schedule or Schedule(), operations=(), checkpoint_timeout_ms=5000)


def attempts(history: History) -> Sequence[tuple[str, int | None]]:
    return [(event[2], event[3]["restored"]) for event in history.events if event[1] == ATTEMPT_STARTED]


@pytest.mark.parametrize("point", ["triggered", "acknowledged", "metadata_written", "completed", "element"])
def test_orphaned_tasks_run_until_the_next_attempt_starts(point: str) -> None:
    case = scenario(Fault("kill_master", point, checkpoint=0 if point == "element" else 1))  # type: ignore[arg-type]
    assert try_scenario(FAMILY, case, twice=True, continued=False).verdict.passed
    world = World(FAMILY, case)
    observer = world.faults.observer = OrphanObserver(world)
    world.faults.watch_everything()
    history = world.run()
    assert "element" in observer.done_alone
    assert set(observer.living_at_deployment) == {0}
    [first, second] = attempts(history)
    assert (first[0], second[0]) == ("1.1", "2.1")


def test_a_new_master_restores_the_last_checkpoint_and_continues_its_ids() -> None:
    history = World(FAMILY, scenario(Fault("kill_master", "completed", checkpoint=2))).run()
    assert attempts(history)[1] == ("2.1", 2)
    completed = [event[2] for event in history.events if event[1] == CHECKPOINT_COMPLETED]
    assert completed == sorted(set(completed))
    assert completed[2] == 3


def test_a_notification_that_is_under_way_still_commits() -> None:
    """It was sent before the master died; who hears it need not know."""
    history = World(FAMILY, scenario(Fault("kill_master", "notified", checkpoint=1))).run()
    second = next(event[0] for event in history.events if event[1:3] == (ATTEMPT_STARTED, "2.1"))
    visible = [event for event in history.events if event[1] == TRANSACTION_VISIBLE and event[0] < second]
    assert visible


def test_metadata_that_comes_after_the_next_claim_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = SimulatedProcess.publish
    refused: list[bool] = []

    def counting(self: SimulatedProcess, metadata: CheckpointMetadata) -> None:
        refused.append(self.is_superseded)
        publish(self, metadata)

    monkeypatch.setattr(SimulatedProcess, "lands_late", lambda self, action: action.perform == self._publish)
    monkeypatch.setattr(SimulatedProcess, "publish", counting)
    for steps in range(1, 12):
        last = sum(scenario().parallelisms())
        case = scenario(Fault("kill_master", "acknowledged", "*", 2, last, steps), delay=0)
        trial = try_scenario(FAMILY, case, twice=False, continued=False)
        assert trial.verdict.passed
        assert attempts(trial.history)[-1][1] in (1, 2)
    assert any(refused)


def test_masters_may_die_one_after_another_and_tasks_without_a_master_too() -> None:
    faults = (
        Fault("kill_master", "element", occurrence=20),
        Fault("kill_all", "element", occurrence=24),
        Fault("kill_master", "restored", occurrence=8),
        Fault("kill_process", "barrier_received", occurrence=3, after=2),
    )
    for schedule in (Schedule(), Schedule("uniform", 5, horizon=2000)):
        case = scenario(*faults, delay=7, schedule=schedule)
        trial = try_scenario(FAMILY, case, twice=True, continued=False)
        assert trial.verdict.passed
        assert len(attempts(trial.history)) >= 3
