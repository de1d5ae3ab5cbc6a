"""The fault table: one row for each kind of fault that a scenario can hold.

The rules this module lives by:

- All that the harness knows of a kind stands in its row: where it makes sense, what it strikes, what a system
  must be able to take for it, by which means it comes about in real processes, and its words. Generation,
  coverage, shrinking, explanation and every system read the row. None keeps a list of kinds of its own.
- How a kind is carried out is the business of the systems: each answers each row with a method, or with the
  reason why it cannot (`system.py`).
- The names of kinds, points and means stand in scenario files and are never renamed. A kind draws from a seed
  of its own, derived from its name: a further row changes only the scenarios in which its kind occurs.
- A server is another process than the job: its faults strike as the job passes a point, and the job lives on.
  Only families that need a server draw them (`generation/server_faults.py`).
- A row is lost behind a producer that hands rows over and hears of each later. Only families that write to
  Kafka draw it (`generation/late_patterns.py`).
- An input that changes, output that a consumer takes away, a worker that is paused and a folder that vanishes
  are drawn by a chance of their own, as is a function that leaves: few scenarios have one.
- A pause stops all processes of a program from outside, and a fault of a user's own is what the file of a
  program says. Only programs of which nothing else is known draw them (`generation/program_faults.py`).
- The points are written here a second time beside the engine's: checkers read them, and the judge does not
  import the accused. A test holds the two lists equal.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Final, get_args

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_kinds import (
    CLIENT_ANSWERS,
    MARK,
    MEANS_POINTS,
    MESSAGES_ALONE,
    POINTS,
    TASK_POINTS,
    TOPIC_CHANGES,
    Delay,
    FaultKind,
    Means,
    Point,
    Target,
    Victims,
)

_MESSAGE_POINTS: Final[tuple[Point, ...]] = ("triggered", "acknowledged", "notified", *MESSAGES_ALONE)
_WRITE_POINTS: Final[tuple[Point, ...]] = ("snapshotted", "metadata_written")
_SNAPSHOT_POINTS: Final[tuple[Point, ...]] = ("snapshotted",)
_COMMIT_POINTS: Final[tuple[Point, ...]] = ("committing",)
_ABORT_POINTS: Final[tuple[Point, ...]] = ("aborted",)
_CLOCK_POINTS: Final[tuple[Point, ...]] = ("triggered", "completed", "restored", "element")
"""While an expiry, an interval or a restart is waited for, and while timers of users are."""
_READ_POINTS: Final[tuple[Point, ...]] = ("restoring",)
"""Files are read and listed as a process or an attempt begins, and listed before they are deleted."""
_DELETION_POINTS: Final[tuple[Point, ...]] = ("completed",)
"""A complete checkpoint makes most of the files that are deleted superfluous."""

KILL_TARGETS: Final[tuple[Target, ...]] = ("tasks", "process", "master")
"""What dies of a kill."""
_AT_PASSES: Final = frozenset(
    ("clock", "server", "pause", "listing", "function", "input", "output", "worker", "folder", "own")
)
_AT_MARKS: Final = frozenset(("tasks", "process", "server", "pause", "own"))
"""What is struck as a program passes a mark."""
"""What is struck as a point is passed, kills aside."""


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One kind of fault."""

    kind: FaultKind
    strikes: Target
    points: tuple[Point, ...]
    """The points at which the kind makes sense: the generator draws from them, coverage expects them."""
    needs: Capability
    """What a system must be able to take."""
    verb: str
    """What the fault does, for a plan. ``{task}`` stands where the plan names the task, if it does,
    ``{server}`` for the server, and ``{name}`` for a fault of a user's own."""
    sentence: str
    """What the fault did, for a report. ``{task}`` stands for the task that passed the point,
    ``{server}`` for the server."""
    delay: Delay = "none"
    """Whether ``Fault.delay`` says by how many steps the fault holds something back, by how much a clock
    jumps, or for how many milliseconds a server is gone or a listing is short."""
    victims: Victims = "none"
    means: tuple[Means, ...] = ()
    """By what it can come about in real processes, besides the plain way."""
    takes_place: bool = False
    """Whether the write or commit takes place all the same, and is answered late or with an error."""
    turns_clock: int = 0
    """In which direction it sets the wall clock: 1 forward, -1 back."""
    leaves_files: tuple[Point, ...] = ()
    """The points at which it may leave files that nothing knows, until a later start of the job."""
    milder: FaultKind | None = None
    """What is tried in its place where a failure is shrunk in real processes."""
    weight: int = 1
    """Its tickets where one of several kinds is drawn; 0 if it has a draw of its own."""
    outside_weight: int = 0
    """Its tickets among what real processes suffer from outside (`generation/outside_faults.py`)."""

    @property
    def is_kill(self) -> bool:
        """Whether a task or a process dies of it."""
        return self.strikes in KILL_TARGETS

    @property
    def all_points(self) -> tuple[Point, ...]:
        """The points at which a scenario can have it, with those that programs alone pass."""
        return (*self.points, MARK) if self.strikes in _AT_MARKS else self.points

    @property
    def share(self) -> float:
        """The share of the scenarios that may use it in patterns."""
        return 0.7 if self.is_kill else 0.5

    @property
    def counts_passes(self) -> bool:
        """Whether it counts passes of its point. The others count messages, commits and calls of storages."""
        return self.is_kill or self.strikes in _AT_PASSES

    @property
    def holds_up(self) -> bool:
        """Whether ``Fault.delay`` is steps for which the job may have to wait; else it is milliseconds."""
        return self.strikes not in _AT_PASSES

    @property
    def kills_tasks(self) -> bool:
        """Whether tasks die of it, and the process lives on."""
        return self.strikes == "tasks"

    def fits(self, point: Point, means: Means) -> bool:
        """Return whether the kind can come about by a means at a point."""
        return means in self.means and point in MEANS_POINTS.get(means, (point,))


