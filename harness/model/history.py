"""The visible events of a run, step by step: the only input of the checkers besides scenario and oracle.

The rules this module lives by:

- Visible events only: what an operator of the job, or a reader of its output, could have seen. Bulk runs
  record nothing else; a replay, which is free by determinism, shows what happened inside.
- An event is a plain tuple (step, kind, subject, payload), since some tens of them are made for each of
  millions of scenarios. Only the methods below know the shapes of the payloads.
- A payload holds JSON values, and tuples for rows: a history can be stored beside its scenario.
- Nothing here imports the engine: the checkers must not depend on the code that they judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from onceproof.harness.model.run_record import RunRecord

Row: TypeAlias = tuple[Any, ...]
Cut: TypeAlias = Mapping[str, int]
"""By split, the number of records before the cut, which is also the offset of the next record."""
Event: TypeAlias = tuple[int, str, Any, dict[str, Any]]

Stand: TypeAlias = tuple["str | None", int, int]
"""Where a row stands among others of its output, such as in a file, each behind those that came before; None:
nowhere. Then two moments: no reader has seen it before the first, and one has by the second."""

ATTEMPT_STARTED: Final = "attempt_started"
FAULT_FIRED: Final = "fault_fired"
CHECKPOINT_TRIGGERED: Final = "checkpoint_triggered"
CHECKPOINT_COMPLETED: Final = "checkpoint_completed"
CHECKPOINT_ABORTED: Final = "checkpoint_aborted"
TRANSACTION_VISIBLE: Final = "transaction_visible"
TRANSACTION_HIDDEN: Final = "transaction_hidden"
ROWS_WRITTEN: Final = "rows_written"
COMMIT_FAILED: Final = "commit_failed"
TASK_FAILED: Final = "task_failed"
ERROR: Final = "error"
SAVEPOINT_COMPLETED: Final = "savepoint_completed"
JOB_STOPPED: Final = "job_stopped"
STOP_FAILED: Final = "stop_failed"
JOB_RESCALED: Final = "job_rescaled"
JOB_UPGRADED: Final = "job_upgraded"
JOB_FINISHED: Final = "job_finished"
JOB_FAILED: Final = "job_failed"
BUDGET_EXHAUSTED: Final = "budget_exhausted"
LEAK: Final = "leak"
WAIT_BEGUN: Final = "wait_begun"
WRITE_REFUSED: Final = "write_refused"
CHECKPOINT_DECLINED: Final = "checkpoint_declined"
LOGGED: Final = "logged"
ROWS_FOUND: Final = "rows_found"
ROWS_GONE: Final = "rows_gone"
INPUT_READ: Final = "input_read"
PART_DEAD: Final = "part_dead"
DEVIATED: Final = "deviated"
LOOK: Final = "look "
"""With a number behind it the name of a look at an output that shows no transactions."""

EXPIRY: Final = "expiry"
TIMER: Final = "timer"
READ: Final = "read"
ROWS: Final = "rows"
KILL: Final = "kill"
UPGRADE: Final = "upgrade"
"""What is watched: times to live, timers in processing time, reads of restored state, rows of a sink, a kill
between two rows, the new version of a job."""

RESTART_WAIT: Final = "restart"
INTERVAL_WAIT: Final = "interval"
EXPIRY_WAIT: Final = "expiry"
"""The subjects of WAIT_BEGUN: what the job master waits for."""

EVENT_KINDS: Final = (
    ATTEMPT_STARTED,
    FAULT_FIRED,
    CHECKPOINT_TRIGGERED,
    CHECKPOINT_COMPLETED,
    CHECKPOINT_ABORTED,
    TRANSACTION_VISIBLE,
    TRANSACTION_HIDDEN,
    ROWS_WRITTEN,
    COMMIT_FAILED,
    TASK_FAILED,
    ERROR,
    SAVEPOINT_COMPLETED,
    JOB_STOPPED,
    STOP_FAILED,
    JOB_RESCALED,
    JOB_UPGRADED,
    JOB_FINISHED,
    JOB_FAILED,
    BUDGET_EXHAUSTED,
    LEAK,
    WAIT_BEGUN,
    WRITE_REFUSED,
    CHECKPOINT_DECLINED,
    LOGGED,
    ROWS_FOUND,
    ROWS_GONE,
    INPUT_READ,
    PART_DEAD,
    DEVIATED,
)


@dataclass(slots=True)
class Recovery:
    """One kill of a task or a process in a system that runs in real time, and the recovery from it."""

    kind: str
    point: str
    task: str
    parallelism_before: int
    position: int | None = None
    """How many records had been read, as far as the killed process knew."""
    restored: int | None = None
    """The checkpoint from which the job restarted; None: from the beginning."""
    replayed: int | None = None
    parallelism_after: int = 0
    seconds: float | None = None
    """From the kill to the first rows that became visible after it, in seconds; None if there were none."""
    commit_seconds: float | None = None
    """From the kill to the first new commit after it, of a transaction that may be empty, in seconds."""
    means: str = ""
    """The means of the kill; "" for the default of its kind."""


@dataclass(slots=True)
class Statistics:
    """The cost of a run, and which of its faults struck."""

    steps: int = 0
    attempts: int = 0
    records_replayed: int = 0
    recovery_steps: int = 0
    """Steps between a failure and the moment when all tasks run again, summed over the failures."""
    alignment_steps: int | None = None
    """Steps for which channels were blocked, from their barrier to the end of its alignment, summed over
    channels and alignments; None: not measured."""
    coverage: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often a (fault kind, point) fired."""
    means: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often a fault of each (kind, means) fired; faults of the default means are not counted."""
    points: dict[str, int] = field(default_factory=dict)
    """How often a protocol point was passed."""
    not_applicable: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many planned faults of each (fault kind, point) the system does not support."""
    timers_before_end: int = 0
    """How many event-time timers fired before the end of the input; only the simulation counts them."""
    timers_at_end: int = 0
    """How many event-time timers the end of the input made fire; only the simulation counts them."""
    completions: list[tuple[int, bool]] = field(default_factory=list)
    """For each completed checkpoint the ended subtasks in it, and whether it is the savepoint of a stop."""
    late_after_restore: int = 0
    """How many records came too late for windows and joins of restored attempts; only the simulation counts
    them."""
    notes: tuple[str, ...] = ()
    """What the run has noticed that breaks no property; only the simulation looks for it."""
    watched: dict[str, bool] = field(default_factory=dict)
    """By what might have happened in the run ("expiry/seen/60000", "timer/totals"), whether it did; only the
    simulation looks for it."""
    stops_failed: int = 0
    """How many stops came to nothing, whatever the reason; only the simulation counts them."""
    recoveries: list[Recovery] = field(default_factory=list)
    """For systems that run in real time only."""
    milliseconds: float = 0.0
    waited_milliseconds: float | None = None
    """How many of them were spent waiting until what stands trial had started: its processes, clusters and
    servers; None: not measured."""
    phase_milliseconds: dict[str, float] = field(default_factory=dict)
    """How long each phase of a program's run took: "start", "feed", "wait" for rows and the end, "judge"."""

    def count_strike(self, kind: str, point: str, means: str = "") -> None:
        """Count a fault that struck; ``means`` is "" for the default of its kind."""
        if means:
            self.means[kind, means] = self.means.get((kind, means), 0) + 1
        self.coverage[kind, point] = self.coverage.get((kind, point), 0) + 1


