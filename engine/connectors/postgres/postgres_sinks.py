"""Sinks into tables of PostgreSQL: exactly once by prepared transactions, by key, or from checkpoints.

The rules this module lives by:

- `PostgresSink` appends rows and commits them with their checkpoint. It needs max_prepared_transactions.
- `PostgresUpsertSink` keeps the last row of each key; readers see rows before their checkpoint is complete.
  Each of its transactions passes the fence (`upsert_fence.py`).
- `PostgresWriteAheadSink` appends rows that checkpoints have kept until they were complete. A batch and its
  entry in the ledger are one transaction, so a batch that is sent twice is there once. It needs no prepared
  transactions, and the checkpoints carry the rows. They also hold the last batch that is known as sent: a
  ledger that lacks it is that of a database which was restored from an older backup.
- A subtask that begins to write ends the sessions of dead attempts first: what they had asked for would come
  late.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.connectors.idempotent import BUFFERED_KEYS, UpsertSinkFunction
from onceproof.engine.connectors.jdbc.exactly_once_function import (
    BATCH_ROWS,
    LEDGER_RETENTION_MS,
    ExactlyOnceFunction,
)
from onceproof.engine.connectors.jdbc.jdbc_options import JdbcConnectionOptions
from onceproof.engine.connectors.jdbc.two_phase_database import (
    PREFIX,
    DatabaseUnavailable,
    LedgerEntry,
    LostTransaction,
    RefusedByDatabase,
    SessionName,
    is_dead,
)
from onceproof.engine.connectors.postgres.postgres_sessions import (
    LEDGER,
    PostgresDatabase,
    PostgresLedger,
    PostgresSession,
)
from onceproof.engine.connectors.postgres.postgres_table import (
    PostgresTable,
    beside_parameters,
    make_table,
    name_in,
    quoted_name,
    shown,
)
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.connectors.upsert_fence import COLUMNS, FENCE, UpsertFence
from onceproof.engine.connectors.write_ahead import CheckpointCommitter, GenericWriteAheadSink, PendingBatch
from onceproof.engine.extras import POSTGRES, require
from onceproof.engine.functions import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
)
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import Types

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation

USE = "sink into"
_SENT: Final = ListStateDescriptor("sent-batches", Types.DYNAMIC())


class PostgresSink(Sink):
    """Appends rows to a table exactly once, by prepared transactions (ours; Flink: JdbcSink.exactlyOnceSink).

    Args:
        options: where the database is.
        table: the name of the table, which must exist.
        columns: the names of the columns, in the order of the rows.
        schema: the schema of the table and of the ledger; "": as the user's search path says.
        batch_rows: the number of rows at which a subtask sends them.
        ledger: the name of the table with one entry for each transaction; made if it does not exist.
        ledger_retention_ms: how long entries are kept. A savepoint that is older cannot be distinguished
            from one whose rows were lost.

    Raises:
        ExtraMissing: psycopg is not installed.
        ValueError: a name is not possible.
    """

    def __init__(
        self,
        options: JdbcConnectionOptions,
        table: str,
        columns: Sequence[str],
        *,
        schema: str = "",
        batch_rows: int = BATCH_ROWS,
        ledger: str = LEDGER,
        ledger_retention_ms: int = LEDGER_RETENTION_MS,
    ) -> None:
        require("PostgresSink", POSTGRES)
        self.database = PostgresDatabase(
            PostgresTable(options, table, columns, schema, USE), PostgresLedger(ledger, schema)
        )
        self._batch_rows = batch_rows
        self._ledger_retention_ms = ledger_retention_ms

    def create_function(self) -> ExactlyOnceFunction:
        """Return a function for one subtask."""
        return ExactlyOnceFunction(self.database, self._batch_rows, self._ledger_retention_ms)


class PostgresUpsertFunction(UpsertSinkFunction):
    """Writes the rows of one subtask by their key."""

    def __init__(self, table: PostgresTable, keys: int, buffered_keys: int, schema: str = "") -> None:
        super().__init__(buffered_keys)
        self._target = table
        self._fence_name = name_in(schema, FENCE)
        self._fence = UpsertFence(beside_parameters(self._fence_name), table.place, "%s")
        self._keys = keys
        columns = [beside_parameters(quoted_name(column)) for column in table.columns]
        changes = ", ".join(f"{column} = EXCLUDED.{column}" for column in columns[keys:])
        places = ", ".join(["%s"] * len(columns))
        self._statement = (
            f"INSERT INTO {beside_parameters(table.name)} ({', '.join(columns)}) VALUES ({places})"
            f" ON CONFLICT ({', '.join(columns[:keys])})"
            f" DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"
        )
        self._session: PostgresSession | None = None

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Restore what the fence has counted."""
        self._fence.initialize_state(context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Send the rows, and store what the fence has counted."""
        super().snapshot_state(context)
        self._fence.snapshot_state()

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connect, check the table, and take it over. Raises RefusedByDatabase, DatabaseUnavailable."""
        from onceproof.engine.connectors.postgres.timed_connection import translated

        session = self._session = _session_of(self._target, runtime_context, PostgresLedger(LEDGER, ""))
        with translated(self._target.place):
            self._target.check(session.connection, "INSERT")
            self._target.check(session.connection, "UPDATE")
            self._target.check_unique(session.connection, self._target.columns[: self._keys])
            connection = session.connection
            make_table(
                connection,
                self._target.place,
                "fence",
                self._fence_name,
                COLUMNS,
                "SELECT, INSERT and UPDATE",
            )
            with connection.transaction():
                # Of several subtasks that take rows over at once, none waits for a row of another one.
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (FENCE,))
                self._fence.take_over(connection.execute, runtime_context)

    def key_of(self, value: Any) -> Hashable:
        """Return the first columns of a row. Raises RefusedByDatabase."""
        self._target.check_row(value)
        key = tuple(value[: self._keys])
        if None in key:
            raise RefusedByDatabase(
                f"{self._target.place}: a column of the key is None in row {shown(value)}: give it a value"
            )
        return key

    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write the rows in one transaction. Raises RefusedByDatabase, DatabaseUnavailable.

        Raises also that another process has the job (see `UpsertFence.enter`).
        """
        from onceproof.engine.connectors.postgres.timed_connection import translated

        assert self._session is not None, "the sink is used before it is opened"
        connection = self._session.connection
        # In a pipeline the fence costs no round trip.
        with (
            translated(self._target.place),
            connection.pipeline() as pipeline,
            connection.transaction(),
            connection.cursor() as cursor,
        ):
            entered = self._fence.enter(connection.execute)
            self.write(cursor, rows)
            pipeline.sync()
            self._fence.require(entered, connection.execute)
        self._fence.written()

    def write(self, cursor: Any, rows: Mapping[Hashable, Any]) -> None:
        """Write the rows by a cursor, in its transaction."""
        cursor.executemany(self._statement, list(rows.values()))

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


class PostgresUpsertSink(Sink):
    """Keeps the last row of each key in a table (ours).

    Args:
        options: where the database is.
        table: the name of the table, which must exist, with a primary key or unique index over the key.
        columns: the names of the columns, in the order of the rows.
        keys: how many of the first columns are the key.
        schema: the schema of the table; "": as the user's search path says.
        buffered_keys: the number of keys at which a subtask writes its buffer.

    Raises:
        ExtraMissing: psycopg is not installed.
        ValueError: ``keys`` is not from 1 to the number of columns, or a name is not possible.
    """

    def __init__(
        self,
        options: JdbcConnectionOptions,
        table: str,
        columns: Sequence[str],
        keys: int = 1,
        *,
        schema: str = "",
        buffered_keys: int = BUFFERED_KEYS,
    ) -> None:
        require("PostgresUpsertSink", POSTGRES)
        if not 1 <= keys <= len(columns):
            raise ValueError(f"{keys} key columns of {len(columns)}: from 1 to all are possible")
        self._table = PostgresTable(options, table, columns, schema, USE)
        self._schema = schema
        self._keys = keys
        self._buffered_keys = buffered_keys

    def create_function(self) -> PostgresUpsertFunction:
        """Return a function for one subtask."""
        return PostgresUpsertFunction(self._table, self._keys, self._buffered_keys, self._schema)


class LedgerCommitter(CheckpointCommitter):
    """Asks the ledger which batches were sent; each writes its entry itself (Flink: CheckpointCommitter)."""

    def __init__(self, table: PostgresTable, ledger: PostgresLedger) -> None:
        self._table = table
        self._ledger = ledger
        self.context: RuntimeContext | None = None
        self.sent: dict[tuple[str, int], int] = {}
        """By owner and subtask of the writer, the last checkpoint whose batch is known as sent."""
        self._session: PostgresSession | None = None

    def session(self) -> PostgresSession:
        """Return the session of the subtask, whose table and ledger are checked."""
        from onceproof.engine.connectors.postgres.timed_connection import translated

        if self._session is None:
            assert self.context is not None, "the sink is used before it is restored"
            session = _session_of(self._table, self.context, self._ledger)
            try:
                with translated(self._table.place):
                    self._table.check(session.connection, "INSERT")
                    self._ledger.create(session.connection, self._table.place)
            except BaseException:
                session.close()
                raise
            self._session = session
        return self._session

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        """Do nothing: the entry was committed together with the batch."""

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        """Return whether the ledger has the batch. Raises DatabaseUnavailable."""
        if not self._has(self.operator_id, subtask_idx, checkpoint_id):
            return False
        self.sent[self.operator_id, subtask_idx] = checkpoint_id
        return True

    def check_sent(self) -> None:
        """Raise LostTransaction if the ledger lacks a batch that the checkpoint knows as sent."""
        for (owner, subtask), checkpoint_id in self.sent.items():
            if not self._has(owner, subtask, checkpoint_id):
                name = batch_name(owner, subtask, checkpoint_id)
                raise LostTransaction(
                    f"batch {name}, which was sent before the checkpoint, is not in the ledger of"
                    f" {self._table.place}: its rows, and perhaps later ones, are missing, because the"
                    " database was restored from an older backup or is another one: restore a newer backup,"
                    " or start the job from a checkpoint that is as old as the database"
                )

    def _has(self, owner: str, subtask: int, checkpoint_id: int) -> bool:
        try:
            return self.session().is_recorded(batch_name(owner, subtask, checkpoint_id))
        except DatabaseUnavailable:
            self.close()
            raise

    def close(self) -> None:
        """End the session; the next call begins another one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()


