"""Builds the history of a job on Spark from the event logs of its drivers and workers.

The rules this module lives by:

- A worker knows the attempt of one task in one epoch; a history has attempts of the job. A snapshot or a
  transaction belongs to the job attempt in which its worker started.
- The output of a worker that was killed before its end belongs to no attempt. If a complete checkpoint
  contains it, the writer in the history is the worker's own attempt, marked as killed.
- Attempts of workers and of the job have the same form, so failures of workers are events of another kind.
- After the death of a worker, Spark runs its task in another one, in the same job attempt. The job has
  recovered when the task has started again and new rows are visible.
- A torn write is the death of its writer: a worker, or the driver for metadata. After a failed write the job
  recovers with a later epoch, although no process died.
- Tasks are made anew for each epoch, and event time shall not begin anew with them: within a job attempt, a
  task whose operators begin at another watermark than that of the checkpoint it restores is an error.
- A worker knows its own read position; those of other sources come from their snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from onceproof.harness.model.faults import FAULTS, row_of
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.history_builder import HistoryBuilder
from onceproof.harness.systems.process.visible_outputs import ReadRows
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.victims import is_victim

EVENT_TIME_IS_LOST: Final = "EventTimeIsLost"
TORN_METADATA: Final = ("tear_write", "metadata_written")
"""This fault kills the driver, which writes the metadata."""


class EpochHistoryBuilder(HistoryBuilder):
    """Builds one history from the events of successive drivers and their workers."""

    def __init__(
        self,
        faults: tuple[Fault, ...],
        lengths: Mapping[str, int],
        output: Path,
        suffix: str,
        read_rows: ReadRows,
        parallelism: int,
    ) -> None:
        super().__init__(faults, lengths, output, suffix, read_rows, parallelism)
        self._attempts: dict[str, str] = {}
        self._killed: set[str] = set()
        self._watermarks: dict[tuple[str, int], list[int]] = {}
        """By task and checkpoint of the current job attempt, the watermarks of its operators then."""
        self._reached = dict.fromkeys(lengths, 0)
        """By split, the position up to which the current attempt has read, according to snapshots."""

    def attempt_of(self, writer: str) -> str:
        """Return the job attempt of a worker's attempt; that of a killed worker is marked instead."""
        return f"{writer}, killed" if writer in self._killed else self._attempts.get(writer, writer)

    def position(self, read: dict[str, int]) -> int | None:
        """Return the number of records that all sources had read."""
        return sum({**self._reached, **read}.values())

    def is_death(self, kind: str) -> bool:
        """Return whether the job has to recover from such a fault: a write that fails costs an epoch, too."""
        row = row_of(kind)
        return super().is_death(kind) or (row is not None and row.strikes == "write")

    def add_event(self, event: dict[str, Any]) -> None:
        """Add one event of the driver or of a worker."""
        match event["kind"]:
            case event_log.SUBTASK_STARTED:
                self._subtask_started(event)
            case event_log.SUBTASK_TIME:
                self._subtask_time(event)
            case event_log.SUBTASK_FAILED:
                self._subtask_failed(event)
            case event_log.ZOMBIE_RELEASED:
                # It counted as dead when it was stopped. What it writes now shows in the files.
                pass
            case _:
                super().add_event(event)

    def _attempt_started(self, event: dict[str, Any]) -> None:
        super()._attempt_started(event)
        self._watermarks.clear()
        cut = self._complete.get(event["restored"], {})
        self._reached = {split: cut.get(split, 0) for split in self._lengths}

    def _subtask_started(self, event: dict[str, Any]) -> None:
        """Record the job attempt of a worker, and the recovery of a task that was killed before."""
        self._attempts[event["attempt"]] = self._attempt
        for recovery, _, read in self._waiting:
            row = row_of(recovery.kind)
            if recovery.parallelism_after or row is None or row.strikes not in ("tasks", "write"):
                continue
            is_hit = recovery.task == event["task"] or is_victim(row, recovery.task, event["task"])
            # A write that failed costs the epoch, and with it all tasks.
            if is_hit or recovery.kind == "fail_write":
                self.record_recovery(recovery, event["restored"], read)

    def _subtask_time(self, event: dict[str, Any]) -> None:
        """Compare the event time with which a task begins with that of the task whose place it takes."""
        task, watermarks = event["task"], event["watermarks"]
        if "ends_at" in event:
            self._watermarks[task, event["ends_at"]] = watermarks
            return
        before = self._watermarks.get((task, event["begins_at"]))
        if before is not None and watermarks != before:
            self._error(
                {
                    **event,
                    "where": task,
                    "type": EVENT_TIME_IS_LOST,
                    "function": "opened",
                    "text": f"event time is {watermarks} after checkpoint {event['begins_at']}, at which it"
                    f" was {before}, though no attempt of the job has begun in between",
                }
            )

    def _snapshot_taken(self, event: dict[str, Any]) -> None:
        super()._snapshot_taken(event)
        self._reached.update(event["cut"])

    def _fault_struck(self, event: dict[str, Any]) -> None:
        fault = self._faults[event["number"]]
        kills_driver = FAULTS[fault.kind].strikes == "process" or (fault.kind, fault.point) == TORN_METADATA
        self.death_was_planned |= kills_driver
        if kills_driver:
            # The job reads again what all sources had read, not only the process that logged the fault.
            event = {**event, "read": {**self._reached, **event["read"]}}
        super()._fault_struck(event)

    def _subtask_failed(self, event: dict[str, Any]) -> None:
        """Record the failure in the job attempt of the worker; mark a killed worker."""
        writer = event["attempt"]
        self._task_failed({**event, "attempt": self._attempts.get(writer, writer)})
        if event["injected"]:
            self._killed.add(writer)
