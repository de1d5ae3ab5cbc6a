"""What a system on trial can take, and what it can do."""

from __future__ import annotations

from enum import StrEnum


class Capability(StrEnum):
    """One thing that a system can take or do. Each kind of fault needs one of them (`faults.py`)."""

    KILL_TASK = "kill_task"
    KILL_ALL = "kill_all"
    KILL_PROCESS = "kill_process"
    KILL_MASTER = "kill_master"
    """The job master dies alone, and its tasks run on without it."""
    MESSAGE_FAULTS = "message_faults"
    WRITE_FAULTS = "write_faults"
    STORAGE_FAULTS = "storage_faults"
    """Reads, lists and deletions of the checkpoint storage can fail."""
    LATE_PUTS = "late_puts"
    """The checkpoint storage can be an object store: it performs puts and deletions that were given up, and
    answers puts that it has performed with an error."""
    COMMIT_ERRORS = "commit_errors"
    """Commits take place and are answered with an error."""
    FAILED_COMMITS = "failed_commits"
    LATE_CALLS = "late_calls"
    """Commits and aborts are answered with an error and take place later, also in the next attempt."""
    CLOCK_JUMPS = "clock_jumps"
    """The wall clock of the job can be set forward or back, and that of the machine stays."""
    SERVER_FAULTS = "server_faults"
    """The real servers at the ends of a job can be killed, paused and cut off from it."""
    PAUSES = "pauses"
    """All processes of the program can be stopped for a while, and run on."""
    POWER_CUTS = "power_cuts"
    """The machine can lose its power: the process dies, and what was not synced may be lost."""
    RESCALE = "rescale"
    SCHEDULES = "schedules"
    """The system follows the scenario's schedule; without it the system schedules itself."""
    DETERMINISM = "determinism"
    """Two runs of a scenario are the same step by step."""
    CONTINUATIONS = "continuations"
    """Its checkpoints can be read, and restored beside the run."""
    CHECKPOINTS_SEEN = "checkpoints_seen"
    """Its checkpoints and transactions are events of the history. Without it only rows are seen."""
    TRACE = "trace"
    """A run can return its full trace."""
    ENGINE = "engine"
    """The system runs jobs of the engine; without it, queries that families declare for it."""
