"""What a sink of Flink's second generation is made of (Flink: Sink V2): a writer, and perhaps a committer.

The writer takes values and gives committables, plain data that say what is to be made visible; the committer
makes it so once the checkpoint that lists them is complete. Whoever implements them has no state to keep and
no checkpoint to follow: the engine does both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from onceproof.engine.functions import RuntimeContext, SinkFunction


class WriterInitContext(Struct, frozen=True):
    """What a writer may know of where it runs (Flink: WriterInitContext)."""

    _runtime_context: RuntimeContext
    _restored_checkpoint_id: int | None

    def get_task_info(self) -> RuntimeContext:
        """The subtask, its parallelism and its attempt."""
        return self._runtime_context

    def get_restored_checkpoint_id(self) -> int | None:
        """The checkpoint that the job goes on from, or None at a fresh start."""
        return self._restored_checkpoint_id


class CommitterInitContext(Struct, frozen=True):
    """What a committer may know of where it runs (Flink: CommitterInitContext)."""

    _runtime_context: RuntimeContext

    def get_task_info(self) -> RuntimeContext:
        """The subtask, its parallelism and its attempt."""
        return self._runtime_context


class SinkWriter(ABC):
    """Takes the values of one subtask (Flink: SinkWriter)."""

    Context = SinkFunction.Context

    @abstractmethod
    def write(self, element: Any, context: Any) -> None:
        """Take one value; it may wait in a buffer until ``flush``."""

    @abstractmethod
    def flush(self, end_of_input: bool) -> None:
        """Let nothing wait any more: a checkpoint is taken, or the input has ended."""

    def close(self) -> None:
        """Called at the orderly end and at cancellation, never after a crash."""


class CommittingSinkWriter(SinkWriter):
    """A writer whose output becomes visible by a committer (Flink: CommittingSinkWriter)."""

    @abstractmethod
    def prepare_commit(self) -> Collection[Any]:
        """Give what is to be committed of the values since the last time; it must survive any crash."""


class StatefulSinkWriter(SinkWriter):
    """A writer with state of its own (Flink: StatefulSinkWriter)."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Give the state, in parts that may go to different subtasks on a rescale."""


class CommitRequest(ABC):
    """One committable, and what became of it (Flink: Committer.CommitRequest).

    Where a committer says nothing of a request it has committed it.
    """

    @abstractmethod
    def get_committable(self) -> Any:
        """What the writer gave."""

    @abstractmethod
    def get_number_of_retries(self) -> int:
        """How often ``retry_later`` was said of it."""

    @abstractmethod
    def signal_failed_with_known_reason(self, t: BaseException) -> None:
        """It can never be committed, and that is no surprise: drop it. What it holds is lost."""

    @abstractmethod
    def signal_failed_with_unknown_reason(self, t: BaseException) -> None:
        """It cannot be committed, and nobody knows why: fail the job."""

    @abstractmethod
    def retry_later(self) -> None:
        """It cannot be committed now."""

    @abstractmethod
    def update_and_retry_later(self, committable: Any) -> None:
        """It cannot be committed now, and this is what is left of it."""

    @abstractmethod
    def signal_already_committed(self) -> None:
        """It had been committed before, as after a crash in the middle of commits."""


class Committer(ABC):
    """Makes committables visible (Flink: Committer)."""

    @abstractmethod
    def commit(self, committables: Collection[CommitRequest]) -> None:
        """Commit all; after a crash some come again, and must be found to be done."""

    def close(self) -> None:
        """Called at the orderly end and at cancellation, never after a crash."""
