"""Watches one worker of an application: its steps become events and points at which faults strike.

The rules this module lives by:

- Quix Streams runs as it is released. Its public methods are wrapped in the process of a worker, and do what
  they always do between the events.
- The checkpoint of a worker is one transaction of Kafka, or with at least once one commit of offsets. Every
  message that is sent in it has its name in a header, because readers of Kafka are not shown transactions.
- What is committed is logged before the commit, and again once that is answered. So the log has each commit
  that can have taken place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from confluent_kafka import TopicPartition
from quixstreams.checkpointing import Checkpoint
from quixstreams.context import message_context
from quixstreams.internal_consumer import InternalConsumer
from quixstreams.internal_producer import InternalProducer
from quixstreams.kafka.producer import Producer

from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.systems.commit_faults import answer, refuse
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.quix.events import (
    COMMITTED,
    COMMITTING,
    RECORD_READ,
    RESUMED,
    TRANSACTION,
    transaction_name,
    worker_name,
)

Offsets = dict[str, dict[str, int]]
"""By topic and partition, as JSON has it."""


class AppProbe:
    """The probe of one worker.

    Args:
        board: of the run.
        topics: of the scenario; the last message of each split is the end of it.
        attempt: the one in which the worker was started.
        index: of the worker.
    """

    def __init__(self, board: FaultBoard, topics: TrialTopics, attempt: int, index: int) -> None:
        self._board = board
        self._log = board.log
        self._splits: Final = list(topics.lengths)
        self._lengths: Final = topics.lengths
        self._attempt = attempt
        self._index = index
        self._worker = worker_name(index)
        self._number = 0
        self._offsets: Offsets = {}

    # In the application.

    def read(self, value: Any, key: Any, timestamp: int, headers: Any) -> dict[str, Any]:
        """Return a message of the input as a record."""
        context = message_context()
        split, offset = self._splits[context.partition], context.offset
        is_end = offset == self._lengths[split] - 1
        if is_end:
            self._board("end_of_data", self._worker, 0)
        else:
            self._board("element", self._worker, 0)
            self._log.write(RECORD_READ, split=split, offset=offset)
        event_time, content = value
        return {
            "split": split,
            "offset": offset,
            "timestamp": event_time,
            "value": content,
            "is_end": is_end,
        }

    def headers(self, value: Any, key: Any, timestamp: int, headers: Any) -> list[tuple[str, bytes]]:
        """Return the headers of a message that is sent in the checkpoint that is open."""
        return [(TRANSACTION, self._transaction.encode())]

    # Around the steps of Quix Streams.

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the application of this process, as long as the context lasts."""
        with ExitStack() as stack:
            for owner, name, wrapped in (
                (InternalProducer, "begin_transaction", self._beginning),
                (Checkpoint, "commit", self._checkpoint),
                (InternalProducer, "commit_transaction", self._sending),
                (Producer, "commit_transaction", self._transaction_commit),
                (InternalConsumer, "commit", self._offsets_commit),
                (InternalConsumer, "committed", self._assigned),
            ):
                stack.enter_context(replaced(owner, name, wrapped(vars_of(owner, name))))
            yield

    @property
    def _transaction(self) -> str:
        return transaction_name(self._attempt, self._index, self._number)

    def _beginning(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        def begin_transaction(producer: Any) -> None:
            self._number += 1
            begin(producer)

        return begin_transaction

    def _checkpoint(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        def commit_checkpoint(checkpoint: Any, **how: Any) -> None:
            self._board("barrier_received", self._worker, 0)
            commit(checkpoint, **how)
            self._board("notified", self._worker, 0)

        return commit_checkpoint

    def _sending(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        def send_and_commit(
            producer: Any, positions: Sequence[TopicPartition], *arguments: Any, **named: Any
        ) -> None:
            self._offsets = offsets_of(positions)
            self._board("snapshotted", self._worker, 0)
            commit(producer, positions, *arguments, **named)

        return send_and_commit

    def _transaction_commit(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        def commit_transaction(producer: Any, *arguments: Any, **named: Any) -> None:
            self._commit(lambda: commit(producer, *arguments, **named))

        return commit_transaction

    def _offsets_commit(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        def commit_offsets(consumer: Any, *arguments: Any, **named: Any) -> Any:
            self._offsets = offsets_of(named.get("offsets") or ())
            self._number += 1
            self._board("snapshotted", self._worker, 0)
            return self._commit(lambda: commit(consumer, *arguments, **named))

        return commit_offsets

    def _commit(self, act: Callable[[], Any]) -> Any:
        """Commit what is in the checkpoint. Raises InjectedError where a fault says so."""
        name = self._transaction
        fault = self._board.commit_fault(self._worker)
        refuse(fault, f"the commit of {name} was refused", lambda: None)
        self._log.write(COMMITTING, worker=self._worker, transaction=name, offsets=self._offsets)
        self._board("committing", self._worker, 0)
        result = act()
        self._log.write(COMMITTED, transaction=name)
        answer(fault, f"the commit of {name} timed out", lambda: None)
        self._board("committed", self._worker, 0)
        self._board("completed", self._worker, 0)
        return result

    def _assigned(self, committed: Callable[..., Any]) -> Callable[..., Any]:
        def committed_offsets(consumer: Any, *arguments: Any, **named: Any) -> Any:
            found = committed(consumer, *arguments, **named)
            self._log.write(RESUMED, worker=self._worker, offsets=offsets_of(found))
            self._board("restored", self._worker, 0)
            return found

        return committed_offsets


def vars_of(owner: type, name: str) -> Callable[..., Any]:
    """Return a public method of a class of Quix Streams, its own or one that it inherits."""
    for each in owner.__mro__:
        if name in vars(each):
            method: Callable[..., Any] = vars(each)[name]
            return method
    raise AttributeError(f"{owner.__name__} of this version of Quix Streams has no {name}")


def offsets_of(positions: Sequence[TopicPartition]) -> Offsets:
    """Return positions as JSON has them."""
    offsets: dict[str, dict[str, int]] = {}
    for each in positions:
        offsets.setdefault(each.topic, {})[str(each.partition)] = each.offset
    return offsets