_ROWS: Final = (
    FaultRow(
        "kill_task",
        "tasks",
        TASK_POINTS,
        Capability.KILL_TASK,
        "kill {task}",
        "{task} was killed",
        victims="passing",
        # A task dies with its executor; is stopped, replaced, and runs on; dies when what it had read is gone
        # as well; or is so slow that another one takes its place.
        means=("executor", "zombie", "shuffle", "slow"),
    ),
    FaultRow(
        "kill_all",
        "tasks",
        POINTS,
        Capability.KILL_ALL,
        "kill all tasks",
        "all tasks were killed",
        victims="all",
        means=("executor", "shuffle"),
        milder="kill_task",
    ),
    FaultRow(
        "kill_process",
        "process",
        POINTS,
        Capability.KILL_PROCESS,
        "kill the process",
        "the process was killed",
        # The driver dies because its Java does.
        means=("java",),
        milder="kill_task",
    ),
    FaultRow(
        "kill_master",
        "master",
        POINTS,
        Capability.KILL_MASTER,
        "kill the job master",
        "the job master was killed",
    ),
    FaultRow(
        "power_cut",
        "process",
        POINTS,
        Capability.POWER_CUTS,
        "cut the power",
        "the power was cut",
    ),
    FaultRow(
        "lose_message",
        "message",
        _MESSAGE_POINTS,
        Capability.MESSAGE_FAULTS,
        "lose the message",
        "a message was lost",
        leaves_files=("acknowledged",),
    ),
    FaultRow(
        "delay_message",
        "message",
        _MESSAGE_POINTS,
        Capability.MESSAGE_FAULTS,
        "delay the message",
        "a message was delayed",
        delay="required",
    ),
    FaultRow(
        "duplicate_message",
        "message",
        _MESSAGE_POINTS,
        Capability.MESSAGE_FAULTS,
        "send the message twice",
        "a message was sent twice",
        delay="optional",
    ),
    FaultRow(
        "fail_write",
        "write",
        _WRITE_POINTS,
        Capability.WRITE_FAULTS,
        "fail the write",
        "a write of {task} failed",
        # The disk is full, or can only be read, for the writes that follow as well.
        means=("full", "read_only"),
    ),
    FaultRow(
        "tear_write",
        "write",
        _WRITE_POINTS,
        Capability.WRITE_FAULTS,
        "tear the write",
        "a write of {task} was torn",
        leaves_files=_WRITE_POINTS,
    ),
    FaultRow(
        "late_write",
        "write",
        _WRITE_POINTS,
        Capability.WRITE_FAULTS,
        "report the write late",
        "a write of {task} was reported late",
        delay="required",
        takes_place=True,
    ),
    FaultRow(
        "fail_commit",
        "commit",
        _COMMIT_POINTS,
        Capability.FAILED_COMMITS,
        "fail the commit",
        "a commit of {task} failed",
        means=CLIENT_ANSWERS,
    ),
    FaultRow(
        "commit_error_after_success",
        "commit",
        _COMMIT_POINTS,
        Capability.COMMIT_ERRORS,
        "answer a commit that took place with an error",
        "a commit of {task} took place and was answered with an error",
        means=CLIENT_ANSWERS,
        takes_place=True,
    ),
    FaultRow(
        "clock_ahead",
        "clock",
        _CLOCK_POINTS,
        Capability.CLOCK_JUMPS,
        "set the wall clock forward",
        "the wall clock was set forward",
        delay="required",
        turns_clock=1,
    ),
    FaultRow(
        "clock_back",
        "clock",
        _CLOCK_POINTS,
        Capability.CLOCK_JUMPS,
        "set the wall clock back",
        "the wall clock was set back",
        delay="required",
        turns_clock=-1,
    ),
    FaultRow(
        "fail_read",
        "read",
        _READ_POINTS,
        Capability.STORAGE_FAULTS,
        "fail the read",
        "the storage could not be read or listed",
        leaves_files=_READ_POINTS,
    ),
    FaultRow(
        "fail_delete",
        "deletion",
        _DELETION_POINTS,
        Capability.STORAGE_FAULTS,
        "fail the deletion",
        "the storage refused to delete a file",
        leaves_files=_DELETION_POINTS,
    ),
    FaultRow(
        "late_read",
        "read",
        _READ_POINTS,
        Capability.STORAGE_FAULTS,
        "answer the read late",
        "a read or list of the storage was answered late",
        delay="required",
    ),
    FaultRow(
        "stale_list",
        "deletion",
        _DELETION_POINTS,
        Capability.STORAGE_FAULTS,
        "list the deleted file on",
        "the storage still listed a file that was deleted",
        delay="required",
    ),
    FaultRow(
        "late_put",
        "write",
        _WRITE_POINTS,
        Capability.LATE_PUTS,
        "leave the put without an answer, and perform it later",
        "a put of {task} had no answer until it was given up, and was performed later",
        delay="required",
        weight=0,
        leaves_files=_WRITE_POINTS,
    ),
    FaultRow(
        "kill_server",
        "server",
        POINTS,
        Capability.SERVER_FAULTS,
        "kill {server}",
        "{server} was killed",
        # After which it is started again.
        delay="optional",
        weight=4,
    ),
    FaultRow(
        "pause_server",
        "server",
        POINTS,
        Capability.SERVER_FAULTS,
        "pause {server}",
        "{server} was paused",
        delay="required",
    ),
    FaultRow(
        "cut_connection",
        "server",
        POINTS,
        Capability.SERVER_FAULTS,
        "cut a connection to {server}",
        "a connection to {server} was cut",
        # In the middle of the next answer, not of the next request: the server has done what it was asked.
        means=("answer",),
        weight=4,
    ),
    FaultRow(
        "pause_process",
        "pause",
        POINTS,
        Capability.PAUSES,
        "pause the process",
        "the process was paused",
        delay="required",
    ),
    FaultRow(
        "late_commit",
        "commit",
        _COMMIT_POINTS,
        Capability.LATE_CALLS,
        "answer a commit with an error, and let it take place later",
        "a commit of {task} was answered with an error, and took place later",
        delay="required",
        means=CLIENT_ANSWERS,
    ),
    FaultRow(
        "late_abort",
        "abort",
        _ABORT_POINTS,
        Capability.LATE_CALLS,
        "answer an abort with an error, and let it take place later",
        "an abort of {task} was answered with an error, and took place later",
        delay="required",
        means=CLIENT_ANSWERS,
    ),
    FaultRow(
        "late_delete",
        "deletion",
        _DELETION_POINTS,
        Capability.LATE_PUTS,
        "leave the deletion without an answer, and perform it later",
        "a deletion had no answer, and was performed later",
        delay="required",
        weight=0,
        leaves_files=_DELETION_POINTS,
    ),
    FaultRow(
        "write_error_after_success",
        "write",
        _SNAPSHOT_POINTS,
        Capability.LATE_PUTS,
        "answer a write that took place with an error",
        "a write of {task} took place, was answered with an error, and was deleted by its writer",
        weight=0,
        takes_place=True,
    ),
    FaultRow(
        "short_list",
        "listing",
        # A job that begins anew reads what is listed. One that is restored knows its splits.
        ("completed",),
        Capability.SHORT_LISTS,
        "list all splits but one",
        "the source listed all splits but one for a while",
        delay="required",
        weight=0,
    ),
    FaultRow(
        "lose_row",
        "row",
        ("element",),
        Capability.LOST_ROWS,
        "lose the row, and report it to the producer",
        "a row of {task} was lost behind its producer, which heard of it",
        weight=0,
    ),
    FaultRow(
        "function_leaves",
        "function",
        ("element",),
        Capability.LEAVING_FUNCTIONS,
        "let a function of {task} leave",
        "a function of {task} left",
        # Plain: it exits with code 0. The others raise what is no error, fork and return in the child, or
        # change the folder of the process, which is no failure.
        means=("interrupt", "cancelled", "generator_exit", "stop_iteration", "fork", "chdir"),
        weight=0,
        outside_weight=6,
    ),
    FaultRow(
        "change_input",
        "input",
        # What no complete checkpoint covers, a restored job reads as it is now.
        ("completed",),
        Capability.CHANGED_INPUT,
        "change the input that was read",
        "the input was changed",
        # Plain: a file is shorter than what was read of it. A topic is deleted and created again, or its
        # retention deletes rows that were not read.
        means=("replaced", *TOPIC_CHANGES),
        weight=0,
        outside_weight=3,
    ),
    FaultRow(
        "move_output",
        "output",
        ("committed",),
        Capability.MOVED_OUTPUT,
        "take the visible output away",
        "a consumer took the visible output away",
        weight=0,
        outside_weight=2,
    ),
    FaultRow(
        "pause_worker",
        "worker",
        ("element", "barrier_received", "pre_committed", "committing"),
        Capability.PAUSED_WORKERS,
        "pause the worker of {task}",
        "the worker of {task} was paused",
        weight=0,
        outside_weight=2,
    ),
    FaultRow(
        "lose_folder",
        "folder",
        ("element", "completed"),
        Capability.LOST_FOLDERS,
        "move the folder of the checkpoints away",
        "the folder of the checkpoints vanished",
        weight=0,
        outside_weight=1,
    ),
    FaultRow(
        "fail_call",
        "call",
        ("element",),
        Capability.FAILED_CALLS,
        "answer a call of {task} with an error",
        "a call of {task} to the outside was answered with an error",
        # Plain: nothing is done. Otherwise the call took place.
        means=("answer",),
        weight=0,
    ),
    FaultRow(
        "fail_database",
        "database",
        ("snapshotted", "restoring"),
        Capability.DATABASE_FAULTS,
        "fail the disk of {task}'s database",
        "the disk of a database of {task} failed",
        weight=0,
    ),
    FaultRow(
        "own_fault",
        "own",
        POINTS,
        Capability.OWN_FAULTS,
        "strike with {name}",
        "the fault {task} struck",
        # After which it is undone.
        delay="optional",
        weight=0,
    ),
)

