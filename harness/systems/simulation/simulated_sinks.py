"""The engine's sinks besides two-phase commit, over the simulated external system."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from onceproof.engine.connectors.idempotent import UpsertSinkFunction
from onceproof.engine.connectors.write_ahead import PendingBatch
from onceproof.engine.functions import RuntimeContext
from onceproof.engine.protocol_points import COMMITTED, COMMITTING
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.simulation.external_system import TransactionalSystem, batch_name
from onceproof.harness.systems.sinks import BUFFERED_KEYS, BatchSink, ReactingSink


class SimulatedWriteAheadSink(BatchSink):
    """Sends its batches to the external system."""

    def __init__(self, system: TransactionalSystem) -> None:
        super().__init__(system)
        self._system = system

    def __deepcopy__(self, memo: object) -> SimulatedWriteAheadSink:
        return SimulatedWriteAheadSink(self._system)

    def take(self, batch: PendingBatch) -> None:
        """Hand it over."""
        self._system.take_batch(batch.subtask, batch.checkpoint_id, batch.attempt, batch.values)

    def name_of(self, batch: PendingBatch) -> str:
        """As the external system names it."""
        return batch_name(batch.subtask, batch.checkpoint_id, batch.attempt)


class SimulatedCommittingSink(ReactingSink):
    """A writer and a committer over the external system."""

    def __init__(self, system: TransactionalSystem, parameters: Mapping[str, Parameter]) -> None:
        super().__init__(parameters)
        self._system = system

    def target(self, task: RuntimeContext | None = None) -> TransactionalSystem:
        """The external system, which is the same for all."""
        return self._system


class SimulatedUpsertSink(UpsertSinkFunction):
    """Writes rows by their first columns into a table of the external system."""

    def __init__(self, system: TransactionalSystem, keys: int) -> None:
        super().__init__(BUFFERED_KEYS)
        self._system = system
        self._keys = keys

    def __deepcopy__(self, memo: object) -> SimulatedUpsertSink:
        return SimulatedUpsertSink(self._system, self._keys)

    def key_of(self, value: Any) -> Hashable:
        """The first columns."""
        key: Hashable = value[: self._keys]
        return key

    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write between two protocol points."""
        context = self.get_runtime_context()
        context.probe(COMMITTING, 0)
        task = f"{context.get_task_name()}-{context.get_index_of_this_subtask()}"
        self._system.write_by_key(task, context.get_attempt_id(), self._keys, list(rows.values()))
        context.probe(COMMITTED, 0)
