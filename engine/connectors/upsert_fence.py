"""The fence of an upsert sink: a table beside its target that names the attempt which may write.

The rules this module lives by:

- A process that was paused and has lost the job would write older values over newer ones, and nothing would
  write the newer ones again. So each transaction of the sink raises the count in its subtask's row of the
  fence, where that row names this very attempt. Where it names another one, the transaction is refused.
- An attempt takes the rows of its sink over as it opens: its own, those of subtasks that it has no more, and
  all of earlier processes. Later is what has the greater (incarnation, number); what is earlier is refused.
- A row belongs to an owner (`owner_ids.py`). A job that starts without state in another folder, or from a
  savepoint under another name, is another owner: it has rows of its own, and no other job refuses it.
- Checkpoints hold the count. A table with a lower one has lost rows that the restored job would not write
  again: it was deleted, made anew, or restored from a backup. Then the job fails, and writes nothing.
- One statement for each transaction, not for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from onceproof.engine.errors import TransientError, UnrecoverableError
from onceproof.engine.functions import FunctionInitializationContext, RuntimeContext
from onceproof.engine.messages import order_of
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import Types

FENCE: Final = "onceproof_fence"
COLUMNS: Final = (
    "owner text NOT NULL, subtask integer NOT NULL, incarnation bigint NOT NULL, number bigint NOT NULL,"
    " transactions bigint NOT NULL, PRIMARY KEY (owner, subtask)"
)
_STATE: Final = ListStateDescriptor("fence", Types.DYNAMIC())


class LostToLaterProcess(UnrecoverableError):
    """A later process of the job writes into the table: this one has lost it. The message is one line."""


class LostToLaterAttempt(TransientError, RuntimeError):
    """A later attempt of the same process writes into the table. The message is one line."""


class LostRows(UnrecoverableError):
    """The target has lost rows that a checkpoint covers. The message is one line."""


class Cursor(Protocol):
    """The answer to a statement, as the drivers of SQLite and PostgreSQL give it."""

    @property
    def rowcount(self) -> int: ...

    def fetchall(self) -> list[Any]: ...


Execute = Callable[[str, Sequence[Any]], Cursor]
"""Runs a statement in the open transaction."""


class _Count(NamedTuple):
    """How many transactions a subtask of a sink has written."""

    owner: str
    subtask: int
    transactions: int


class UpsertFence:
    """The rows of one subtask in the fence.

    Args:
        table: the quoted name of the fence, as statements with parameters have it.
        place: the sink and its target, for messages.
        parameter: the sign of a parameter in a statement.
    """

    def __init__(self, table: str, place: str, parameter: str) -> None:
        self._table = table
        self._place = place
        sign = parameter
        mine = f"WHERE owner = {sign} AND subtask = {sign}"
        self._listing = f"SELECT subtask, incarnation, number, transactions FROM {table} WHERE owner = {sign}"
        self._insert = f"INSERT INTO {table} VALUES ({', '.join([sign] * 5)})"
        self._take = f"UPDATE {table} SET incarnation = {sign}, number = {sign} {mine}"
        self._enter = (
            f"UPDATE {table} SET transactions = transactions + 1 {mine}"
            f" AND incarnation = {sign} AND number = {sign}"
        )
        self._restored: list[_Count] = []
        """What the checkpoint says, until this subtask has written something itself."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Read the counts of the restored checkpoint."""
        self._state = context.get_operator_state_store().get_list_state(_STATE)
        self._restored = [_Count(*stored) for stored in self._state.get()]

    def snapshot_state(self) -> None:
        """Store the counts of what was written up to here."""
        counts = [_Count(self._owner, self._subtask, self._transactions)] if self._has_written else []
        self._state.update([list(count) for count in counts or self._restored])

    def take_over(self, execute: Execute, context: RuntimeContext) -> None:
        """Make this attempt the one that may write, in a transaction that excludes all other take-overs.

        Raises:
            LostToLaterProcess: it is not the latest one.
            LostToLaterAttempt: the same, within this process.
            LostRows: the target has lost rows that the restored checkpoint covers.
        """
        self._owner, self._subtask = context.get_owner_id(), context.get_index_of_this_subtask()
        self._attempt = order_of(context.get_attempt_id())
        self._transactions, self._has_written = 0, False
        parallelism = context.get_number_of_parallel_subtasks()
        incarnation, number = self._attempt
        is_known = False
        for subtask, *attempt, transactions in self._rows(execute, self._owner):
            found = tuple(attempt)
            if subtask == self._subtask:
                self._refuse_if_later(found)
                is_known, self._transactions = True, transactions
            elif found[0] > incarnation:
                self._refuse_if_later(found)
            elif found[0] < incarnation:
                # Of the same process, its own subtask will be later still.
                execute(self._take, (incarnation, 0, self._owner, subtask))
            elif subtask >= parallelism and found < self._attempt:
                execute(self._take, (incarnation, number, self._owner, subtask))
        if is_known:
            execute(self._take, (incarnation, number, self._owner, self._subtask))
        else:
            execute(self._insert, (self._owner, self._subtask, incarnation, number, 0))
        self._check_counts(execute)

    def enter(self, execute: Execute) -> Cursor:
        """Count the open transaction; ``require`` takes the answer before the commit."""
        return execute(self._enter, (self._owner, self._subtask, *self._attempt))

    def require(self, entered: Cursor, execute: Execute) -> None:
        """Raise LostToLaterProcess or LostToLaterAttempt if this attempt may not write any more."""
        if entered.rowcount == 1:
            return
        for subtask, *attempt, _ in self._rows(execute, self._owner):
            if subtask == self._subtask:
                self._refuse_if_later(tuple(attempt))
        raise LostToLaterAttempt(
            f"{self._place}: the table {self._table} has no entry of this attempt any more"
        )

    def written(self) -> None:
        """Note that the counted transaction is committed."""
        self._transactions += 1
        self._has_written = True

    def _rows(self, execute: Execute, owner: str) -> list[Any]:
        return execute(self._listing, (owner,)).fetchall()

    def _refuse_if_later(self, found: tuple[int, ...]) -> None:
        if found <= self._attempt:
            return
        if found[0] == self._attempt[0]:
            raise LostToLaterAttempt(f"{self._place}: a later attempt of the job has taken it over")
        raise LostToLaterProcess(
            f"{self._place}: process {found[0]} of the job has taken it over, and this one is process"
            f" {self._attempt[0]}: its rows are not written, because they would replace newer ones; if there"
            f" is no such process, delete the rows of owner '{self._owner}' from table {self._table}"
        )

    def _check_counts(self, execute: Execute) -> None:
        """Raise LostRows if the target has fewer transactions than the checkpoint covers."""
        for owner, subtask, transactions in self._restored:
            known = {found[0]: found[-1] for found in self._rows(execute, owner)}
            if lacks(known.get(subtask, 0), transactions):
                raise LostRows(
                    f"{self._place}: the checkpoint covers transaction {transactions} of subtask {subtask}"
                    f" (owner '{owner}'), and the last one that table {self._table} knows is"
                    f" {known.get(subtask, 0)}: the database was deleted, made anew, or restored from an"
                    " older backup: restore a newer one, or start the job from a checkpoint before it"
                )


def lacks(known: int, covered: int) -> bool:
    """Return whether the target has fewer transactions than a checkpoint covers."""
    return known < covered
