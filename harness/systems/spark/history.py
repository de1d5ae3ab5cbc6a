"""Builds the history of a job on Spark from the event logs of its drivers and workers.

Rules:

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

from onceproof.harness.model.faults import FAULTS, KILLS, row_of
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.kit.job_history import JobHistory
from onceproof.harness.systems.process.visible_outputs import ReadRows
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.victims import is_victim

EVENT_TIME_IS_LOST: Final = "EventTimeIsLost"


class SparkHistory:
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
        self._job = JobHistory(
            faults,
            lengths,
            output,
            suffix,
            read_rows,
            parallelism,
            attempt_of=self._attempt_of,
            is_death=_is_death,
            position=self.position,
        )
        self.run = self._job.run
        self.at_rest = self._job.at_rest
        self._attempts: dict[str, str] = {}
        self._killed: set[str] = set()
        self._watermarks: dict[tuple[str, int], list[int]] = {}
        """By task and checkpoint of the current job attempt, the watermarks of its operators then."""
        self._reached = dict.fromkeys(lengths, 0)
        """By split, the position up to which the current attempt has read, according to snapshots."""

    def _attempt_of(self, writer: str) -> str:
        """Return the job attempt of a worker's attempt; that of a killed worker is marked instead."""
        return f"{writer}, killed" if writer in self._killed else self._attempts.get(writer, writer)

    def position(self, read: Mapping[str, int]) -> int:
        """Return the number of records that all sources had read."""
        return sum({**self._reached, **read}.values())

    def add_process_log(self, events: list[dict[str, Any]]) -> None:
        """Add the event logs of a driver and of its workers, once all of them are dead."""
        self._job.add_process_log(events, self.add_event)

    def add_event(self, event: dict[str, Any]) -> None:
        """Add one event of the driver or of a worker."""
        match event["kind"]:
            case event_log.ATTEMPT_STARTED:
                self._job.add_event(event)
                self._watermarks.clear()
                cut = self.run.complete.get(event["restored"], {})
                self._reached = {split: cut.get(split, 0) for split in self.run.lengths}
            case event_log.SNAPSHOT_TAKEN:
                self._job.add_event(event)
                self._reached.update(event["cut"])
            case event_log.FAULT_STRUCK:
                self._fault_struck(event)
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
                self._job.add_event(event)

    def _subtask_started(self, event: dict[str, Any]) -> None:
        """Record the job attempt of a worker, and the recovery of a task that was killed before."""
        self._attempts[event["attempt"]] = self.run.attempt
        for recovery, _, read in self.run.recovering:
            row = row_of(recovery.kind)
            if recovery.parallelism_after or row is None or row.strikes not in ("tasks", "write"):
                continue
            is_hit = recovery.task == event["task"] or is_victim(row, recovery.task, event["task"])
            # A write that failed costs the epoch, and with it all tasks.
            if is_hit or recovery.kind == "fail_write":
                self.run.record_recovery(recovery, event["restored"], read)

    def _subtask_time(self, event: dict[str, Any]) -> None:
        """Compare the event time with which a task begins with that of the task whose place it takes."""
        task, watermarks = event["task"], event["watermarks"]
        if "ends_at" in event:
            self._watermarks[task, event["ends_at"]] = watermarks
            return
        before = self._watermarks.get((task, event["begins_at"]))
        if before is not None and watermarks != before:
            text = (
                f"event time is {watermarks} after checkpoint {event['begins_at']}, at which it was {before},"
                " though no attempt of the job has begun in between"
            )
            self.run.error(task, EVENT_TIME_IS_LOST, "opened", text)

    def _fault_struck(self, event: dict[str, Any]) -> None:
        fault = self.run.faults[event["number"]]
        kills_driver = FAULTS[fault.kind].strikes == "process" or tears_metadata(fault)
        self.run.death_was_planned |= kills_driver
        if kills_driver:
            # The job reads again what all sources had read, not only the process that logged the fault.
            event = {**event, "read": {**self._reached, **event["read"]}}
        self._job.add_event(event)

    def _subtask_failed(self, event: dict[str, Any]) -> None:
        """Record the failure in the job attempt of the worker; mark a killed worker."""
        writer = event["attempt"]
        self.run.task_failed(event, self._attempts.get(writer, writer))
        if event["injected"]:
            self._killed.add(writer)


def _is_death(kind: str) -> bool:
    """Return whether the job has to recover from such a fault: a write that fails costs an epoch, too."""
    row = row_of(kind)
    return kind in KILLS or (row is not None and row.strikes == "write")


def tears_metadata(fault: Fault) -> bool:
    """Return whether a fault kills the driver while it writes the metadata."""
    return fault.kind == "tear_write" and fault.point == "metadata_written"
