"""The exactly-once sink into a table: transactions are prepared with checkpoints, and have a ledger entry.

The rules this module lives by:

- Rows are sent in batches. At a snapshot what is left is sent, the ledger's entry is written, and only then
  is the transaction prepared: a prepared transaction has all its rows and its entry.
- A transaction without rows is never begun, and its commit does nothing.
- A second commit finds nothing prepared. The ledger's entry says that the first one succeeded. Without an
  entry the rows are gone, because the transaction was rolled back by hand or the database is another one:
  that is an error which names them, never silence.
- Checkpoints hold the last transaction that each subtask has committed. A ledger without its entry is that of
  a database which was restored from an older backup, or of another one: the restore fails, and writes
  nothing. The sweep of old entries keeps the newest one of each subtask.
- A subtask has two sessions, because a prepared transaction can only be committed where none is open.
- When a job begins or is restored, the sessions of its dead attempts are ended first, and then their prepared
  transactions that no checkpoint lists are rolled back. In the other order the server could prepare one more
  for a client that is dead already.
- A row that has to wait for a row of a prepared transaction, because both have the same unique key, would
  wait for a commit that comes after it. So the sessions limit how long they wait for locks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from onceproof.engine.connectors.jdbc.two_phase_database import (
    DatabaseUnavailable,
    LedgerEntry,
    LostTransaction,
    SessionName,
    TransactionName,
    TwoPhaseDatabase,
    TwoPhaseSession,
    is_dead,
    transaction_name_of,
)
from onceproof.engine.connectors.two_phase import Recovery, TwoPhaseCommitSinkFunction
from onceproof.engine.functions import FunctionInitializationContext, FunctionSnapshotContext
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import Types

if TYPE_CHECKING:
    from onceproof.engine.state.operator import OperatorListState

Answer = TypeVar("Answer")

BATCH_ROWS: Final = 5000
LEDGER_RETENTION_MS: Final = 7 * 24 * 3_600_000
CHECKPOINTS_BETWEEN_SWEEPS: Final = 1000
_STATE: Final = ListStateDescriptor("committed", Types.DYNAMIC())


class ExactlyOnceFunction(TwoPhaseCommitSinkFunction):
    """Writes the rows of one subtask (Flink: JdbcXaSinkFunction).

    A transaction is ``[name, number of its rows]``.

    Args:
        database: the table and the ledger.
        batch_rows: the number of rows at which a batch is sent.
        ledger_retention_ms: how long entries of the ledger are kept.
    """

    def __init__(
        self,
        database: TwoPhaseDatabase,
        batch_rows: int = BATCH_ROWS,
        ledger_retention_ms: int = LEDGER_RETENTION_MS,
    ) -> None:
        super().__init__()
        self._database = database
        self._batch_rows = batch_rows
        self._ledger_retention_ms = ledger_retention_ms
        self._rows: list[Any] = []
        self._writer: TwoPhaseSession | None = None
        self._committer: TwoPhaseSession | None = None
        self._is_begun = False
        self._checkpoint_id = 0
        self._completed = 0
        self._committed: dict[tuple[str, int], list[Any]] = {}
        """By owner and subtask the last committed transaction, ``[name, when that was known]``."""

    # ---- the steps of two-phase commit

    def begin_transaction(self) -> list[Any]:
        """Return a new transaction; the database hears of it with its first rows."""
        name = TransactionName(self.owner, self.subtask, self.epoch, self.attempt)
        return [str(name), 0]

    def invoke_transaction(self, transaction: list[Any], value: Any, context: Any) -> None:
        """Keep a row for the next batch. Raises RefusedByDatabase if it is no row of the table."""
        self._database.check_row(value)
        self._rows.append(value)
        if len(self._rows) >= self._batch_rows:
            self.flush(transaction)

    def invoke_transaction_batch(self, transaction: list[Any], values: list[Any]) -> bool:
        """Keep rows for the next batch."""
        self._database.check_rows(values)
        self._rows += values
        if len(self._rows) >= self._batch_rows:
            self.flush(transaction)
        return True

    def flush(self, transaction: list[Any]) -> None:
        """Send the rows that were kept."""
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        session = self._writing()
        if not self._is_begun:
            session.begin(transaction[0])
            self._is_begun = True
        session.write(rows)
        transaction[1] += len(rows)

    def finish_processing(self, transaction: list[Any]) -> None:
        """Send the last rows."""
        self.flush(transaction)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Pre-commit for this checkpoint, and store what is committed up to here."""
        self._checkpoint_id = context.get_checkpoint_id()
        super().snapshot_state(context)
        self._committed_state.update(list(self._committed.values()))

    def pre_commit(self, transaction: list[Any]) -> None:
        """Send the last rows and the entry of the ledger, and prepare the transaction."""
        self.flush(transaction)
        if not transaction[1]:
            return
        self.record(transaction)
        self._is_begun = False
        self._writing().prepare()

    def record(self, transaction: list[Any]) -> None:
        """Write the ledger's entry into the open transaction."""
        job = self.get_runtime_context().get_job_id()
        name, rows = transaction
        entry = LedgerEntry(name, job, self.owner, self.subtask, self._checkpoint_id, rows)
        self._writing().record(entry)

    def commit(self, transaction: list[Any]) -> None:
        """Commit a prepared transaction, or find out that it is committed.

        Raises:
            LostTransaction: it is neither prepared nor committed.
            DatabaseUnavailable: the database does not answer.
        """
        name, rows = transaction
        if not rows:
            return

        def settle(session: TwoPhaseSession) -> bool:
            return session.commit_prepared(name) or self.was_committed(session, name)

        if not self._with_committer(settle):
            raise LostTransaction(
                f"transaction {name} into {self._database.place} is neither prepared nor recorded as"
                f" committed: its {rows} rows are lost, unless they were committed longer ago than the ledger"
                " keeps: restore the database, or start the job from a checkpoint before them"
            )
        self.note_committed(transaction)

    def note_committed(self, transaction: list[Any]) -> None:
        """Keep the name of a committed transaction; one of this attempt makes all earlier ones needless."""
        name = transaction_name_of(transaction[0])
        if name is None or not transaction[1]:
            return
        if name.attempt == self.attempt:
            self._committed = {}
        now_ms = self.get_runtime_context().get_current_processing_time()
        self._committed[name.owner, name.subtask] = [transaction[0], now_ms]

    def was_committed(self, session: TwoPhaseSession, name: str) -> bool:
        """Return whether a transaction that is not prepared any more is committed."""
        return session.is_recorded(name)

    def abort(self, transaction: list[Any]) -> None:
        """End the session of the open transaction: the database rolls it back."""
        self._rows = []
        self._is_begun = False
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def recover_and_abort(self, transaction: list[Any]) -> None:
        """Roll back what was open as the checkpoint was taken: a dead attempt may have prepared it since."""
        name = transaction_name_of(transaction[0])
        if name is not None and name.owner == self.owner:
            self._with_committer(lambda session: session.roll_back_prepared(transaction[0]))

    def abort_unknown(self, recovery: Recovery) -> None:
        """End the sessions of dead attempts, and roll back their transactions that no checkpoint lists."""
        mine = SessionName(recovery.owner, recovery.subtask, recovery.attempt)

        def sweep(session: TwoPhaseSession) -> None:
            session.end_sessions(lambda other: is_dead(other, mine, recovery.parallelism))
            for name in self.unlisted(session.prepared(recovery.owner), recovery):
                session.roll_back_prepared(name)

        self._with_committer(sweep)

    def unlisted(self, names: list[str], recovery: Recovery) -> list[str]:
        """Return which of the prepared transactions this subtask must roll back, sorted."""
        found = [name for text in names if (name := transaction_name_of(text)) is not None]
        return sorted(
            str(name)
            for name in found
            if recovery.may_abort(name.subtask, name.epoch, name.attempt, name.owner)
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit; now and then delete old entries of the ledger."""
        super().notify_checkpoint_complete(checkpoint_id)
        if self._completed % CHECKPOINTS_BETWEEN_SWEEPS == 0:
            kept_ms = self._ledger_retention_ms
            self._with_committer(lambda session: session.forget(self.owner, self.subtask, kept_ms))
        self._completed += 1

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Check that the database has what the checkpoint has seen committed, then recover.

        Raises:
            LostTransaction: it has not.
        """
        self._restore_committed(context)
        if not context.is_settled():
            self._check_committed()
        super().initialize_state(context)

    def settle(self, context: FunctionInitializationContext) -> None:
        """Check and commit as a restore does, and end the session. Raises LostTransaction."""
        try:
            self._restore_committed(context)
            self._check_committed()
            super().settle(context)
        finally:
            self.close()

    def abort_unlisted(self) -> None:
        """Roll back all that is prepared, and end the session."""
        try:
            super().abort_unlisted()
        finally:
            self.close()

    def close(self) -> None:
        """End both sessions; an open transaction is rolled back."""
        try:
            super().close()
        finally:
            writer, self._writer = self._writer, None
            committer, self._committer = self._committer, None
            for session in (writer, committer):
                if session is not None:
                    session.close()

    # ---- what is committed

    def _restore_committed(self, context: FunctionInitializationContext) -> None:
        self._committed_state: OperatorListState = context.get_operator_state_store().get_list_state(_STATE)
        for name, known_ms in self._committed_state.get():
            writer = transaction_name_of(name)
            if writer is not None:
                self._committed[writer.owner, writer.subtask] = [name, known_ms]

    def _check_committed(self) -> None:
        """Raise LostTransaction if the ledger lacks a transaction that the checkpoint has seen committed."""
        for name, known_ms in self._committed.values():
            if not self._with_committer(partial(self.is_there, name, known_ms)):
                raise LostTransaction(
                    f"transaction {name}, which was committed before the checkpoint, is not in the ledger of"
                    f" {self._database.place}: its rows, and perhaps later ones, are missing, because the"
                    " database was restored from an older backup or is another one: restore a newer backup,"
                    " or start the job from a checkpoint that is as old as the database"
                )

    def is_there(self, name: str, known_ms: int, session: TwoPhaseSession) -> bool:
        """Return whether the database has a transaction that was known as committed at that time.

        Its entry may be forgotten: then there is a newer one of the same subtask.
        """
        if session.is_recorded(name):
            return True
        age_ms = self.get_runtime_context().get_current_processing_time() - known_ms
        writer = transaction_name_of(name)
        assert writer is not None, "names are checked as they are restored"
        may_be_forgotten = age_ms > self._ledger_retention_ms
        return may_be_forgotten and session.has_entry_after(writer.owner, writer.subtask, writer.epoch)

    # ---- sessions

    def _writing(self) -> TwoPhaseSession:
        """Return the session of the open transaction."""
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    def _with_committer(self, call: Callable[[TwoPhaseSession], Answer]) -> Answer:
        """Call with the session that has no open transaction; leave a broken one behind."""
        session = self._committer
        if session is None:
            session = self._committer = self._connect()
        try:
            return call(session)
        except DatabaseUnavailable:
            self._committer = None
            session.close()
            raise

    def _connect(self) -> TwoPhaseSession:
        context = self.get_runtime_context()
        name = SessionName(
            context.get_owner_id(), context.get_index_of_this_subtask(), context.get_attempt_id()
        )
        session = self._database.connect(name)
        try:
            self._database.check(session)
        except BaseException:
            session.close()
            raise
        return session
