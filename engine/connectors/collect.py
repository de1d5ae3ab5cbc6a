"""The sink behind ``execute_and_collect``: rows come back into the program that started the job.

The rows live in the memory of this process, outside of any task, as an external system would: a task may die,
its transactions stay. With checkpoints on, the sink is a two-phase commit sink and every row comes back
exactly once; without, there is nothing to commit with, and rows come back as they arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine.connectors.sink import Sink
from onceproof.engine.connectors.two_phase import Recovery, TwoPhaseCommitSinkFunction
from onceproof.engine.functions import SinkFunction

Name = tuple[int, int, str]
"""Subtask, epoch and attempt."""


class CollectedRows:
    """What was collected so far, shared by all sinks of one job."""

    def __init__(self) -> None:
        self.visible: list[Any] = []
        self.transactions: dict[Name, list[Any]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> CollectedRows:
        return self


class CollectSinkFunction(SinkFunction):
    """Hands rows over as they arrive."""

    def __init__(self, rows: CollectedRows) -> None:
        self._rows = rows

    def invoke(self, value: Any, context: Any) -> None:
        """Hand one over."""
        self._rows.visible.append(value)

    def invoke_batch(self, values: list[Any]) -> bool:
        """Hand many over."""
        self._rows.visible.extend(values)
        return True


class TransactionalCollectSinkFunction(TwoPhaseCommitSinkFunction):
    """Hands rows over when the checkpoint that covers them is complete."""

    def __init__(self, rows: CollectedRows) -> None:
        super().__init__()
        self._rows = rows

    def begin_transaction(self) -> Name:
        """An empty list under a new name."""
        name = (self.subtask, self.epoch, self.attempt)
        self._rows.transactions[name] = []
        return name

    def invoke_transaction(self, transaction: Name, value: Any, context: Any) -> None:
        """Keep one row."""
        self._rows.transactions[transaction].append(value)

    def invoke_transaction_batch(self, transaction: Name, values: list[Any]) -> bool:
        """Keep many rows."""
        self._rows.transactions[transaction].extend(values)
        return True

    def pre_commit(self, transaction: Name) -> None:
        """Memory has nothing to flush."""

    def commit(self, transaction: Name) -> None:
        """Hand the rows over, once. What an earlier process kept was its own to hand out."""
        self._rows.visible.extend(self._rows.transactions.pop(transaction, ()))

    def abort(self, transaction: Name) -> None:
        """Forget the rows."""
        self._rows.transactions.pop(transaction, None)

    def abort_unknown(self, recovery: Recovery) -> None:
        """Forget what dead attempts left."""
        for name in [name for name in self._rows.transactions if recovery.may_abort(*name)]:
            self.abort(name)


class CollectSink(Sink):
    """Collects into ``rows``."""

    def __init__(self, rows: CollectedRows, *, transactional: bool) -> None:
        self._rows = rows
        self._transactional = transactional

    def create_function(self) -> SinkFunction:
        """A function for one subtask."""
        if self._transactional:
            return TransactionalCollectSinkFunction(self._rows)
        return CollectSinkFunction(self._rows)


class CloseableIterator:
    """The rows of ``execute_and_collect``; usable in a ``with`` statement."""

    def __init__(self, rows: Iterator[Any]) -> None:
        self._rows = rows

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        return next(self._rows)

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what has not been read."""
        self._rows = iter(())