class PostgresWriteAheadFunction(GenericWriteAheadSink):
    """Sends the batches of one subtask, each with its entry in the ledger."""

    def __init__(
        self, table: PostgresTable, ledger: PostgresLedger, value_type: TypeInformation | None
    ) -> None:
        self._ledger_committer = LedgerCommitter(table, ledger)
        super().__init__(self._ledger_committer, value_type)
        self._table = table
        self._ledger = ledger

    def set_runtime_context(self, runtime_context: RuntimeContext) -> None:
        """Keep the context for the session, which is begun as the sink is restored."""
        super().set_runtime_context(runtime_context)
        self._ledger_committer.context = runtime_context

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Check that the database has what the checkpoint knows as sent, and restore the other batches.

        Raises:
            LostTransaction: it has not.
        """
        self._restore_sent(context)
        super().initialize_state(context)

    def settle(self, context: FunctionInitializationContext) -> None:
        """Check as a restore does, and send the batches that the checkpoint lists. Raises LostTransaction."""
        self._restore_sent(context)
        super().settle(context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Make a batch, and store which one was sent last."""
        super().snapshot_state(context)
        sent = self._ledger_committer.sent.items()
        self._sent_state.update([[*writer, checkpoint_id] for writer, checkpoint_id in sent])

    def invoke(self, value: Any, context: Any) -> None:
        """Keep a row for the checkpoint. Raises RefusedByDatabase if it is no row of the table."""
        self._table.check_row(value)
        super().invoke(value, context)

    def invoke_batch(self, values: list[Any]) -> bool:
        """Keep rows for the checkpoint."""
        self._table.check_rows(values)
        return super().invoke_batch(values)

    def send_batch(self, batch: PendingBatch) -> bool:
        """Copy a batch into the table, unless the ledger has it. Raises DatabaseUnavailable."""
        from onceproof.engine.connectors.postgres.timed_connection import translated

        session = self._ledger_committer.session()
        name = batch_name(batch.operator_id, batch.subtask, batch.checkpoint_id)
        entry = LedgerEntry(
            name, batch.job_id, batch.operator_id, batch.subtask, batch.checkpoint_id, len(batch.values)
        )
        try:
            with translated(self._table.place), session.connection.transaction():
                if self._ledger.record(session.connection, entry):
                    session.copy(batch.values)
                    session.finish_rows()
        except DatabaseUnavailable:
            self._ledger_committer.close()
            raise
        if batch.attempt == self.get_runtime_context().get_attempt_id():
            # What this attempt sends makes all that was sent before needless.
            self._ledger_committer.sent.clear()
        self._ledger_committer.sent[batch.operator_id, batch.subtask] = batch.checkpoint_id
        return True

    def _restore_sent(self, context: FunctionInitializationContext) -> None:
        self._sent_state = context.get_operator_state_store().get_list_state(_SENT)
        for owner, subtask, checkpoint_id in self._sent_state.get():
            self._ledger_committer.sent[owner, subtask] = checkpoint_id
        try:
            self._ledger_committer.check_sent()
        except BaseException:
            self._ledger_committer.close()
            raise


