"""Collects committables by checkpoint, and tracks the outcome of their commits.

Flink: CommittableCollector, CheckpointCommittableManager, SubtaskCommittableManager.

The rules this module lives by:

- A summary with the number of a subtask's committables precedes them. An incomplete batch is never committed.
- Checkpoints are committed in order, the oldest first, each with one call of the committer. Committables to
  be retried are passed again at once, up to a number of retries. The next checkpoint follows when no
  committable of this one is left.
- Finished committables are dropped. The crash may have come after the commit, so the committables of a
  restored checkpoint are committed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.connectors.sink_writer import CommitRequest, Committer
from onceproof.engine.errors import TransientError

MAX_RETRIES: Final = 10
"""Flink's default of sink.committer.retries."""


class CommittableSummary(Struct, frozen=True):
    """The number of committables of a subtask for a checkpoint (Flink: CommittableSummary)."""

    subtask: int
    checkpoint_id: int
    committables: int


class CommittableWithLineage(Struct, frozen=True):
    """A committable with its subtask and checkpoint (Flink: CommittableWithLineage)."""

    subtask: int
    checkpoint_id: int
    committable: Any


class CommitGivenUp(OSError):
    """Committables failed after all retries. The message is one line."""


class CommitFailedUnexpectedly(TransientError, RuntimeError):
    """The committer signalled a failure of unknown reason. The message is one line."""


class IncompleteCommittables(ValueError):
    """Some committables of a batch that is to be committed are missing."""


class UnexpectedCommittable(RuntimeError):
    """No summary announced the committable."""


class DuplicateSummary(RuntimeError):
    """A subtask sent a second summary for the same checkpoint."""


class CommitState(Enum):
    """The state of a commit request (Flink: CommitRequestState)."""

    RECEIVED = "received"
    RETRY = "retry"
    FAILED = "failed"
    COMMITTED = "committed"


class PendingCommit(CommitRequest):
    """A committable that is to be committed (Flink: CommitRequestImpl)."""

    __slots__ = ("_committable", "_retries", "state")

    def __init__(self, committable: Any) -> None:
        self._committable = committable
        self._retries = 0
        self.state = CommitState.RECEIVED

    def get_committable(self) -> Any:
        """Return the committable, as ``update_and_retry_later`` left it."""
        return self._committable

    def get_number_of_retries(self) -> int:
        """Return how often it was retried."""
        return self._retries

    def signal_failed_with_known_reason(self, t: BaseException) -> None:
        self.state = CommitState.FAILED

    def signal_failed_with_unknown_reason(self, t: BaseException) -> None:
        self.state = CommitState.FAILED
        raise CommitFailedUnexpectedly(f"commit of {self._committable!r} failed: {t}") from t

    def retry_later(self) -> None:
        self.state = CommitState.RETRY
        self._retries += 1

    def update_and_retry_later(self, committable: Any) -> None:
        self._committable = committable
        self.retry_later()

    def signal_already_committed(self) -> None:
        self.state = CommitState.COMMITTED

    @property
    def is_done_with(self) -> bool:
        """Whether the request is committed or has failed."""
        return self.state in (CommitState.COMMITTED, CommitState.FAILED)

    def __repr__(self) -> str:
        return repr(self._committable)


class Committed(Struct, frozen=True):
    """The outcome of the commit of one checkpoint."""

    checkpoint_id: int
    successful: tuple[Any, ...]
    failed: tuple[Any, ...]


class _Batch:
    """The committables of one subtask for one checkpoint."""

    __slots__ = ("expected", "requests")

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.requests: list[PendingCommit] = []


class CommittableCollector:
    """The committables of one subtask's committer, by checkpoint and by writing subtask."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: dict[int, dict[int, _Batch]] = {}

    def add_summary(self, summary: CommittableSummary) -> None:
        """Announce the committables of a subtask. Raises DuplicateSummary."""
        batches = self._batches.setdefault(summary.checkpoint_id, {})
        if summary.subtask in batches:
            raise DuplicateSummary(
                f"a second summary of subtask {summary.subtask} for checkpoint {summary.checkpoint_id}"
            )
        batches[summary.subtask] = _Batch(summary.committables)

    def add(self, committable: CommittableWithLineage) -> None:
        """Add an announced committable. Raises UnexpectedCommittable."""
        batch = self._batches.get(committable.checkpoint_id, {}).get(committable.subtask)
        if batch is None or len(batch.requests) >= batch.expected:
            raise UnexpectedCommittable(
                f"{committable.committable!r} of subtask {committable.subtask} for checkpoint"
                f" {committable.checkpoint_id} was not announced"
            )
        batch.requests.append(PendingCommit(committable.committable))

    def pending(self) -> list[Any]:
        """Return all committables, those of the oldest checkpoint first."""
        return [
            request.get_committable()
            for checkpoint_id in sorted(self._batches)
            for batch in self._batches[checkpoint_id].values()
            for request in batch.requests
        ]

    def count(self) -> int:
        """Return how many committables there are."""
        return sum([len(batch.requests) for batches in self._batches.values() for batch in batches.values()])

    def due(self, checkpoint_id: int) -> list[int]:
        """Return the checkpoints up to ``checkpoint_id`` with announced committables, oldest first."""
        return sorted([each for each in self._batches if each <= checkpoint_id])

    def commit(self, checkpoint_id: int, committer: Committer, max_retries: int = MAX_RETRIES) -> Committed:
        """Commit the committables of one checkpoint and drop them.

        Raises IncompleteCommittables, CommitGivenUp, and the errors of the committer.
        """
        requests: list[PendingCommit] = []
        for subtask, batch in self._batches[checkpoint_id].items():
            if len(batch.requests) < batch.expected:
                raise IncompleteCommittables(
                    f"subtask {subtask} announced {batch.expected} committables for checkpoint"
                    f" {checkpoint_id}, {len(batch.requests)} have come"
                )
            requests += batch.requests
        _try_all(requests, committer, max_retries)
        del self._batches[checkpoint_id]
        committed = [request for request in requests if request.state is CommitState.COMMITTED]
        failed = [request for request in requests if request.state is CommitState.FAILED]
        return Committed(
            checkpoint_id,
            tuple([request.get_committable() for request in committed]),
            tuple([request.get_committable() for request in failed]),
        )

    def stored(self) -> list[Any]:
        """Return the committables with their lineage, for the checkpoint."""
        return [
            [checkpoint_id, subtask, batch.expected, [each.get_committable() for each in batch.requests]]
            for checkpoint_id, batches in self._batches.items()
            for subtask, batch in batches.items()
        ]

    def restore(self, stored: Iterable[Sequence[Any]]) -> None:
        """Add committables from ``stored``, perhaps of several old subtasks."""
        for checkpoint_id, subtask, expected, committables in stored:
            batch = self._batches.setdefault(checkpoint_id, {}).setdefault(subtask, _Batch(0))
            batch.expected += expected
            batch.requests += [PendingCommit(committable) for committable in committables]


def _try_all(requests: list[PendingCommit], committer: Committer, max_retries: int) -> None:
    waiting = requests
    for _ in range(max_retries + 1):
        if not waiting:
            return
        for request in waiting:
            request.state = CommitState.RECEIVED
        committer.commit(tuple(waiting))
        for request in waiting:
            if request.state is CommitState.RECEIVED:
                request.state = CommitState.COMMITTED
        waiting = [request for request in waiting if not request.is_done_with]
    if waiting:
        raise CommitGivenUp(f"{len(waiting)} committables failed after {max_retries} retries: {waiting}")
