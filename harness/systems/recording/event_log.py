"""The event log of a process under trial: one JSON object a line, which survives the death of the process.

Rules:

- A line is handed to the kernel in one write before anything that follows from the event can happen: what a
  reader could have seen has its line before the next thing could be seen. So the order of lines is the order
  of events.
- A kill may cut the last line short, and only that one. A line without a newline does not count; the history
  builder looks at the files to find out what became of the event.
- Each process has a file of its own; nothing is appended to the torn line of a predecessor.
- The code under trial runs in the same process. A line that is no event ends the run, with one line that
  names it.
- Times are nanoseconds of the machine's monotonic clock, which all its processes share. They put in order
  what several processes wrote beside each other: a cause is written, and so timed, before its effect.
"""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from onceproof.engine.outside_files import read_at_most
from onceproof.harness.model.family import FamilyError

PROCESS_STARTED: Final = "process_started"
SUBTASK_STARTED: Final = "subtask_started"
"""Of systems whose tasks are made anew for each checkpoint: one of them begins."""
SUBTASK_TIME: Final = "subtask_time"
"""Likewise: what one of them knows of event time, when it has begun or when it has taken its snapshot."""
ATTEMPT_STARTED: Final = "attempt_started"
SNAPSHOT_TAKEN: Final = "snapshot_taken"
CHECKPOINT_TRIGGERED: Final = "checkpoint_triggered"
CHECKPOINT_COMPLETED: Final = "checkpoint_completed"
CHECKPOINT_ABORTED: Final = "checkpoint_aborted"
COMMITTED: Final = "committed"
ROWS_WRITTEN: Final = "rows_written"
"""By key, into a table."""
COMMIT_FAILED: Final = "commit_failed"
UPLOAD_BEGUN: Final = "upload_begun"
"""The object store has begun an upload in parts, and answered with its id."""
ROWS_SEEN: Final = "rows_seen"
"""A reader outside of the job sees the rows of a transaction for the first time."""
ROWS_GONE: Final = "rows_gone"
"""It saw rows before, and sees fewer of them now."""
FAULT_STRUCK: Final = "fault_struck"
TASK_FAILED: Final = "task_failed"
"""In an attempt of the job."""
SUBTASK_FAILED: Final = "subtask_failed"
"""In an attempt of its own, whose name may be that of one of the job's."""
ZOMBIE_RELEASED: Final = "zombie_released"
"""A process that was stopped while another took its place was let go on."""
SERVER_AWAY: Final = "server_away"
"""The process ends because a server does not answer; the next one tries again."""
SPLIT_READ: Final = "split_read"
"""A reader of the input is closed, which has come so far in its split."""
LEFT_BEHIND: Final = "left_behind"
"""Something of a dead attempt is still in its process."""
ERROR: Final = "error"
SAVEPOINT_COMPLETED: Final = "savepoint_completed"
"""The job runs on."""
JOB_STOPPED: Final = "job_stopped"
"""With a savepoint, from which the next process goes on."""
JOB_RESCALED: Final = "job_rescaled"
"""While it runs: the next attempt follows at once."""
JOB_FINISHED: Final = "job_finished"
JOB_FAILED: Final = "job_failed"

MOST_BYTES: Final = 1 << 30
"""Of a log."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Any])


class EventLog:
    """The file to which a process appends.

    All copies of it are the same file; one that is sent to another process is that one's file beside it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return log_beside, (self._path,)

    def write(self, kind: str, **payload: Any) -> None:
        """Append one event. ``payload`` is what JSON can hold."""
        line = _encoder.encode({"at": time.monotonic_ns(), "kind": kind, **payload})
        os.write(self._descriptor, line + b"\n")


class ForkedEventLog(EventLog):
    """The log of a process that forks: what a fork of it writes goes to a file of its own beside it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._process = os.getpid()

    def write(self, kind: str, **payload: Any) -> None:
        """Append one event to the file of this process."""
        process = os.getpid()
        if process != self._process:
            self._process = process
            super().__init__(f"{self._path}.{process}")
        super().write(kind, **payload)


@cache
def log_beside(path: str) -> EventLog:
    """Return the log of this process beside that of another one."""
    return EventLog(f"{path}.{os.getpid()}")


def read_all_events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a process and of those that logged beside it, in the order of time."""
    events = read_events(path)
    for beside in sorted(path.parent.glob(f"{path.name}.*")):
        events += read_events(beside)
    events.sort(key=lambda event: event["at"])
    return events


def read_events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a process, without a last line that is torn. Raises FamilyError for no events."""
    try:
        data = read_at_most(path, MOST_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FamilyError(f"{path}: the event log of a process cannot be read: {error.strerror}") from None
    whole, _, _ = data.rpartition(b"\n")
    return [_event(line, f"{path}:{number}") for number, line in enumerate(whole.splitlines(), 1)]


def _event(line: bytes, place: str) -> dict[str, Any]:
    """Return the event of a line. Raises FamilyError: the code under trial runs where the log is written."""
    try:
        event = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    else:
        if type(event.get("at")) is int and type(event.get("kind")) is str:
            return event
        reason = "it has no time or no kind"
    raise FamilyError(f"{place}: no event of a process: {reason}: let the family write elsewhere")
