"""Simulated runs are replayed through the specifications, and planted bugs are named by their first step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from onceproof.engine.api.join_functions import _CoGroup
from onceproof.engine.checkpoint.completed_store import CompletedCheckpointStore
from onceproof.engine.job.master import JobMaster
from onceproof.engine.job.restart_strategies import FixedDelayRestart
from onceproof.engine.operators.base import FunctionOperator
from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.engine.task.barriers.events import AbortCheckpoint
from onceproof.engine.task.barriers.tracker import BarrierTracker
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.task.event_context import EventContext
from onceproof.engine.task.outputs import Output
from onceproof.engine.task.task import Task
from onceproof.engine.watermarks.generators import WatermarksWithIdleness
from onceproof.engine.watermarks.valve import WatermarkValve
from onceproof.harness.checkers import PROPERTIES, properties_asked_of
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import DEVIATED, History
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.scenario import Operation, Scenario
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.trial import scenario_of

MODES = {
    "aligned": CheckpointMode(),
    "unaligned": CheckpointMode("unaligned"),
    "timed": CheckpointMode("unaligned", 2),
    "counted": CheckpointMode("at_least_once"),
}
FAMILY = load_family("word_count")


def runs(mode: str, family: Any = FAMILY, seeds: int = 6, *operations: Operation) -> Iterator[History]:
    """Run a few scenarios of a family in a mode."""
    for seed in range(seeds):
        scenario: Scenario = scenario_of(family, seed)
        changed = replace(scenario, seed=None, mode=MODES[mode], checkpoint_interval_ms=12)
        if operations:
            changed = replace(changed, operations=operations)
        yield SimulatedSystem().run(family, changed)


def deviations(histories: Iterator[History]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (subject, payload)
        for history in histories
        for _, kind, subject, payload in history.events
        if kind == DEVIATED
    ]


@pytest.mark.parametrize("mode", MODES)
def test_run_without_a_bug_deviates_in_no_step(mode):
    assert deviations(runs(mode)) == []


def test_run_with_user_requests_deviates_in_no_step():
    asked = (Operation("savepoint", "snapshotted"), Operation("stop", "completed", occurrence=2))
    assert deviations(runs("aligned", FAMILY, 6, *asked)) == []


def test_only_the_simulation_is_asked_for_conformance():
    assert properties_asked_of(SimulatedSystem.capabilities) == list(PROPERTIES)
    assert "conformance" not in properties_asked_of(SimulatedSystem.capabilities - {Capability.MACHINES_SEEN})


def nothing(*arguments: Any, **others: Any) -> list[Any]:
    return []


@contextmanager
def alignment_that_is_never_timed() -> Iterator[None]:
    with replaced(EventContext, "wake_at_steady", nothing):
        yield


@contextmanager
def barriers_that_never_overtake() -> Iterator[None]:
    def behind(self: Output, barrier: Any) -> list[list[Any]]:
        self.broadcast(barrier)
        return [[] for _ in self.queues]

    with replaced(Output, "overtake", behind):
        yield


@contextmanager
def snapshot_that_waits_for_the_last_barrier() -> Iterator[None]:
    begin = UnalignedBarrierHandler._begin

    def aligned(self: Any, barrier: Any, now: int, effects: list[Any]) -> None:
        begin(self, barrier, now, effects)
        effects[:] = [each for each in effects if type(each).__name__ != "StartAlignmentTimer"]

    with replaced(UnalignedBarrierHandler, "_begin", aligned):
        yield


@contextmanager
def channels_that_never_wait() -> Iterator[None]:
    align = AlignedBarrierHandler.align

    def free(self: Any, channel: int, effects: list[Any]) -> None:
        align(self, channel, effects)
        self.blocked[channel] = False

    with replaced(AlignedBarrierHandler, "align", free):
        yield


@contextmanager
def barriers_that_are_taken_one_by_one() -> Iterator[None]:
    def start(self: Any, channel: int, barrier: Any) -> list[Any]:
        return list(self._start(barrier))

    with replaced(BarrierTracker, "barrier_arrived", start):
        yield


@contextmanager
def restart_that_does_not_wait() -> Iterator[None]:
    with replaced(FixedDelayRestart, "backoff_ms", lambda self, now: 0):
        yield


@contextmanager
def older_checkpoints_that_are_never_dropped() -> Iterator[None]:
    add = CompletedCheckpointStore.add

    def kept(self: Any, completed: Any) -> list[Any]:
        add(self, completed)
        return []

    with replaced(CompletedCheckpointStore, "add", kept):
        yield


@contextmanager
def failures_that_end_no_attempt() -> Iterator[None]:
    with replaced(JobMaster, "task_failed", nothing):
        yield


@contextmanager
def checkpoints_that_are_given_up_in_silence() -> Iterator[None]:
    barrier_effects = Task._barrier_effects

    def silent(self: Task, decisions: Any) -> Any:
        return barrier_effects(self, [each for each in decisions if type(each) is not AbortCheckpoint])

    with replaced(Task, "_barrier_effects", silent):
        yield


@contextmanager
def markers_that_are_not_sent() -> Iterator[None]:
    decline = Task._decline

    def unheard(self: Task, checkpoint_id: int, reason: str, effects: list[Any]) -> None:
        # Those of sources are sent: without one, no task behind them gives a checkpoint up.
        outputs, self.outputs = self.outputs, [] if self.queues else self.outputs
        decline(self, checkpoint_id, reason, effects)
        self.outputs = outputs

    with replaced(Task, "_decline", unheard):
        yield


BUGS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "no timer": (alignment_that_is_never_timed, "timed", "a timer by"),
    "no overtaking": (barriers_that_never_overtake, "unaligned", "its barrier ahead of all records"),
    "no time-out": (snapshot_that_waits_for_the_last_barrier, "timed", "StartAlignmentTimer"),
    "no blocking": (channels_that_never_wait, "aligned", "channels wait"),
    "no counting": (barriers_that_are_taken_one_by_one, "counted", "[]"),
    "no wait": (restart_that_does_not_wait, "aligned", "a restart between"),
    "no subsumption": (older_checkpoints_that_are_never_dropped, "aligned", "no longer retained"),
    "no failure": (failures_that_end_no_attempt, "aligned", "the end of an attempt that failed"),
    "no decline": (checkpoints_that_are_given_up_in_silence, "aligned", "declined"),
    "no marker": (markers_that_are_not_sent, "unaligned", "a marker in every output"),
}


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_named_by_its_first_step(name):
    planted, mode, expected = BUGS[name]
    with planted():
        found = deviations(runs(mode, seeds=20))
    assert any(expected in payload["expected"] for _, payload in found), found[:3]


def test_valve_that_forgets_an_idle_channel_is_named():
    status = WatermarkValve.status

    def deaf(self: Any, channel: int, is_idle: bool) -> Any:
        return () if is_idle else status(self, channel, is_idle)

    with replaced(WatermarkValve, "status", deaf):
        found = deviations(runs("aligned", load_family("pausing_sensors"), 8))
    assert found
    assert found[0][0].startswith("valve of ")


def test_stream_that_turns_idle_whatever_records_it_has_is_named():
    on_event = WatermarksWithIdleness.on_event

    def deaf(self: Any, event: Any, event_timestamp: int, output: Any) -> None:
        on_event(self, event, event_timestamp, output)
        self._was_active = False

    family = load_family("pausing_sensors")
    assert not deviations(runs("aligned", family, 8))
    with replaced(WatermarksWithIdleness, "on_event", deaf):
        found = deviations(runs("aligned", family, 8))
    assert found
    assert found[0][0] == "idleness of a stream"


def without(step: str, call: str) -> Callable[[], AbstractContextManager[None]]:
    """Return what plants a step of operators that leaves out a call of the function."""

    @contextmanager
    def planted() -> Iterator[None]:
        sound = getattr(FunctionOperator, step)

        def silent(self: FunctionOperator, *arguments: Any) -> Any:
            left_out = getattr(self.function, call)
            setattr(self.function, call, nothing)
            try:
                return sound(self, *arguments)
            finally:
                setattr(self.function, call, left_out)

        with replaced(FunctionOperator, step, silent):
            yield

    return planted


@contextmanager
def notices_that_stay_with_the_operator() -> Iterator[None]:
    with replaced(FunctionOperator, "notify_checkpoint_complete", nothing):
        yield


@contextmanager
def joins_that_hold_on_to_their_functions() -> Iterator[None]:
    with replaced(_CoGroup, "close", nothing):
        yield


@pytest.mark.parametrize(
    ("planted", "family", "event"),
    [
        (without("open", "open"), "word_count", "open"),
        (without("close", "close"), "word_count", "close"),
        (notices_that_stay_with_the_operator, "random_job", "notify_checkpoint_complete"),
        (joins_that_hold_on_to_their_functions, "visits_and_purchases", "close"),
    ],
)
def test_call_of_a_function_that_is_left_out_is_named(planted, family, event):
    with planted():
        found = deviations(runs("aligned", load_family(family), 12))
    assert found
    assert found[0][0].startswith("functions of an operator with ")
    assert found[0][1]["event"] == event


def test_what_is_found_does_not_change_the_run():
    [sound] = runs("aligned", seeds=1)
    with restart_that_does_not_wait():
        other = [each for each in runs("aligned", seeds=8) if deviations(iter([each]))]
    assert other[0].events[-1][1] == DEVIATED
    assert sound.trace_hash == next(runs("aligned", seeds=1)).trace_hash
