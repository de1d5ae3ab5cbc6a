"""What a system under test can take, and what it can do.

Rules:

- Each kind of fault needs one capability (`faults.py`), which says why a system without it cannot take the
  fault. A system gives a reason of its own only where that one does not fit.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Capability(StrEnum):
    """One thing that a system can take or do."""

    absence: str
    """Why faults do not apply to a system without it; "" for one that no fault needs."""

    def __new__(cls, value: str, absence: str = "") -> Self:
        """Make a capability of its name and the reason."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.absence = absence
        return member

    KILL_TASK = "kill_task", "No part of it can be killed alone."
    KILL_ALL = "kill_all", "Its parts cannot be killed without its process."
    KILL_PROCESS = "kill_process", "It runs in the process of the harness."
    KILL_MASTER = "kill_master", "It has no job master that dies alone."
    """The job master dies alone, and its tasks run on without it."""
    MESSAGE_FAULTS = "message_faults", "Its parts speak by calls, or by connections that lose nothing."
    WRITE_FAULTS = "write_faults", "It writes its checkpoints itself."
    STORAGE_FAULTS = "storage_faults", "It reads and deletes its checkpoints itself."
    """Reads, lists and deletions of the checkpoint storage can fail."""
    LATE_PUTS = "late_puts", "Its checkpoints are not in an object store."
    """The checkpoint storage can be an object store: it performs puts and deletions that were given up, and
    answers puts that it has performed with an error."""
    COMMIT_ERRORS = "commit_errors", "It commits by itself."
    """Commits take place and are answered with an error."""
    FAILED_COMMITS = "failed_commits", "It commits by itself."
    LATE_CALLS = "late_calls", "Its commits are decided when they are answered."
    """Commits and aborts are answered with an error and take place later, also in the next attempt."""
    SHORT_LISTS = "short_lists", "All of its input is there before the job starts."
    """A source lists a split less for a while, as while a broker is away."""
    LOST_ROWS = "lost_rows", "What its sinks write to answers each call."
    """A row that was handed over is lost, and its producer hears of it later."""
    FAILED_CALLS = "failed_calls", "It replaces the sinks and sources of a user's own."
    """What a user's own sinks and sources call can fail, so that their handling of errors runs."""
    DATABASE_FAULTS = "database_faults", "Its databases are real, on a disk that works."
    """The databases of keyed state can fail, as those whose disk fails."""
    LEAVING_FUNCTIONS = "leaving_functions", "Functions that leave are tried on this engine alone."
    """A function of the job can raise what is no Exception, fork, or change the folder of its process."""
    CHANGED_INPUT = "changed_input", "Input that changes is tried on the sources of this engine alone."
    """What the job has read can be shortened or replaced while it runs."""
    PAUSED_WORKERS = "paused_workers", "Its workers are killed, not paused."
    """One worker of several can be stopped, and does not go on."""
    MOVED_OUTPUT = "moved_output", "Its output stays where it is."
    """A consumer can take rows away as soon as they are visible."""
    LOST_FOLDERS = "lost_folders", "Its checkpoints stay where they are."
    """The folder of the checkpoints can vanish while the job runs."""
    CLOCK_JUMPS = "clock_jumps", "It reads the clock of the machine, which is not only its own."
    """The wall clock of the job can be set forward or back, and that of the machine stays."""
    SERVER_FAULTS = "server_faults", "It starts no server for a family."
    """The real servers at the ends of a job can be killed, paused and cut off from it."""
    PAUSES = "pauses", "Pauses are drawn for programs of which nothing else is known."
    """All processes of the program can be stopped for a while, and run on."""
    OWN_FAULTS = "own_faults", "The file of a program says what they are."
    """Faults that a user describes can strike the program."""
    POWER_CUTS = "power_cuts", "The machine stays on."
    """The machine can lose its power: the process dies, and what was not synced may be lost."""
    RESCALE = "rescale"
    """A job that is started again after a kill can have another parallelism."""
    RESCALE_RUNNING = "rescale_running"
    """Its user can rescale a job while it runs, without a kill."""
    CANCEL = "cancel"
    """Its user can cancel a job with a savepoint, and start it from there."""
    RESTARTS = "restarts"
    """Its job can have any restart strategy, or take no checkpoints; if it fails for good, it is submitted
    anew."""
    UPGRADE = "upgrade"
    """Its user can replace the job by a new version, which begins from the state of the old one."""
    SCHEDULES = "schedules"
    """The system follows the scenario's schedule; without it the system schedules itself."""
    DETERMINISM = "determinism"
    """Two runs of a scenario are the same step by step."""
    CONTINUATIONS = "continuations"
    """Its checkpoints can be read, and restored beside the run."""
    CHECKPOINTS_SEEN = "checkpoints_seen"
    """Its checkpoints and transactions are events of the history. Without it only rows are seen."""
    INPUT_SEEN = "input_seen"
    """It is seen how far each split of the input was read when a job says that it has finished."""
    MACHINES_SEEN = "machines_seen"
    """What the machines of the engine answer is compared with their specifications."""
    TRACE = "trace"
    """A run can return its full trace."""
    ENGINE = "engine"
    """The system runs jobs of the engine; without it, queries that families declare for it."""
