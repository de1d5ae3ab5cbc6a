"""The transactional system that a simulated job writes to.

The rules this module lives by:

- The system keeps every transaction that was ever begun, and answers calls as a real one would. Repeated
  commits and aborts succeed. To commit an aborted or unprepared transaction is an error, and so is to write
  to a prepared one. Each transaction is added to the history when it becomes visible.
- A commit or an abort may be answered with an error and take place later, whatever has become of its caller.
  A row that is written by its key does not come late: it could overwrite a newer one, and no table that is
  written in this way would be right.
- Sinks call it only inside a task's ``handle``, so a fault at a protocol point can kill the task between two
  calls.
- All subtasks and attempts share one instance: copying a function for a subtask does not copy it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self

from msgspec import Struct
from msgspec.structs import replace

from onceproof.harness.model.family import Rows
from onceproof.harness.model.history import History
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.commit_faults import LATE_COMMIT, answer, refuse
from onceproof.harness.systems.simulation.actions import CLASS_INDEX
from onceproof.harness.systems.simulation.agenda import Agenda, Clock
from onceproof.harness.systems.simulation.client_errors import OUTSIDE, reported_by

_CONTROL = CLASS_INDEX["message_control"]

OPEN = "open"
PREPARED = "prepared"
COMMITTED = "committed"
ABORTED = "aborted"


class Outside(Protocol):
    """What sinks of the user's write to, which is outside of all processes of the job."""

    def rows(self) -> Rows:
        """Return what is written there."""

    def copy(self) -> Outside:
        """Return the same as it is now, which changes by itself from here on."""

    def close(self) -> None:
        """Close what is left open when the run is over."""


class TransactionError(Exception):
    """The system refuses a call, as a real one would."""


class Transaction(Struct, eq=False):
    """One transaction of the external system."""

    name: str
    subtask: int
    epoch: int
    attempt: str
    owner: str = ""
    """The id of the sink that began it."""
    state: str = OPEN
    rows: list[Any] = []
    place: str = ""
    """What stands before the names of its sink's transactions; "" for the first sink of a job."""
    waits: bool = False
    """Whether it is a batch of a write-ahead sink."""
    is_remembered: bool = False
    """Whether the sink has recorded the batch as sent (``remember_batch``)."""
    entries: list[str] = []
    """The transactions whose ledger entries were written within this one."""
    key: str = ""
    """Of an upload to the object store."""
    token: str = ""
    counts: list[int] = []
    """By part of an upload, the rows up to its end."""
    lengths: list[int] = []
    """By part of an upload, the bytes up to its end."""
    can_vanish: bool = False
    """Whether readers see its rows under a name, which a consumer can take away."""
    is_taken: bool = False
    """Whether a consumer has done so."""


