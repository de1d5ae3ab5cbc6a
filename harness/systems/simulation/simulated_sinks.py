"""The engine's kinds of sinks over the simulated external system."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from onceproof.engine.connectors.commit_ledger import CommitLedger
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink_function import FileSinkFunction
from onceproof.engine.connectors.idempotent import UpsertSinkFunction
from onceproof.engine.connectors.object_sink_function import ObjectSinkFunction
from onceproof.engine.connectors.part_files import OutputFileConfig, Transaction
from onceproof.engine.connectors.rolling import RollingPolicy
from onceproof.engine.connectors.two_phase import Recovery, TwoPhaseCommitSinkFunction
from onceproof.engine.connectors.write_ahead import PendingBatch
from onceproof.engine.functions import RuntimeContext
from onceproof.engine.owner_ids import OWNER_DIGITS
from onceproof.engine.protocol_points import COMMITTED, COMMITTING
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.simulation.client_errors import OUTSIDE, reported_by
from onceproof.harness.systems.simulation.external_system import (
    SinkOfSeveral,
    TransactionalSystem,
    batch_name,
)
from onceproof.harness.systems.simulation.kafka_transactions import SimulatedKafkaSink
from onceproof.harness.systems.simulation.prepared_transactions import SimulatedPostgresSink
from onceproof.harness.systems.simulation.simulated_files import SimulatedFiles
from onceproof.harness.systems.simulation.simulated_object_store import SimulatedObjectCalls
from onceproof.harness.systems.sinks import (
    BUFFERED_KEYS,
    BatchSink,
    BucketsOfRows,
    ReactingSink,
    SinkKind,
    names_with_rows,
    sink_of,
)

ADDRESS: Final = "s3://simulation/rows"
FOLDER: Final = "/simulation/rows"
PLACE: Final = "f" * OWNER_DIGITS
PART_BYTES: Final = 40
"""A part of a few rows: files have several."""
ROLLS: Final = RollingPolicy.default_rolling_policy(80, rollover_interval=40, inactivity_interval=15)
ROLLS_ALSO_BY_COUNT: Final = RollingPolicy.default_rolling_policy(80, 40, 15, part_rows=4)
CHECK_INTERVAL_MS: Final = 10


class SimulatedSink(TwoPhaseCommitSinkFunction):
    """The engine's two-phase-commit sink over the external system, with a user context in each checkpoint."""

    def __init__(self, system: TransactionalSystem, place: str = "") -> None:
        super().__init__()
        self._system = system
        self._place = place

    def __deepcopy__(self, memo: object) -> SimulatedSink:
        return SimulatedSink(self._system, self._place)

    def begin_transaction(self) -> str:
        """Begin a transaction, which carries owner, subtask, epoch and attempt."""
        return self._system.begin(self.subtask, self.epoch, self.attempt, self.owner, place=self._place)

    def invoke_transaction(self, transaction: str, value: Any, context: Any) -> None:
        self._system.write(transaction, value)

    def pre_commit(self, transaction: str) -> None:
        self._system.prepare(transaction)

    def commit(self, transaction: str) -> None:
        with reported_by(OUTSIDE):
            self._system.commit(transaction)

    def abort(self, transaction: str) -> None:
        with reported_by(OUTSIDE):
            self._system.ask_to_abort(transaction)

    def initialize_user_context(self) -> str:
        """Return the place of the sink."""
        return self._place

    def finish_recovering_context(self, handled_transactions: Sequence[Any]) -> None:
        """Check that the context is that of the sink."""
        context = self.get_user_context()
        assert context == self._place, f"the sink at {self._place!r} has the user context {context!r}"

    def abort_unknown(self, recovery: Recovery) -> None:
        """Abort what no checkpoint lists and this subtask may sweep."""
        for each in self._system.unsettled():
            if recovery.may_abort(each.subtask, each.epoch, each.attempt, each.owner):
                self.abort(each.name)


class SimulatedFileSink(ObjectSinkFunction):
    """The engine's file sink at an address, over the simulated object store."""

    part_bytes = PART_BYTES

    def __init__(self, calls: SimulatedObjectCalls, rolls: RollingPolicy = ROLLS) -> None:
        super().__init__(
            ADDRESS,
            Encoder.json_lines_encoder(),
            OutputFileConfig.builder().build(),
            rolls,
            BucketsOfRows(),
            CHECK_INTERVAL_MS,
        )
        self._calls = calls
        self._policy = rolls
        self.notes_commits = calls.has_consumer
        self.calls_of = self._simulated

    def __deepcopy__(self, memo: object) -> SimulatedFileSink:
        return SimulatedFileSink(self._calls, self._policy)

    def commit(self, transaction: Transaction) -> None:
        """Commit all files; where one fails, those behind it come late as well, and the history says so."""
        try:
            super().commit(transaction)
        except OSError:
            self._calls.commits_failed(names_with_rows(transaction))
            raise

    def _simulated(self, bucket: str) -> SimulatedObjectCalls:
        return self._calls


