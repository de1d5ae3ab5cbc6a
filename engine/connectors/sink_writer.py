"""The writer and the committer of a sink (Flink: Sink V2).

The writer takes values and returns committables, plain data that describe output to be made visible. The
committer makes it visible once the checkpoint that lists the committables is complete. The engine keeps the
committables in checkpoints and calls the committer, so neither implements state or notifications.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from onceproof.engine.functions import RuntimeContext, SinkFunction


class WriterInitContext(Struct, frozen=True):
    """The argument of ``Sink.create_writer`` (Flink: WriterInitContext)."""

    _runtime_context: RuntimeContext
    _restored_checkpoint_id: int | None

    def get_task_info(self) -> RuntimeContext:
        """Return the context of the subtask: its index, parallelism and attempt."""
        return self._runtime_context

    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of the restored checkpoint, or None at a fresh start."""
        return self._restored_checkpoint_id


class CommitterInitContext(Struct, frozen=True):
    """The argument of ``Sink.create_committer`` (Flink: CommitterInitContext)."""

    _runtime_context: RuntimeContext

    def get_task_info(self) -> RuntimeContext:
        """Return the context of the subtask: its index, parallelism and attempt."""
        return self._runtime_context


class SinkWriter(ABC):
    """Writes the values of one subtask (Flink: SinkWriter)."""

    Context = SinkFunction.Context

    @abstractmethod
    def write(self, element: Any, context: Any) -> None:
        """Write one value; the writer may buffer it until ``flush``.

        Args:
            element: the value of the record.
            context: a SinkFunction.Context with the record's timestamp.
        """

    @abstractmethod
    def flush(self, end_of_input: bool) -> None:
        """Write all buffered values.

        Args:
            end_of_input: whether the input has ended; otherwise a checkpoint is being taken.
        """

    def close(self) -> None:
        """Release resources; called when the task finishes or is cancelled, never after a crash."""


class CommittingSinkWriter(SinkWriter):
    """A writer whose output a committer makes visible (Flink: CommittingSinkWriter)."""

    @abstractmethod
    def prepare_commit(self) -> Collection[Any]:
        """Return the committables of the values since the last call; their data must be durable."""


class StatefulSinkWriter(SinkWriter):
    """A writer with state of its own (Flink: StatefulSinkWriter)."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the state in parts, which a rescaling splits among the subtasks."""


class CommitRequest(ABC):
    """One committable and the outcome of its commit (Flink: Committer.CommitRequest).

    A request for which the committer signals nothing counts as committed.
    """

    @abstractmethod
    def get_committable(self) -> Any:
        """Return the committable of the writer."""

    @abstractmethod
    def get_number_of_retries(self) -> int:
        """Return how often ``retry_later`` was called."""

    @abstractmethod
    def signal_failed_with_known_reason(self, t: BaseException) -> None:
        """Drop the committable, because it can never be committed. Its data is lost."""

    @abstractmethod
    def signal_failed_with_unknown_reason(self, t: BaseException) -> None:
        """Fail the job, because the commit failed for an unknown reason."""

    @abstractmethod
    def retry_later(self) -> None:
        """Retry the commit: it is not possible now."""

    @abstractmethod
    def update_and_retry_later(self, committable: Any) -> None:
        """Retry the commit with ``committable``, the part that is left."""

    @abstractmethod
    def signal_already_committed(self) -> None:
        """Report that the committable was committed before, as after a crash in the middle of commits."""


class Committer(ABC):
    """Makes committables visible (Flink: Committer)."""

    @abstractmethod
    def commit(self, committables: Collection[CommitRequest]) -> None:
        """Commit all requests. After a crash some come again: the commit must be idempotent.

        Args:
            committables: the requests of one checkpoint, or those of them to retry.
        """

    def close(self) -> None:
        """Release resources; called when the task finishes or is cancelled, never after a crash."""
