"""A checkpoint under way: who has answered, and with what.

pending -> finalizing (all answered, metadata being written) -> completed; or pending/finalizing -> aborted.
It has one outcome, and leaves the coordinator with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from engine.checkpoint.events import CheckpointPlan
from engine.checkpoint.metadata import CheckpointMetadata, OperatorMetadata, StateHandle, SubtaskState
from engine.messages import AcknowledgeCheckpoint, AttemptId, TaskId


class Answer(Enum):
    """What an acknowledgement was to the checkpoint (Flink: TaskAcknowledgeResult)."""

    SUCCESS = "success"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"


class PendingCheckpoint:
    """One checkpoint between its trigger and its outcome (Flink: PendingCheckpoint)."""

    __slots__ = (
        "_answers",
        "_finished",
        "attempt",
        "checkpoint_id",
        "finalizing",
        "missing",
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
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.timestamp_ms = timestamp_ms
        self.attempt = attempt
        self.finalizing = False
        self.published: CheckpointMetadata | None = None
        self.missing = dict.fromkeys(tasks)
        self._finished = frozenset(finished)
        self._answers: dict[TaskId, AcknowledgeCheckpoint] = {}

    def acknowledge(self, message: AcknowledgeCheckpoint) -> Answer:
        """Take one acknowledgement of this attempt."""
        if message.task in self.missing:
            del self.missing[message.task]
            self._answers[message.task] = message
            return Answer.SUCCESS
        return Answer.DUPLICATE if message.task in self._answers else Answer.UNKNOWN

    @property
    def is_fully_acknowledged(self) -> bool:
        """Whether nobody is missing."""
        return not self.missing

    def metadata(self, plan: CheckpointPlan, job_id: str, job_name: str) -> CheckpointMetadata:
        """What is to be published: for every operator, the state of each of its subtasks."""
        assert self.is_fully_acknowledged, (
            f"checkpoint {self.checkpoint_id} lacks {len(self.missing)} answers"
        )
        operators = []
        for vertex in plan.vertices:
            subtasks = tuple(
                self._subtask_state(TaskId(vertex.index, subtask)) for subtask in range(vertex.parallelism)
            )
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
            kind="checkpoint",
            attempt=self.attempt,
            operators=tuple(operators),
        )

    def _subtask_state(self, task: TaskId) -> SubtaskState:
        answer = self._answers.get(task)
        if answer is None:
            assert task in self._finished, f"checkpoint {self.checkpoint_id} has no state of {task}"
            return SubtaskState(None, True)
        handle = answer.handle
        assert handle is None or isinstance(handle, StateHandle)
        return SubtaskState(handle, answer.finished)