class SimulatedFolderSink(FileSinkFunction):
    """The engine's file sink over the folders of the simulation."""

    def __init__(self, files: SimulatedFiles) -> None:
        super().__init__(
            FOLDER,
            Encoder.json_lines_encoder(),
            OutputFileConfig.builder().build(),
            ROLLS,
            BucketsOfRows(),
            CHECK_INTERVAL_MS,
        )
        self.calls = files
        self._files = files

    @property
    def ledger(self) -> CommitLedger:
        """The ledger of a job whose checkpoints outlive its processes, as those of the simulation do."""
        if self._ledger is None:
            self._ledger = CommitLedger(self.calls, PLACE)
        return self._ledger

    def __deepcopy__(self, memo: object) -> SimulatedFolderSink:
        return SimulatedFolderSink(self._files)

    def commit(self, transaction: Transaction) -> None:
        """Commit all files; where one fails, those behind it come late as well, and the history says so."""
        try:
            super().commit(transaction)
        except OSError:
            self._files.commits_failed(names_with_rows(transaction))
            raise


class SimulatedWriteAheadSink(BatchSink):
    """Sends its batches to the external system."""

    def __init__(self, system: TransactionalSystem, place: str = "") -> None:
        super().__init__(system)
        self._system = system
        self._place = place

    def __deepcopy__(self, memo: object) -> SimulatedWriteAheadSink:
        return SimulatedWriteAheadSink(self._system, self._place)

    def take(self, batch: PendingBatch) -> None:
        """Send the batch to the external system."""
        with reported_by(OUTSIDE):
            self._system.take_batch(
                sink_of(batch),
                batch.subtask,
                batch.checkpoint_id,
                batch.attempt,
                batch.values,
                self._place,
                self.raises_for(batch),
            )

    def name_of(self, batch: PendingBatch) -> str:
        """Return the name of the batch in the external system."""
        return batch_name(batch.subtask, batch.checkpoint_id, batch.attempt, self._place)


class SimulatedCommittingSink(ReactingSink):
    """A writer and a committer over the external system."""

    def __init__(self, system: TransactionalSystem, parameters: Mapping[str, Parameter], place: str) -> None:
        super().__init__(parameters)
        self._target = SinkOfSeveral(system, place)

    def target(self, task: RuntimeContext | None = None) -> SinkOfSeveral:
        """Return the external system, which is the same for all tasks."""
        return self._target


class SimulatedUpsertSink(UpsertSinkFunction):
    """Writes rows by their first columns into a table of the external system."""

    def __init__(self, system: TransactionalSystem, keys: int) -> None:
        super().__init__(BUFFERED_KEYS)
        self._system = system
        self._keys = keys

    def __deepcopy__(self, memo: object) -> SimulatedUpsertSink:
        return SimulatedUpsertSink(self._system, self._keys)

    def key_of(self, value: Any) -> Hashable:
        """Return the first columns of a row."""
        key: Hashable = value[: self._keys]
        return key

    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write between two protocol points."""
        context = self.get_runtime_context()
        context.probe(COMMITTING, 0)
        task = f"{context.get_task_name()}-{context.get_index_of_this_subtask()}"
        with reported_by(OUTSIDE):
            self._system.write_by_key(task, context.get_attempt_id(), self._keys, list(rows.values()))
        context.probe(COMMITTED, 0)


def make_sink(
    kind: SinkKind, system: TransactionalSystem, parameters: Mapping[str, Parameter], keys: int, place: str
) -> Any:
    """Return a new sink of a kind into the external system; ``place`` stands before the names."""
    match kind:
        case "write-ahead":
            return SimulatedWriteAheadSink(system, place)
        case "committing":
            return SimulatedCommittingSink(system, parameters, place)
        case "upsert" | "postgres-upsert":
            return SimulatedUpsertSink(system, keys)
        case "postgres":
            return SimulatedPostgresSink(system)
        case "kafka":
            return SimulatedKafkaSink(system)
