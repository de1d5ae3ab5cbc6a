"""Which committables are to be committed, with which checkpoint, and what became of them.

Flink: CommittableCollector, CheckpointCommittableManager, SubtaskCommittableManager. The rules:

- The committables of a checkpoint come behind a summary that says how many there are of a subtask. An
  incomplete batch is never committed: a part of it would be taken for the whole.
- They are committed oldest checkpoint first, each in one call; those that are to be tried again are, at once
  and only they, so many times. The next checkpoint has its turn when all of this one are done with.
- What is done with is forgotten. What a restored checkpoint lists may have been committed already, for the
  crash may have come after: so it is committed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.connectors.sink_writer import CommitRequest, Committer

MAX_RETRIES: Final = 10
"""Flink's default."""


class CommittableSummary(Struct, frozen=True):
    """So many committables of a subtask follow for a checkpoint (Flink: CommittableSummary)."""

    subtask: int
    checkpoint_id: int
    committables: int


class CommittableWithLineage(Struct, frozen=True):
    """A committable, and where it comes from (Flink: CommittableWithLineage)."""

    subtask: int
    checkpoint_id: int
    committable: Any


class CommitGivenUp(OSError):
    """Committables were tried again as often as is allowed. The message is one line."""


class CommitFailedUnexpectedly(RuntimeError):
    """The committer said that something failed and it does not know why. The message is one line."""


class IncompleteCommittables(ValueError):
    """A batch is to be committed of which not all have come."""


class UnexpectedCommittable(RuntimeError):
    """A committable that no summary announced."""


class DuplicateSummary(RuntimeError):
    """A second summary of a subtask for the same checkpoint."""


class CommitState(Enum):
    """What became of a request."""

    RECEIVED = "received"
    RETRY = "retry"
    FAILED = "failed"
    COMMITTED = "committed"


class PendingCommit(CommitRequest):
    """A committable that is to be committed."""

    __slots__ = ("_committable", "_retries", "state")

    def __init__(self, committable: Any) -> None:
        self._committable = committable
        self._retries = 0
        self.state = CommitState.RECEIVED

    def get_committable(self) -> Any:
        """What the writer gave, or what is left of it."""
        return self._committable

    def get_number_of_retries(self) -> int:
        """How often it was put off."""
        return self._retries

    def signal_failed_with_known_reason(self, t: BaseException) -> None:
        """Drop it."""
        self.state = CommitState.FAILED

    def signal_failed_with_unknown_reason(self, t: BaseException) -> None:
        """Fail the job."""
        self.state = CommitState.FAILED
        raise CommitFailedUnexpectedly(f"commit of {self._committable!r} failed: {t}") from t

    def retry_later(self) -> None:
        """Put it off."""
        self.state = CommitState.RETRY
        self._retries += 1

    def update_and_retry_later(self, committable: Any) -> None:
        """Put off what is left of it."""
        self._committable = committable
        self.retry_later()

    def signal_already_committed(self) -> None:
        """It is done."""
        self.state = CommitState.COMMITTED

    @property
    def is_done_with(self) -> bool:
        """Whether there is nothing more to be tried."""
        return self.state in (CommitState.COMMITTED, CommitState.FAILED)

    def __repr__(self) -> str:
        return repr(self._committable)


class Committed(Struct, frozen=True):
    """What became of the committables of one checkpoint."""

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
    """The committables of one subtask's committer, by checkpoint and by the subtask that wrote them."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: dict[int, dict[int, _Batch]] = {}

    def add_summary(self, summary: CommittableSummary) -> None:
        """Expect so many committables. Raises DuplicateSummary."""
        batches = self._batches.setdefault(summary.checkpoint_id, {})
        if summary.subtask in batches:
            raise DuplicateSummary(
                f"a second summary of subtask {summary.subtask} for checkpoint {summary.checkpoint_id}"
            )
        batches[summary.subtask] = _Batch(summary.committables)

    def add(self, committable: CommittableWithLineage) -> None:
        """Take one that is expected. Raises UnexpectedCommittable."""
        batch = self._batches.get(committable.checkpoint_id, {}).get(committable.subtask)
        if batch is None or len(batch.requests) >= batch.expected:
            raise UnexpectedCommittable(
                f"{committable.committable!r} of subtask {committable.subtask} for checkpoint"
                f" {committable.checkpoint_id} was not announced"
            )
        batch.requests.append(PendingCommit(committable.committable))

    def pending(self) -> list[Any]:
        """All committables, those of the oldest checkpoint first."""
        return [
            request.get_committable()
            for checkpoint_id in sorted(self._batches)
            for batch in self._batches[checkpoint_id].values()
            for request in batch.requests
        ]

    def due(self, checkpoint_id: int) -> list[int]:
        """The checkpoints up to that one which have committables, or had to have some, oldest first."""
        return sorted([each for each in self._batches if each <= checkpoint_id])

    def commit(self, checkpoint_id: int, committer: Committer, max_retries: int = MAX_RETRIES) -> Committed:
        """Commit those of one checkpoint, and forget them.

        Raises IncompleteCommittables, CommitGivenUp, and whatever the committer raises.
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
        """Plain data to be kept in a checkpoint, as far as committables are."""
        return [
            [checkpoint_id, subtask, batch.expected, [each.get_committable() for each in batch.requests]]
            for checkpoint_id, batches in self._batches.items()
            for subtask, batch in batches.items()
        ]

    def restore(self, stored: Iterable[Sequence[Any]]) -> None:
        """Take over what ``stored`` gave, perhaps in another subtask, beside what is there."""
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