FAULTS: Final[Mapping[FaultKind, FaultRow]] = {row.kind: row for row in _ROWS}
"""The table, in the order of FAULT_KINDS."""

KILLS: Final = frozenset(row.kind for row in _ROWS if row.is_kill)
"""The kinds of which a task or a process dies; histories are asked by these names."""

_OF_SOME_JOBS: Final = frozenset(
    ("server", "pause", "row", "input", "output", "worker", "folder", "call", "database", "own")
)
JOB_FAULTS: Final[tuple[FaultKind, ...]] = tuple(
    row.kind for row in _ROWS if row.strikes not in _OF_SOME_JOBS
)
"""The kinds that any job of the engine can suffer; the others need a server at an end of the job, or its
model, strike programs of which nothing is known, or what the engine must report and cannot survive."""

AT_PASSES: Final = frozenset(row.kind for row in _ROWS if row.counts_passes)
"""The kinds that strike as a point is passed."""


def drawn_rows() -> list[FaultRow]:
    """Return the rows from which the faults of any job are drawn; the others have draws of their own."""
    return [row for row in FAULTS.values() if row.weight and row.strikes not in _OF_SOME_JOBS]


def drawn_kinds(*targets: Target, delays: Container[Delay] = get_args(Delay)) -> dict[FaultKind, int]:
    """Return the kinds that strike one of the targets, with their weights, as `Lots.first` takes them."""
    return {
        row.kind: row.weight
        for row in FAULTS.values()
        if row.weight and row.strikes in targets and row.delay in delays
    }


def row_of(name: str) -> FaultRow | None:
    """Return the row of a kind that a history or a report names; None where the table has no such kind."""
    return _ROWS_BY_NAME.get(name)


_ROWS_BY_NAME: Final[Mapping[str, FaultRow]] = {row.kind: row for row in _ROWS}


def leaving_files(*targets: Target) -> tuple[tuple[FaultKind, Point], ...]:
    """Return the kinds that may leave files where they strike one of the targets, each with its points."""
    return tuple(
        [(row.kind, point) for row in FAULTS.values() if row.strikes in targets for point in row.leaves_files]
    )