class TransactionalSystem:
    """Holds transactions by name, and reports to the history what becomes visible."""

    def __init__(
        self, history: History, clock: Clock, prefix: str = "", agenda: Agenda | None = None
    ) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.object_calls: Any = None
        """The object store of a job that writes part files; made when the job asks for it."""
        self.has_consumer = False
        """Whether a consumer takes visible files and objects away; a sink of objects must know of it."""
        self.begun_late: set[str] = set()
        """Uploads that a request has begun whose client had given it up."""
        self.neighbours: dict[str, str] = {}
        """The state of each transaction of another job, by name: it must stay as it is (`neighbour.py`)."""
        self.outside: Outside | None = None
        """What sinks of the user's write to that run for real; None: there are none."""
        self.ledger: set[str] = set()
        """The transactions whose ledger entries were written outside of any transaction."""
        self._prefix = prefix
        self._agenda = agenda
        self._on_the_way: list[Callable[[], None]] = []
        """The commits and aborts that were answered with an error and are still to take place."""
        self._history = history
        self._clock = clock
        self.commit_fault: Callable[[], Fault | None] = _none
        """Called before each commit. Returns the fault that the commit suffers, if any."""
        self.abort_fault: Callable[[], Fault | None] = _none
        """Called before each abort that a sink asks for. Returns the fault that it suffers, if any."""
        self.row_fault: Callable[[], Fault | None] = _none
        """Called with each row that is handed to a producer. Returns the fault that it suffers, if any."""
        self.call_fault: Callable[[], Fault | None] = _none
        """Called before a sink or source of the user's calls the outside. Returns the fault of the call, if
        any."""
        self.seen: Callable[[Transaction], None] | None = None
        """Called with every transaction that becomes visible; only a traced run sets it."""

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def begin(
        self,
        subtask: int,
        epoch: int,
        attempt: str,
        owner: str = "",
        part: int = 0,
        name: str = "",
        place: str = "",
    ) -> str:
        """Begin a transaction. Return its name. Raises TransactionError if the name exists already.

        Args:
            place: stands before the names of one of several sinks.
        """
        name = name or f"{self._prefix}{place}{subtask}/{epoch}/{attempt}"
        if part:
            name = f"{name}/{part}"
        if name in self.transactions:
            raise TransactionError(f"transaction {name} exists already")
        self.transactions[name] = Transaction(name, subtask, epoch, attempt, owner, place=place)
        return name

    def write(self, name: str, row: Any) -> None:
        """Add a row to an open transaction. Raises TransactionError if it is not open."""
        transaction = self.transactions[name]
        if transaction.state != OPEN:
            raise TransactionError(f"transaction {name} is {transaction.state}, no row can be added")
        transaction.rows.append(row)

    def prepare(self, name: str) -> None:
        """Make the transaction survive any crash, so that it can be committed."""
        transaction = self.transactions[name]
        if transaction.state not in (OPEN, PREPARED):
            raise TransactionError(f"transaction {name} is {transaction.state}, it cannot be prepared")
        transaction.state = PREPARED

    def commit(self, name: str) -> None:
        """Make the rows visible.

        Raises TransactionError if the transaction is unknown, open or aborted, and InjectedError if a fault
        refuses the commit, or lets it time out after it is done.
        """
        transaction = self.transactions.get(name)
        if transaction is None:
            raise TransactionError(f"transaction {name} is unknown")
        if transaction.state == ABORTED:
            raise TransactionError(f"transaction {name} was aborted, it cannot be committed")
        if transaction.state == OPEN:
            raise TransactionError(f"transaction {name} was never prepared, it cannot be committed")
        fault = self.commit_fault()
        if fault is not None:
            if fault.kind == LATE_COMMIT:
                self._perform_later(fault, f"late commit {name}", lambda: self._commit_late(transaction))
            refuse(fault, f"commit of {name} was refused", lambda: self._commit_failed(name))
        if transaction.state != COMMITTED:
            self._show(transaction)
        if fault is not None:
            answer(fault, f"commit of {name} timed out", lambda: self._commit_failed(name))

    def _commit_late(self, transaction: Transaction) -> None:
        if transaction.state in (OPEN, PREPARED):
            self._show(transaction)

    def _perform_later(self, fault: Fault, label: str, perform: Callable[[], None]) -> None:
        assert self._agenda is not None
        self._on_the_way.append(perform)
        due = self._clock.now + fault.delay
        self._agenda.add_later(due, _CONTROL, label, self._perform, perform)

    def _perform(self, perform: Callable[[], None]) -> None:
        self._on_the_way.remove(perform)
        perform()

    def perform_all(self) -> None:
        """Let what is late take place when the job is over."""
        for perform in tuple(self._on_the_way):
            self._perform(perform)

    def _commit_failed(self, name: str, holds_back: bool = False) -> None:
        self._history.commit_failed(self._clock.step, name, holds_back)

    def _show(self, transaction: Transaction) -> None:
        transaction.state = COMMITTED
        self._history.transaction_visible(
            self._clock.step,
            transaction.name,
            transaction.subtask,
            transaction.attempt,
            transaction.epoch,
            transaction.rows,
            transaction.waits,
            transaction.place,
        )
        if self.seen is not None:
            self.seen(transaction)

    def take_visible(self) -> bool:
        """Take all visible files and objects away, as a consumer does; return whether there were any."""
        seen = [
            each
            for each in self.transactions.values()
            if each.can_vanish and each.state == COMMITTED and not each.is_taken
        ]
        for each in seen:
            each.is_taken = True
        return bool(seen)

    def is_committed(self, name: str) -> bool:
        """Return whether the rows of a transaction are visible."""
        transaction = self.transactions.get(name)
        return transaction is not None and transaction.state == COMMITTED

    def abort(self, name: str) -> None:
        """Discard the rows; do nothing for an unknown name. Raises TransactionError if they are committed."""
        transaction = self.transactions.get(name)
        if transaction is None:
            return
        if transaction.state == COMMITTED:
            raise TransactionError(f"transaction {name} was committed, it cannot be aborted")
        transaction.state = ABORTED

    def ask_to_abort(self, name: str) -> None:
        """Abort, as a sink asks for it. Raises InjectedError if a fault answers with an error."""
        fault = self.abort_fault()
        if fault is not None:
            self._perform_later(fault, f"late abort {name}", lambda: self._abort_late(name))
            raise InjectedError(f"abort of {name} timed out", means=fault.means)
        self.abort(name)

    def _abort_late(self, name: str) -> None:
        if not self.is_committed(name):
            self.abort(name)

    # Calls of sinks without transactions.

    def take_batch(
        self,
        sink: str,
        subtask: int,
        checkpoint_id: int,
        attempt: str,
        rows: Sequence[Any],
        place: str = "",
        holds_back: bool = False,
    ) -> None:
        """Make a batch visible at once, unless one of its sink, subtask and checkpoint is visible.

        ``holds_back``: where a fault strikes, the sink sends no later batch before this one was tried again.
        """
        fault = self.commit_fault()
        name = batch_name(subtask, checkpoint_id, attempt, place)
        taken = (sink, subtask, checkpoint_id, attempt, list(rows), place)
        if fault is not None and fault.kind == LATE_COMMIT:
            self._perform_later(fault, f"late batch {name}", lambda: self._show_batch(*taken))
        refuse(fault, f"batch {name} was refused", lambda: self._commit_failed(name, holds_back))
        self._show_batch(*taken)
        answer(fault, f"batch {name} timed out", lambda: self._commit_failed(name, holds_back))

    def _show_batch(
        self, sink: str, subtask: int, checkpoint_id: int, attempt: str, rows: list[Any], place: str
    ) -> None:
        if self._batch(sink, subtask, checkpoint_id) is None:
            name = f"{self._prefix}{batch_name(subtask, checkpoint_id, attempt, place)}"
            batch = Transaction(
                name, subtask, checkpoint_id, attempt, sink, rows=rows, place=place, waits=True
            )
            self.transactions[name] = batch
            self._show(batch)

    def remember_batch(self, sink: str, subtask: int, checkpoint_id: int) -> None:
        """Record that the sink has sent a batch. Raises TransactionError if it was never taken."""
        batch = self._batch(sink, subtask, checkpoint_id)
        if batch is None:
            raise TransactionError(f"batch {subtask}/{checkpoint_id} is to be remembered, and was never sent")
        batch.is_remembered = True

    def remembers_batch(self, sink: str, subtask: int, checkpoint_id: int) -> bool:
        """Return whether ``remember_batch`` was called for a batch."""
        batch = self._batch(sink, subtask, checkpoint_id)
        return batch is not None and batch.is_remembered

    def _batch(self, sink: str, subtask: int, checkpoint_id: int) -> Transaction | None:
        for each in self.transactions.values():
            is_its = each.waits and each.subtask == subtask and each.epoch == checkpoint_id
            if is_its and each.owner == sink:
                return each
        return None

    def write_by_key(self, task: str, attempt: str, keys: int, rows: Sequence[Any]) -> None:
        """Upsert rows by their first ``keys`` columns, atomically."""
        fault = self.commit_fault()
        if fault is not None and fault.kind == LATE_COMMIT:
            fault = replace(fault, kind="commit_error_after_success")
        refuse(fault, "the table refused a write", lambda: None)
        self._history.rows_written(self._clock.step, task, attempt, keys, rows)
        answer(fault, "a write to the table timed out", lambda: None)

    def commits_failed(self, names: Iterable[str]) -> None:
        """Enter into the history that transactions are not committed in their turn."""
        for name in names:
            self._commit_failed(name)

    def request_lost(self, subtask: int) -> None:
        """Enter into the history that a request of a sink has had no answer."""
        self._history.fault_fired(self._clock.step, "fail_commit", "committing", f"sink-{subtask}")

    def forget_listeners(self) -> None:
        """Drop the callbacks when the run is over."""
        self.commit_fault = self.abort_fault = self.row_fault = self.call_fault = _none
        self.seen = None

    def unsettled(self) -> list[Transaction]:
        """Return the transactions that are neither committed nor aborted."""
        return [each for each in self.transactions.values() if each.state in (OPEN, PREPARED)]