@dataclass(slots=True)
class History:
    """The events of one run in order, with its hash and its statistics."""

    events: list[Event] = field(default_factory=list)
    trace_hash: str = ""
    """A hash over every step: two runs of a scenario are equal if and only if their hashes are."""
    statistics: Statistics = field(default_factory=Statistics)
    trace: dict[str, Any] | None = None
    """Lanes, arrows and marks for the diagram and the explanation; only a replay fills it."""
    record: RunRecord | None = None
    """What a run of a real system leaves for its reader."""

    @property
    def has_finished(self) -> bool:
        """Whether the job has finished."""
        # It is among the last events of a run.
        return any(kind == JOB_FINISHED for _, kind, _, _ in reversed(self.events))

    def has_fired(self, kinds: Set[str]) -> bool:
        """Return whether a fault of one of these kinds has struck."""
        return any(kind in kinds for kind, _ in self.statistics.coverage)

    def attempt_started(
        self,
        step: int,
        attempt: str,
        parallelism: int,
        restored: int | None,
        outside: bool = False,
        by_supervisor: bool = False,
    ) -> None:
        """Record a new attempt, started from checkpoint ``restored``, or from the beginning if None.

        ``outside``: it is a start of a program of which nothing more is known. ``by_supervisor``: the program
        had ended by itself after a fault, and is started again as a supervisor would.
        """
        payload: dict[str, Any] = {"parallelism": parallelism, "restored": restored}
        if outside:
            payload["outside"] = True
        if by_supervisor:
            payload["by_supervisor"] = True
        self.events.append((step, ATTEMPT_STARTED, attempt, payload))

    def fault_fired(
        self,
        step: int,
        kind: str,
        point: str,
        task: str,
        means: str = "",
        outside: bool = False,
        server: str = "",
    ) -> None:
        """Record that a planned fault struck; ``means`` is "" for the default of its kind.

        ``outside``: the point was passed as the harness sees a program of which nothing is known. ``server``:
        which one was struck; "": none was.
        """
        payload: dict[str, Any] = {"point": point, "task": task}
        if server:
            payload["server"] = server
        if outside:
            payload["outside"] = True
        if means:
            payload["means"] = means
        self.events.append((step, FAULT_FIRED, kind, payload))

    def checkpoint_triggered(self, step: int, checkpoint: int) -> None:
        """Record that the coordinator triggered a checkpoint."""
        self.events.append((step, CHECKPOINT_TRIGGERED, checkpoint, {}))

    def checkpoint_completed(
        self,
        step: int,
        checkpoint: int,
        attempt: str,
        cut: Cut,
        transactions: Sequence[str],
        writers: Sequence[str] = (),
        in_flight: int = 0,
        ended: int = 0,
        stops: bool = False,
        is_savepoint: bool = False,
        outside: bool = False,
    ) -> None:
        """Record that a checkpoint completed: restores may use it from now on.

        It is recorded once for each checkpoint: when the coordinator declares it complete, or, where the
        process died after writing the metadata and before that, when a new process finds it and before it
        restores. ``transactions`` are the pre-committed ones that the sinks' states in it list, in their
        order; ``writers`` the attempts whose snapshots it is made of, each once; ``in_flight`` the number of
        records in it that were on their way between two tasks, ``ended`` that of operators' subtasks without
        more data; ``stops``: it is the savepoint with which the job is to stop; ``is_savepoint``: its user
        asked for it; ``outside``: it is seen from outside, without its transactions.
        """
        payload: dict[str, Any] = {
            "attempt": attempt,
            "cut": cut,
            "transactions": tuple(transactions),
            "writers": tuple(writers),
            "in_flight": in_flight,
        }
        if is_savepoint:
            payload["savepoint"] = True
        if outside:
            payload["outside"] = True
        self.statistics.completions.append((ended, stops))
        self.events.append((step, CHECKPOINT_COMPLETED, checkpoint, payload))

    def checkpoint_aborted(self, step: int, checkpoint: int, reason: str) -> None:
        """Record that the coordinator aborted a checkpoint."""
        self.events.append((step, CHECKPOINT_ABORTED, checkpoint, {"reason": reason}))

    def transaction_visible(
        self,
        step: int,
        transaction: str,
        subtask: int,
        attempt: str,
        epoch: int,
        rows: Iterable[Row],
        waits: bool = False,
        sink: str = "",
    ) -> None:
        """Record that the rows of a transaction became readable; also for an empty transaction.

        Attempt, epoch and subtask are those that began it, not those that commit it. ``waits``: it is a batch
        of a write-ahead sink, which is sent at the next completion and not by a restore. ``sink`` tells the
        sinks of a job apart; "" for the only one, or the first.
        """
        payload = {"subtask": subtask, "attempt": attempt, "epoch": epoch, "rows": list(rows)}
        if waits:
            payload["waits"] = True
        if sink:
            payload["sink"] = sink
        self.events.append((step, TRANSACTION_VISIBLE, transaction, payload))

    def transaction_hidden(self, step: int, transaction: str, is_replaced: bool = False) -> None:
        """Record that readable rows are gone; ``is_replaced``: new rows came in place of earlier ones."""
        self.events.append((step, TRANSACTION_HIDDEN, transaction, {"replaced": True} if is_replaced else {}))

    def rows_written(self, step: int, task: str, attempt: str, keys: int, rows: Iterable[Row]) -> None:
        """Record rows written by key, the first ``keys`` columns; they replace earlier rows of the key."""
        payload = {"attempt": attempt, "keys": keys, "rows": list(rows)}
        self.events.append((step, ROWS_WRITTEN, task, payload))

    def rows_found(
        self, step: int, place: str, attempt: str, rows: Iterable[Row], stand: Sequence[Stand] = ()
    ) -> None:
        """Record rows that a reader of the output finds there, when nothing tells in which transaction.

        ``place`` names the look, ``attempt`` the one that runs. ``stand`` says where each of the rows stands,
        where their order counts.
        """
        payload = {"attempt": attempt, "rows": list(rows)}
        if stand:
            payload["stand"] = list(stand)
        self.events.append((step, ROWS_FOUND, place, payload))

    def rows_gone(self, step: int, place: str, rows: Iterable[Row]) -> None:
        """Record rows that such a reader has found before and finds no more."""
        self.events.append((step, ROWS_GONE, place, {"rows": list(rows)}))

    def commit_failed(self, step: int, transaction: str, holds_back: bool = False) -> None:
        """Record that the external system answered a commit with an error, whether or not it took place.

        ``holds_back``: it is a batch of a write-ahead sink, and those behind it wait until it is tried again.
        """
        self.events.append((step, COMMIT_FAILED, transaction, {"holds_back": True} if holds_back else {}))

    def task_failed(
        self, step: int, task: str, attempt: str, cause: str, injected: bool, *, names_killed: bool = False
    ) -> None:
        """Record that a task died; ``injected``: by a fault, or of a call that a fault made fail.

        ``names_killed``: its cause names a process that a fault has killed in an attempt before.
        """
        payload: dict[str, Any] = {"attempt": attempt, "cause": cause, "injected": injected}
        if names_killed:
            payload["names_killed"] = True
        self.events.append((step, TASK_FAILED, task, payload))

    def error(self, step: int, where: str, type_name: str, function: str, text: str) -> None:
        """Record an exception that a machine must not raise, or a failed ``validate()``."""
        payload = {"type": type_name, "function": function, "text": text}
        self.events.append((step, ERROR, where, payload))

    def savepoint_completed(self, step: int, checkpoint: int, attempt: str) -> None:
        """Record that a savepoint completed; the job runs on."""
        self.events.append((step, SAVEPOINT_COMPLETED, checkpoint, {"attempt": attempt}))

    def job_stopped(self, step: int, outside: bool = False, *, cancelled: bool = False) -> None:
        """Record that the job ended with a savepoint, from which it will be started again.

        ``outside``: it is a program of which nothing is known, and ended in order. ``cancelled``: nothing of
        the savepoint was committed.
        """
        payload = {"outside": True} if outside else {"cancelled": True} if cancelled else {}
        self.events.append((step, JOB_STOPPED, "job", payload))

    def stop_failed(self, step: int, reason: str) -> None:
        """Record that the savepoint of a stop failed; the tasks have stopped, so the attempt is over."""
        self.events.append((step, STOP_FAILED, "job", {"reason": reason}))

    def job_rescaled(self, step: int, parallelism: int, open_transactions: int | None = None) -> None:
        """Record that the tasks of a running job are cancelled, and another attempt begins at once.

        ``open_transactions``: how many transactions have rows and are not prepared; None: not known.
        """
        payload = {"parallelism": parallelism}
        if open_transactions is not None:
            payload["open"] = open_transactions
        self.events.append((step, JOB_RESCALED, "job", payload))

    def job_upgraded(self, step: int, cut: Cut, *, killed: bool) -> None:
        """Record that the new version of the job begins from the state that covers a cut.

        ``killed``: whether the old version was killed for it, without a fault.
        """
        self.events.append((step, JOB_UPGRADED, "job", {"cut": dict(cut), "killed": killed}))

    def job_finished(self, step: int) -> None:
        """Record that every task ended after its last commit."""
        self.events.append((step, JOB_FINISHED, "job", {}))

    def job_failed(self, step: int, cause: str) -> None:
        """Record that the job ended for good without finishing."""
        self.events.append((step, JOB_FAILED, "job", {"cause": cause}))

    def budget_exhausted(self, step: int, circle: Sequence[str] = ()) -> None:
        """Record that the run was cut off at the scenario's step budget.

        Args:
            circle: which tasks wait for each other, and for what, if it is known: a sentence each.
        """
        payload = {"circle": list(circle)} if circle else {}
        self.events.append((step, BUDGET_EXHAUSTED, "job", payload))

    def wait_begun(self, step: int, what: str, ms: int, now_ms: int) -> None:
        """Record for how long the job master begins to wait, and for what (RESTART_WAIT and its like).

        ``now_ms`` is the time by its clock: steps say nothing of time in which nothing happens.
        """
        self.events.append((step, WAIT_BEGUN, what, {"ms": ms, "now_ms": now_ms}))

    def logged(self, step: int, message: str) -> None:
        """Record a warning or error that the job has logged, for its operator."""
        self.events.append((step, LOGGED, message, {}))

    def write_refused(self, step: int, task: str, checkpoint: int) -> None:
        """Record that a living task, or the coordinator, learns that its write of a checkpoint has failed."""
        self.events.append((step, WRITE_REFUSED, task, {"checkpoint": checkpoint}))

    def checkpoint_declined(self, step: int, task: str, checkpoint: int) -> None:
        """Record that a task has sent that it cannot take part in a checkpoint."""
        self.events.append((step, CHECKPOINT_DECLINED, task, {"checkpoint": checkpoint}))

    def input_read(self, step: int, read: Mapping[str, int], lengths: Mapping[str, int]) -> None:
        """Record how far each split was read when the job said that it had finished, and its length.

        It is found at rest, as leaks are, and is no step of the run.
        """
        payload = {"read": {split: read.get(split, 0) for split in lengths}, "input": dict(lengths)}
        self.events.append((step, INPUT_READ, "job", payload))

    def part_dead(self, step: int, part: str) -> None:
        """Record that a part of a program, killed alone, has not been started again when the run ends."""
        self.events.append((step, PART_DEAD, part, {}))

    def deviated(self, step: int, machine: str, event: str, expected: str, got: str) -> None:
        """Record the first answer of a machine that is not as specified; it is found beside the run."""
        self.events.append((step, DEVIATED, machine, {"event": event, "expected": expected, "got": got}))

    def leak(self, step: int, kind: str, name: str) -> None:
        """Record what is left behind at rest: its ``kind``, such as "open transaction", and its name."""
        self.events.append((step, LEAK, kind, {"name": name}))


def as_tuple(value: Any) -> Any:
    """Return lists as tuples at every depth, since JSON turns tuples into lists."""
    return tuple([as_tuple(each) for each in value]) if isinstance(value, (list, tuple)) else value


def rows_at_end(history: History) -> list[Row]:
    """Return the rows that are readable at the end of a run: committed ones, and the last of each key."""
    rows: list[Row] = []
    table: dict[Row, Row] = {}
    for _, kind, _, payload in history.events:
        if kind in (TRANSACTION_VISIBLE, ROWS_FOUND):
            rows += payload["rows"]
        elif kind == ROWS_GONE:
            for row in payload["rows"]:
                rows.remove(row)
        elif kind == ROWS_WRITTEN:
            keys = payload["keys"]
            table.update({row[:keys]: row for row in payload["rows"]})
    rows += table.values()
    return rows
