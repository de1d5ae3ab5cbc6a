"""Another job that writes into the same external system: what it has there must survive the job on trial.

The rules this module lives by:

- The neighbour's sinks are the engine's, so a planted bug changes them, too: what the engine writes into
  names is what the neighbour's names carry.
- The neighbour has the operators, subtasks and checkpoint ids of the job on trial, but is another job. It has
  sent batches that the job on trial must not take for its own, and has transactions, prepared and open, that
  the job must not abort.
- Its attempts are of an earlier process than any of the job on trial: a sink leaves alone what a later one
  has written anyway, so only what is earlier shows whether it asks for the owner.
- It does all that before the run begins, and nothing of it enters the history. Its rows are empty afterwards:
  no comparison of outputs meets them.
- What it has written is the same in each run of the same code. So a process lets it write once, and again
  where its sinks have been changed, as planted bugs do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace

from onceproof.engine.functions import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
)
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.harness.model.history import History
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.external_system import Transaction, TransactionalSystem
from onceproof.harness.systems.simulation.kafka_transactions import SimulatedKafkaSink
from onceproof.harness.systems.simulation.simulated_sinks import (
    SimulatedSink,
    SimulatedWriteAheadSink,
)

NEIGHBOUR: Final = "neighbour"
SUBTASKS: Final = 2
CHECKPOINTS: Final = 8
_ROW: Final = (NEIGHBOUR,)


class _Moved:
    """What the neighbour writes, kept for the next runs of this process."""

    def __init__(self) -> None:
        sinks = (SimulatedSink, SimulatedWriteAheadSink, TransactionalSystem)
        classes = {each for sink in sinks for each in sink.__mro__ if each is not object}
        self._owners: Final = (*classes, *{sys.modules[each.__module__] for each in classes})
        self._code: list[object] = []
        self._transactions: list[Transaction] = []

    def transactions(self) -> list[Transaction]:
        """Return new transactions, in the order of their beginning."""
        code = list(chain.from_iterable([vars(owner).values() for owner in self._owners]))
        if code != self._code:
            self._code = code
            self._transactions = _written()
        return [replace(each, rows=[]) for each in self._transactions]


def move_in(external: TransactionalSystem) -> None:
    """Let the neighbour write into the external system, as far as it ever gets."""
    for transaction in _MOVED.transactions():
        external.transactions[transaction.name] = transaction
        external.neighbours[transaction.name] = transaction.state


def _written() -> list[Transaction]:
    system = TransactionalSystem(History(), Clock(), f"{NEIGHBOUR}/")
    for subtask in range(SUBTASKS):
        # The system names batches and transactions alike: each has an attempt of its own.
        _run(SimulatedSink(system), subtask, "0.1", commits=False)
        _run(SimulatedWriteAheadSink(system), subtask, "0.2", commits=True)
    return list(system.transactions.values())


def move_files_in(external: TransactionalSystem, new_sink: Callable[[TransactionalSystem], Any]) -> None:
    """Let the neighbour's file sinks write into the store or the folder of the job on trial.

    Nothing is in trouble for them. What a restored copy of the system has of them is left as it is.
    """
    system = TransactionalSystem(History(), Clock())
    known = set(external.transactions)
    system.transactions = external.transactions
    if any(each.key for each in external.transactions.values()):
        return
    for subtask in range(SUBTASKS):
        _run(new_sink(system), subtask, "0.3", commits=False)
    for transaction in system.transactions.values():
        if transaction.name not in known:
            transaction.rows = []
            external.neighbours[transaction.name] = transaction.state


def move_producers_in(external: TransactionalSystem) -> None:
    """Let the neighbour's Kafka sinks leave transactions with the brokers of the job on trial.

    Their prefix is that of the job. What a restored copy of the system has of them is left as it is.
    """
    system = TransactionalSystem(History(), Clock())
    known = set(external.transactions)
    system.transactions = external.transactions
    if any(each.key for each in external.transactions.values()):
        return
    for subtask in range(SUBTASKS):
        _run(SimulatedKafkaSink(system), subtask, "0.4", commits=False)
    for transaction in system.transactions.values():
        if transaction.name not in known:
            transaction.rows = []
            external.neighbours[transaction.name] = transaction.state


class _RowWithoutTime:
    """The context of the neighbour's rows."""

    def timestamp(self) -> None:
        return None


def _run(sink: Any, subtask: int, attempt: str, *, commits: bool) -> None:
    """Take checkpoints of a sink, with a row before each; the last transaction stays open."""
    store = OperatorStateStore()
    sink.set_runtime_context(
        RuntimeContext(
            task_name=NEIGHBOUR,
            subtask=subtask,
            parallelism=SUBTASKS,
            max_parallelism=SUBTASKS,
            attempt=attempt,
            clock=_midnight,
            pass_point=_no_point,
            job_id=NEIGHBOUR,
            operator_id=NEIGHBOUR,
        )
    )
    sink.initialize_state(FunctionInitializationContext(None, store))
    sink.open(sink.get_runtime_context())
    for checkpoint_id in range(1, CHECKPOINTS + 1):
        sink.invoke(_ROW, _RowWithoutTime())
        sink.snapshot_state(FunctionSnapshotContext(checkpoint_id, 0))
        if commits:
            sink.notify_checkpoint_complete(checkpoint_id)


def _midnight() -> int:
    return 0


_MOVED: Final = _Moved()


def _no_point(point: str, checkpoint_id: int) -> None:
    return None
