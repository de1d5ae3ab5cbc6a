"""The checkpoints of a job in this process: how many, how long, how large (Flink: CheckpointStatsTracker).

Rules:

- It hears what the driver hears of checkpoints, in the thread of the job, and decides nothing.
- The history has a fixed length. The latest completed checkpoint, savepoint and failure stay beyond it.
- An acknowledgement that comes late, twice or of another attempt changes nothing.
- After each completed checkpoint the size of each state of each operator is noted, over all subtasks: entries
  of keyed state and timers on the heap, elements of operator state. A database does not count its entries; of
  one the bytes of its tables are noted, for all states of the operator together.
- A state only grows if over the last ten checkpoints it never shrank, and grew in at least half of the steps.
  A state that still fills with a fixed set of keys grows as well, for a time.
- It reads the metadata of the checkpoint, which are there anyway.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Final

from onceproof.engine.checkpoint.metadata import CheckpointMetadata, OperatorMetadata, StateHandle
from onceproof.engine.messages import CHECKPOINT, AcknowledgeCheckpoint, TaskId
from onceproof.engine.runtime.monitor.job_view import (
    CheckpointsView,
    CheckpointView,
    GrowingState,
    RestoredView,
    SubtaskCheckpoint,
)

CHECKPOINTS: Final = 10
LEAST_RISES: Final = CHECKPOINTS // 2
ENTRIES: Final = "entries"
BYTES: Final = "bytes"
ALL_STATES: Final = "all states"


class StateGrowth:
    """The sizes of states at the last checkpoints."""

    __slots__ = ("_sizes",)

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, str, str], deque[int]] = {}
        """By operator, state and unit."""

    def completed(self, metadata: CheckpointMetadata) -> None:
        """Note the sizes at a completed checkpoint; a state that it does not have is forgotten."""
        sizes: Counter[tuple[str, str, str]] = Counter()
        for operator in metadata.operators:
            for state, unit, size in _sizes_of(operator):
                sizes[operator.name, state, unit] += size
        before = self._sizes
        self._sizes = {key: before.get(key, deque(maxlen=CHECKPOINTS)) for key in sizes}
        for key, size in sizes.items():
            self._sizes[key].append(size)

    def growing(self) -> tuple[GrowingState, ...]:
        """Return the states that only grow, the one that has grown most first."""
        found = [
            GrowingState(operator, state, unit, sizes[0], sizes[-1], len(sizes))
            for (operator, state, unit), sizes in self._sizes.items()
            if _only_grows(sizes)
        ]
        return tuple(sorted(found, key=lambda each: each.last - each.first, reverse=True))


def _only_grows(sizes: deque[int]) -> bool:
    steps = [later - earlier for earlier, later in pairwise(sizes)]
    return len(sizes) == CHECKPOINTS and min(steps) >= 0 and sum(step > 0 for step in steps) >= LEAST_RISES


def _sizes_of(operator: OperatorMetadata) -> Iterator[tuple[str, str, int]]:
    """Yield the name, the unit and the size of each state of each subtask."""
    for subtask in operator.subtasks:
        handle = subtask.handle
        index = None if handle is None else handle.index.get(operator.operator_id)
        if handle is None or index is None:
            continue
        for state, (_, elements) in index.operator.items():
            yield state, ENTRIES, elements
        if index.is_native:
            own = [file.length for file in handle.files if file.operator_id == operator.operator_id]
            yield ALL_STATES, BYTES, sum(own)
            continue
        for state, groups in index.keyed.items():
            yield state, ENTRIES, sum(groups.values())


IN_PROGRESS: Final = "IN_PROGRESS"
COMPLETED: Final = "COMPLETED"
FAILED: Final = "FAILED"


class _Tracked:
    """One checkpoint as it is known so far."""

    __slots__ = (
        "answers",
        "attempt",
        "checkpoint_id",
        "discarded",
        "ended_ms",
        "failure",
        "kind",
        "path",
        "status",
        "tasks",
        "triggered_ms",
        "view",
    )

    def __init__(self, checkpoint_id: int, kind: str, attempt: str, tasks: int, triggered_ms: int) -> None:
        self.checkpoint_id = checkpoint_id
        self.kind = kind
        self.attempt = attempt
        self.tasks = tasks
        self.triggered_ms = triggered_ms
        self.status = IN_PROGRESS
        self.ended_ms: int | None = None
        self.failure = ""
        self.path = ""
        self.discarded = False
        self.answers: dict[TaskId, SubtaskCheckpoint] = {}
        self.view: CheckpointView | None = None
        """Its view, once nothing changes any more."""


class CheckpointStatistics:
    """Counts and remembers the checkpoints of one process's run of a job; times are of the wall clock."""

    def __init__(self, history: int) -> None:
        self._history: deque[_Tracked] = deque(maxlen=history)
        self._pending: dict[int, _Tracked] = {}
        self._restored = 0
        self._completed = 0
        self._failed = 0
        self._latest_completed: _Tracked | None = None
        self._latest_savepoint: _Tracked | None = None
        self._latest_failed: _Tracked | None = None
        self._latest_restored: RestoredView | None = None
        self._growth = StateGrowth()

    def restored(self, metadata: CheckpointMetadata, path: str, now_ms: int) -> None:
        """An attempt begins from this checkpoint."""
        self._restored += 1
        is_savepoint = metadata.kind != CHECKPOINT
        self._latest_restored = RestoredView(metadata.checkpoint_id, now_ms, is_savepoint, path)

    def triggered(self, checkpoint_id: int, kind: str, attempt: str, tasks: int, now_ms: int) -> None:
        """A checkpoint begins, which ``tasks`` subtasks must acknowledge."""
        tracked = _Tracked(checkpoint_id, kind, attempt, tasks, now_ms)
        self._pending[checkpoint_id] = tracked
        self._history.append(tracked)

    def acknowledged(self, message: AcknowledgeCheckpoint, now_ms: int) -> None:
        """A subtask has acknowledged."""
        tracked = self._pending.get(message.checkpoint_id)
        if tracked is None or tracked.attempt != message.attempt or message.task in tracked.answers:
            return
        handle = message.handle if isinstance(message.handle, StateHandle) else None
        channels = None if handle is None else handle.channels
        measures = message.measures
        tracked.answers[message.task] = SubtaskCheckpoint(
            *message.task,
            now_ms,
            0 if handle is None else handle.total_length,
            0 if handle is None else handle.stored_length,
            0 if channels is None else channels.length,
            None if measures is None else measures.start_delay_ms,
            None if measures is None else measures.alignment_ms,
            None if measures is None else measures.sync_ms,
            None if measures is None else measures.async_ms,
            measures is not None and measures.is_unaligned,
        )

    def completed(
        self, checkpoint_id: int, path: str, now_ms: int, metadata: CheckpointMetadata | None = None
    ) -> None:
        """A checkpoint or savepoint is durable; the ``metadata`` of a checkpoint show how state grows."""
        if metadata is not None:
            self._growth.completed(metadata)
        tracked = self._end(checkpoint_id, COMPLETED, now_ms)
        if tracked is None:
            return
        self._completed += 1
        tracked.path = path
        if tracked.kind == CHECKPOINT:
            self._latest_completed = tracked
        else:
            self._latest_savepoint = tracked

    def aborted(self, checkpoint_id: int, reason: str, now_ms: int) -> None:
        """A checkpoint will not complete."""
        tracked = self._end(checkpoint_id, FAILED, now_ms)
        if tracked is not None:
            self._failed += 1
            tracked.failure = reason
            self._latest_failed = tracked

    def _end(self, checkpoint_id: int, status: str, now_ms: int) -> _Tracked | None:
        tracked = self._pending.pop(checkpoint_id, None)
        if tracked is not None:
            tracked.status = status
            tracked.ended_ms = now_ms
        return tracked

    def view(self, retained: Collection[int]) -> CheckpointsView:
        """Return what is known now; of completed checkpoints the ``retained`` ones are not discarded."""
        for tracked in self._history:
            if tracked.status == COMPLETED and tracked.kind == CHECKPOINT and not tracked.discarded:
                tracked.discarded = tracked.checkpoint_id not in retained
                tracked.view = None if tracked.discarded else tracked.view
        return CheckpointsView(
            self._restored,
            self._completed,
            self._failed,
            len(self._pending),
            tuple([_view_of(each) for each in reversed(self._history)]),
            None if self._latest_completed is None else _view_of(self._latest_completed),
            None if self._latest_savepoint is None else _view_of(self._latest_savepoint),
            None if self._latest_failed is None else _view_of(self._latest_failed),
            self._latest_restored,
            self._growth.growing(),
        )


def _view_of(tracked: _Tracked) -> CheckpointView:
    if tracked.view is not None:
        return tracked.view
    view = CheckpointView(
        tracked.checkpoint_id,
        tracked.kind,
        tracked.status,
        tracked.attempt,
        tracked.triggered_ms,
        tracked.ended_ms,
        tracked.tasks,
        tuple([tracked.answers[task] for task in sorted(tracked.answers)]),
        tracked.failure,
        tracked.path,
        tracked.discarded,
    )
    if tracked.status != IN_PROGRESS:
        tracked.view = view
    return view