class SinkOfSeveral:
    """The transactional system as one of several sinks of a job calls it: its transactions have other names.

    Args:
        place: stands before the names; "" for the only sink of a job.
    """

    def __init__(self, system: TransactionalSystem, place: str) -> None:
        self._system = system
        self._place = place

    def begin(self, subtask: int, epoch: int, attempt: str, owner: str, part: int = 0) -> str:
        """Begin a transaction. Return its name."""
        return self._system.begin(subtask, epoch, attempt, owner, part, place=self._place)

    def write(self, name: str, row: Any) -> None:
        """Add a row to an open transaction."""
        self._system.write(name, row)

    def prepare(self, name: str) -> None:
        """Make the transaction survive any crash."""
        self._system.prepare(name)

    def commit(self, name: str) -> None:
        """Make the rows visible."""
        with reported_by(OUTSIDE):
            self._system.commit(name)

    def is_committed(self, name: str) -> bool:
        """Return whether the rows of a transaction are visible."""
        return self._system.is_committed(name)

    def abort(self, name: str) -> None:
        """Discard the rows."""
        with reported_by(OUTSIDE):
            self._system.ask_to_abort(name)

    def unsettled(self) -> list[Transaction]:
        """Return the transactions of all sinks that are neither committed nor aborted."""
        return self._system.unsettled()


def _none() -> None:
    return None


def batch_name(subtask: int, checkpoint_id: int, attempt: str, place: str = "") -> str:
    """Return what a history calls a batch of a write-ahead sink."""
    return f"{place}{subtask}/{checkpoint_id}/{attempt}"
