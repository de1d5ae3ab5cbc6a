"""Runs to compare a scenario with: a recorded checkpoint restored, and the run up to a cut without faults.

The rules this module lives by:

- A restored run finds what was there when the checkpoint completed, in the storage and outside, and nothing
  of what came later. It has no faults: its end follows from the checkpoint alone.
- The undisturbed run reads exactly the input before a cut, with everything else done before each read, and
  takes its one checkpoint there. Its keyed state is on the heap, whatever the backend of the scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.messages import CHECKPOINT, checkpoint_folder
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.task import Task
from onceproof.harness.model.family import Family, Rows
from onceproof.harness.model.history import Cut, Event, History, rows_at_end
from onceproof.harness.model.scenario import Scenario, Schedule, StateBackend
from onceproof.harness.model.step_limits import ample_step_budget, ample_timeout_ms
from onceproof.harness.systems.simulation.actions import Action, Slot
from onceproof.harness.systems.simulation.checkpoint_recorder import (
    CheckpointRecorder,
    RecordedCheckpoint,
    copy_of,
)
from onceproof.harness.systems.simulation.modelled_databases import ModelledDatabases
from onceproof.harness.systems.simulation.schedule import NOTHING, ListingChooser
from onceproof.harness.systems.simulation.tracing import NO_TRACER, Tracer
from onceproof.harness.systems.simulation.world import World, has_consumer


class RecordedRun(NamedTuple):
    """The checkpoints and savepoints of a run, in the order in which they completed."""

    checkpoints: list[RecordedCheckpoint]
    retained: list[RecordedCheckpoint]
    """Those that the job had to keep for a time, with the files that the directory held at the end of it."""
    events: Sequence[Event] = ()
    """The visible events of the run."""


def recorded_run(family: Family, scenario: Scenario) -> RecordedRun:
    """Run a scenario; return all its checkpoints and savepoints."""
    return run_recorded(family, scenario)[1]


def run_recorded(family: Family, scenario: Scenario, trace: bool = False) -> tuple[History, RecordedRun]:
    """Run a scenario; return its history with all its checkpoints and savepoints, which change nothing in it.

    Args:
        trace: whether the history carries the full trace.
    """
    world = World(family, scenario, tracer=Tracer() if trace else NO_TRACER)
    recorder = _recorder_of(world)
    world.recorder.retention.keeps_files = True
    history = world.run()
    held = world.recorder.retention.held(world.requests.savepoints_of_user())
    by_id = {each.metadata.checkpoint_id: each for each in recorder.recorded}
    retained = [
        replace(recorded, files=held[checkpoint_id])
        for checkpoint_id, recorded in by_id.items()
        if checkpoint_id in held
    ]
    return history, RecordedRun(recorder.recorded, retained, history.events)


def recorded_checkpoints(family: Family, scenario: Scenario) -> list[RecordedCheckpoint]:
    """Run a scenario; return all its checkpoints and savepoints in the order in which they completed."""
    return recorded_run(family, scenario).checkpoints


def _recorder_of(world: World) -> CheckpointRecorder:
    recorder = CheckpointRecorder(world.storage, world.external, world.history, world.clock, world.processes)
    recorder.has_models = world.job.databases is not None
    world.recorder.observer = recorder
    return recorder


def restored_run(
    family: Family,
    scenario: Scenario,
    recorded: RecordedCheckpoint,
    parallelism: int,
    backend: StateBackend | None = None,
    trace: bool = False,
) -> History:
    """Restore a recorded checkpoint and run to the end.

    What was visible already and the completion of the checkpoint begin the history, at step 0.

    Args:
        parallelism: that of the keyed operators.
        backend: where they keep their state, if not where they did before: a savepoint can be read by each
            backend.
        trace: whether the history carries the full trace.
    """
    calm = replace(scenario, faults=(), parallelism=parallelism, operations=UNSET)
    # One that was drawn short for the job as it was would let no checkpoint of a larger one complete. Yet it
    # leaves time to go on: in a drawn graph a checkpoint may wait until it expires.
    timeout = max(scenario.checkpoint_timeout_ms, ample_timeout_ms(calm))
    calm = replace(calm, checkpoint_timeout_ms=timeout)
    if backend is not None:
        calm = replace(calm, state_backend=backend)
    world = World(family, calm, tracer=Tracer() if trace else NO_TRACER)
    metadata = recorded.metadata
    if metadata.kind != CHECKPOINT:
        # The job goes on from this one, whatever checkpoints it had besides.
        folder = checkpoint_folder(metadata.checkpoint_id, metadata.kind)
        world.requests.begins_from = StartingPoint(folder, metadata.checkpoint_id)
    world.storage.files = dict(recorded.files)
    # Which databases a scenario has follows from its seed and faults; the files are those of the run.
    world.job.databases = ModelledDatabases() if recorded.has_models else None
    world.external.transactions = {each.name: copy_of(each) for each in recorded.transactions}
    world.external.has_consumer = has_consumer(scenario)
    world.external.outside = recorded.outside and recorded.outside.copy()
    world.history.events.extend((0, *event[1:]) for event in recorded.visible)
    world.job.is_upgraded = recorded.is_upgraded
    world.recorder.already_recorded(metadata.checkpoint_id)
    world.clock.now = recorded.now_ms
    world.clock.ahead_ms = recorded.ahead_ms
    return world.run()


def run_to_checkpoint(family: Family, scenario: Scenario, checkpoint: int, trace: bool = False) -> History:
    """Run a scenario, faults and all, until a checkpoint or savepoint of it is complete."""
    world = World(family, scenario, tracer=Tracer() if trace else NO_TRACER)
    world.recorder.observer = _EndsAt(checkpoint, world.end)
    return world.run()


def undisturbed_checkpoint(
    family: Family, scenario: Scenario, cut: Cut, has_watermarks: bool = True
) -> RecordedCheckpoint | None:
    """Run without faults up to a cut; return the checkpoint that covers it, None where there is none.

    Args:
        has_watermarks: whether periodic watermarks come before the checkpoint; both are sound runs.
    """
    recorded, _ = _run_to_cut(family, scenario, cut, checkpoints=1, has_watermarks=has_watermarks)
    return recorded[0] if recorded and recorded[0].cut == cut else None


def undisturbed_rows(
    family: Family, scenario: Scenario, cut: Cut, has_watermarks: bool = True
) -> Rows | None:
    """Run without faults up to a cut; return the rows that a checkpoint there makes visible.

    Everything that was sent has arrived before the checkpoint begins, so no race has part in the result.

    Args:
        has_watermarks: whether periodic watermarks come before the checkpoint; both are sound runs.

    Returns:
        The rows; None where no checkpoint covers the cut.
    """
    # The first checkpoint has been committed when the second one, of the same cut, is complete.
    recorded, history = _run_to_cut(family, scenario, cut, checkpoints=2, has_watermarks=has_watermarks)
    is_covered = len(recorded) == 2 and all(each.cut == cut for each in recorded)
    return rows_at_end(history) if is_covered else None


def _run_to_cut(
    family: Family, scenario: Scenario, cut: Cut, checkpoints: int, has_watermarks: bool = True
) -> tuple[list[RecordedCheckpoint], History]:
    budget = ample_step_budget(replace(scenario, faults=(), schedule=Schedule()))
    calm = replace(
        scenario,
        faults=(),
        operations=UNSET,
        # Its barriers overtake nothing: what is before the cut is in the state.
        mode=UNSET,
        endless=UNSET,
        buffer_records=UNSET,
        state_backend=UNSET,
        incremental=UNSET,
        schedule=Schedule(horizon=2 * budget),
        checkpoint_interval_ms=budget,
        checkpoint_timeout_ms=10 * budget,
        step_budget=2 * budget,
        # Shorter, timers would always be under way, before which nothing is read. Once all is read the clock
        # jumps from one to the next, so event time has come as far as it can. Longer, none comes in time.
        watermark_interval_ms=UNSET if has_watermarks else 100 * budget,
    )
    world = World(family, calm, chooser=_UpToCut(cut))
    recorder = _recorder_of(world)
    world.recorder.observer = _FirstOnes(recorder, world.end, checkpoints)
    return recorder.recorded, world.run()


class _EndsAt:
    """Ends the run when a checkpoint is complete."""

    def __init__(self, checkpoint: int, end: Callable[[], None]) -> None:
        self._checkpoint = checkpoint
        self._end = end

    def attempt_started(self, attempt: str, restored: int | None) -> None:
        """Ignore the start of an attempt."""

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Ignore a snapshot."""

    def checkpoint_completed(self, metadata: CheckpointMetadata, cut: Cut) -> None:
        if metadata.checkpoint_id == self._checkpoint:
            self._end()