class PostgresWriteAheadSink(Sink):
    """Appends rows to a table exactly once, without prepared transactions (ours).

    Args:
        options: where the database is.
        table: the name of the table, which must exist.
        columns: the names of the columns, in the order of the rows.
        schema: the schema of the table and of the ledger; "": as the user's search path says.
        ledger: the name of the table with one entry for each batch; made if it does not exist.
        value_type: the type of rows that are not plain data.

    Raises:
        ExtraMissing: psycopg is not installed.
        ValueError: a name is not possible.
    """

    def __init__(
        self,
        options: JdbcConnectionOptions,
        table: str,
        columns: Sequence[str],
        *,
        schema: str = "",
        ledger: str = LEDGER,
        value_type: TypeInformation | None = None,
    ) -> None:
        require("PostgresWriteAheadSink", POSTGRES)
        self._table = PostgresTable(options, table, columns, schema, USE)
        self._ledger = PostgresLedger(ledger, schema)
        self._value_type = value_type

    def create_function(self) -> PostgresWriteAheadFunction:
        """Return a function for one subtask."""
        return PostgresWriteAheadFunction(self._table, self._ledger, self._value_type)


def batch_name(owner: str, subtask: int, checkpoint_id: int) -> str:
    """Return the name of a write-ahead batch in the ledger: the same in every attempt."""
    return f"{PREFIX}_{owner}_{subtask}_{checkpoint_id}_batch"


def _session_of(table: PostgresTable, context: RuntimeContext, ledger: PostgresLedger) -> PostgresSession:
    """Return a new session of a subtask, for which those of dead attempts were ended."""
    name = SessionName(context.get_owner_id(), context.get_index_of_this_subtask(), context.get_attempt_id())
    parallelism = context.get_number_of_parallel_subtasks()
    session = PostgresDatabase(table, ledger).connect(name)
    try:
        session.end_sessions(lambda other: is_dead(other, name, parallelism))
    except BaseException:
        session.close()
        raise
    return session
