"""The sink of ``execute_and_collect``, which returns rows to the program that started the job.

The rows are in the memory of this process, outside of any task, like an external system: if a task dies, its
transactions stay. With checkpoints, the sink is a two-phase commit sink and returns every row exactly once.
Without checkpoints it returns rows as they arrive.

The job runs in a thread of its own. The program takes rows from a queue while they come, so the input need
not end.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

from onceproof.engine.connectors.sink import Sink
from onceproof.engine.connectors.two_phase import Recovery, TwoPhaseCommitSinkFunction
from onceproof.engine.functions import SinkFunction

Name = tuple[int, int, str]
"""Subtask, epoch and attempt; the rows have one owner."""


class CollectedRows:
    """The collected rows, shared by all sink functions of one job and the program that reads them."""

    def __init__(self) -> None:
        self.arrived: SimpleQueue[list[Any] | None] = SimpleQueue()
        """Rows in the order of their arrival; None: the job has ended."""
        self.transactions: dict[Name, list[Any]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> CollectedRows:
        return self


class CollectSinkFunction(SinkFunction):
    """Makes rows visible as they arrive."""

    def __init__(self, rows: CollectedRows) -> None:
        self._rows = rows

    def invoke(self, value: Any, context: Any) -> None:
        self._rows.arrived.put([value])

    def invoke_batch(self, values: list[Any]) -> bool:
        self._rows.arrived.put(values)
        return True


class TransactionalCollectSinkFunction(TwoPhaseCommitSinkFunction):
    """Makes rows visible when their checkpoint completes."""

    def __init__(self, rows: CollectedRows) -> None:
        super().__init__()
        self._rows = rows

    def begin_transaction(self) -> Name:
        """Begin an empty list under a new name."""
        name = (self.subtask, self.epoch, self.attempt)
        self._rows.transactions[name] = []
        return name

    def invoke_transaction(self, transaction: Name, value: Any, context: Any) -> None:
        self._rows.transactions[transaction].append(value)

    def invoke_transaction_batch(self, transaction: Name, values: list[Any]) -> bool:
        self._rows.transactions[transaction].extend(values)
        return True

    def pre_commit(self, transaction: Name) -> None:
        """Do nothing: memory needs no flush."""

    def commit(self, transaction: Name) -> None:
        """Make the rows visible; a transaction of an earlier process is not in this memory."""
        self._rows.arrived.put(self._rows.transactions.pop(transaction, []))

    def abort(self, transaction: Name) -> None:
        self._rows.transactions.pop(transaction, None)

    def abort_unknown(self, recovery: Recovery) -> None:
        """Drop the transactions of dead attempts."""
        owner = recovery.owner
        for name in [name for name in self._rows.transactions if recovery.may_abort(*name, owner)]:
            self.abort(name)


class CollectSink(Sink):
    """The sink that collects into ``rows``."""

    def __init__(self, rows: CollectedRows, *, transactional: bool) -> None:
        self._rows = rows
        self._transactional = transactional

    def create_function(self) -> SinkFunction:
        if self._transactional:
            return TransactionalCollectSinkFunction(self._rows)
        return CollectSinkFunction(self._rows)