class _FirstOnes:
    """Records the first checkpoints and ends the run with the last of them."""

    def __init__(self, recorder: CheckpointRecorder, end: Callable[[], None], checkpoints: int) -> None:
        self._recorder = recorder
        self._end = end
        self._checkpoints = checkpoints

    def attempt_started(self, attempt: str, restored: int | None) -> None:
        self._recorder.attempt_started(attempt, restored)

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        self._recorder.snapshot_taken(task, effect)

    def checkpoint_completed(self, metadata: CheckpointMetadata, cut: Cut) -> None:
        if len(self._recorder.recorded) < self._checkpoints:
            self._recorder.checkpoint_completed(metadata, cut)
        if len(self._recorder.recorded) == self._checkpoints:
            self._end()


class _UpToCut(ListingChooser):
    """Lets the sources read what is before a cut, and everything else go first."""

    __slots__ = ("_cut",)

    def __init__(self, cut: Cut) -> None:
        self._cut = cut

    def choose(self, slots: Sequence[Slot], pending: Sequence[Action], step: int) -> int:
        """Choose what is under way, then what can be delivered, then a read."""
        if pending:
            return len(slots)
        sources = []
        for index, slot in enumerate(slots):
            if slot.queue and slot.is_ready():
                if not slot.task.is_source:
                    return index
                sources.append(index)
        for index in sources:
            head: Any = slots[index].task.operators[0]
            if self._turns_to_unread(head):
                return index
        return NOTHING

    def _turns_to_unread(self, head: SourceOperator) -> bool:
        """Turn a source to a split that is not yet read up to the cut; return whether it has one."""
        for turn, (split, position) in enumerate(head.positions().items()):
            if position < self._cut.get(split, 0):
                head.start_at_split(turn)
                return True
        return False
