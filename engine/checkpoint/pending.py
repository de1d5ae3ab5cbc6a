"""A checkpoint between trigger and outcome: the acknowledgements it has and those it lacks.

pending -> finalizing (all answered, metadata being written) -> completed; or pending/finalizing -> aborted.
It has one outcome, and leaves the coordinator with it.

A finished subtask contributes nothing, and for most state that is right: its state is no longer needed. Union
list state belongs to all subtasks; without the part of the finished ones it would be restored with holes, so
such a checkpoint is refused. From that follow two rules for the end of an operator with union list state:

- All its subtasks end with one checkpoint (Flink: DefaultCheckpointPlan). One that completed while some had
  reached the end of their data and others had not would let the former finish; every later one would be
  refused, and the latter wait for ever for the checkpoint that lets them finish. So it is refused, too.
- A subtask whose notification of that checkpoint is lost would wait for ever as well: Flink sends it once.
  With each checkpoint that is refused, the coordinator notifies the tasks again of the latest complete one.
  Tasks ignore what they know, and the checkpoint is durable, so repeating it is safe; an interval repeats it
  until one notification arrives.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import Final

from onceproof.engine.checkpoint.events import CheckpointPlan
from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
)
from onceproof.engine.graph import JobVertex
from onceproof.engine.messages import CHECKPOINT, AcknowledgeCheckpoint, AttemptId, Kind, TaskId
from onceproof.engine.state.stored import UNION


class Answer(Enum):
    """What an acknowledgement meant to the checkpoint (Flink: TaskAcknowledgeResult)."""

    SUCCESS = "success"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"


class PartlyFinished(Exception):
    """The checkpoint lacks state of subtasks that have finished. The message is one line."""


SUCCESS: Final = Answer.SUCCESS
DUPLICATE: Final = Answer.DUPLICATE
UNKNOWN: Final = Answer.UNKNOWN


@lru_cache(maxsize=1024)
def _tasks_of(vertex: int, parallelism: int) -> tuple[TaskId, ...]:
    """Return the subtasks of a vertex; cached, because jobs have the same few shapes."""
    return tuple([TaskId(vertex, subtask) for subtask in range(parallelism)])


class PendingCheckpoint:
    """One checkpoint between its trigger and its outcome (Flink: PendingCheckpoint)."""

    __slots__ = (
        "_answers",
        "_finished",
        "attempt",
        "checkpoint_id",
        "finalizing",
        "kind",
        "missing",
        "number",
        "published",
        "timestamp_ms",
    )

    def __init__(
        self,
        checkpoint_id: int,
        timestamp_ms: int,
        attempt: AttemptId,
        tasks: Iterable[TaskId],
        finished: Iterable[TaskId],
        kind: Kind = CHECKPOINT,
        number: int = 0,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.timestamp_ms = timestamp_ms
        self.attempt = attempt
        self.kind = kind
        self.number = number
        """The number of the request; 0: no sender waits for the outcome."""
        self.finalizing = False
        self.published: CheckpointMetadata | None = None
        self.missing = dict.fromkeys(tasks)
        self._finished = frozenset(finished)
        self._answers: dict[TaskId, AcknowledgeCheckpoint] = {}

    def acknowledge(self, message: AcknowledgeCheckpoint) -> Answer:
        """Process one acknowledgement of this attempt; a repeated one changes nothing."""
        task = message.task
        if task in self.missing:
            del self.missing[task]
            self._answers[task] = message
            return SUCCESS
        return DUPLICATE if task in self._answers else UNKNOWN

    @property
    def is_fully_acknowledged(self) -> bool:
        """Return whether all tasks have acknowledged."""
        return not self.missing

    def metadata(self, plan: CheckpointPlan, job_id: str, job_name: str) -> CheckpointMetadata:
        """Return the metadata to publish: for every operator, the state of each of its subtasks.

        Raises PartlyFinished.
        """
        assert self.is_fully_acknowledged, (
            f"checkpoint {self.checkpoint_id} lacks {len(self.missing)} answers"
        )
        operators = []
        ended = self._finished.union([task for task, answer in self._answers.items() if answer.finished])
        for vertex in plan.vertices:
            if ended:
                self._check_partly_finished(vertex, ended)
            tasks = _tasks_of(vertex.index, vertex.parallelism)
            subtasks = tuple([self.subtask_state(task) for task in tasks])
            for node in vertex.operators:
                operators.append(
                    OperatorMetadata(
                        node.operator_id,
                        node.uid,
                        node.name,
                        vertex.parallelism,
                        vertex.max_parallelism,
                        subtasks,
                    )
                )
        return CheckpointMetadata(
            checkpoint_id=self.checkpoint_id,
            job_id=job_id,
            job_name=job_name,
            timestamp=self.timestamp_ms,
            kind=self.kind,
            attempt=self.attempt,
            operators=tuple(operators),
        )

    def _check_partly_finished(self, vertex: JobVertex, ended: frozenset[TaskId]) -> None:
        """Refuse union list state where some subtasks have finished, or some but not all are at their end."""
        tasks = _tasks_of(vertex.index, vertex.parallelism)
        if self._finished.isdisjoint(tasks) and (ended.isdisjoint(tasks) or ended.issuperset(tasks)):
            return
        for task in tasks:
            answer = self._answers.get(task)
            handle = None if answer is None else answer.handle
            if not isinstance(handle, StateHandle):
                continue
            for node in vertex.operators:
                index = handle.index.get(node.operator_id)
                if index is not None and any(mode == UNION for mode, _ in index.operator.values()):
                    raise PartlyFinished(
                        f"operator {node.name!r} keeps union list state, and some of its subtasks have ended:"
                        " checkpoints go on when all have"
                    )

    def subtask_state(self, task: TaskId) -> SubtaskState:
        """Return what the metadata lists of a subtask."""
        answer = self._answers.get(task)
        if answer is None:
            assert task in self._finished, f"checkpoint {self.checkpoint_id} has no state of {task}"
            return SubtaskState(None, True)
        handle = answer.handle
        assert handle is None or isinstance(handle, StateHandle)
        return SubtaskState(handle, answer.finished)
