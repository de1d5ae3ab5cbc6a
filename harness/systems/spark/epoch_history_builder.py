"""The retelling of a job whose tasks are made anew for each epoch, in workers that come and go.

The rules this module lives by:

- The attempts that workers know are those of single tasks in single epochs. A history knows attempts of the
  job; so a snapshot or a transaction counts for the attempt of the job in which its worker began.
- What a worker wrote that was killed before it came to its end counts for nobody: where it is found in a
  complete checkpoint, its own attempt stands there as the writer, with a word that none of the job's has.
- Attempts of workers and of the job are numbered alike, so each tells its failures in events of its own kind.
- When a worker dies, Spark gives its task to another one. The job goes on in the same attempt: it has come
  back when the task begins again and rows become visible afterwards.
- A write is torn by the death of the writer: of a worker, or of the driver where it is metadata. From a write
  that failed the job comes back with a later epoch, though nobody has died.
- A worker knows what it has read itself; what the others have read is known from their snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.visible_outputs import ReadRows
from onceproof.harness.systems.recording.history_builder import Retelling

TORN_METADATA: Final = ("tear_write", "metadata_written")
"""The writer dies in the middle of it, and that is the driver."""

_DEATHS_OF_TASKS: Final = ("kill_task", "kill_all", "tear_write", "fail_write")


class EpochRetelling(Retelling):
    """Turns the events of a driver and its workers, one driver after another, into one history."""

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
        self._reached = dict.fromkeys(lengths, 0)
        """By split, how far the current attempt has read for certain."""

    def attempt_of(self, writer: str) -> str:
        """The attempt of the job for which a worker wrote, unless it was killed before its end."""
        return f"{writer}, killed" if writer in self._killed else self._attempts.get(writer, writer)

    def position(self, read: dict[str, int]) -> int | None:
        """How many records had been read by all."""
        return sum({**self._reached, **read}.values())

    def is_death(self, kind: str) -> bool:
        """Whether the job has to come back from such a fault; who tears a write dies of it."""
        return kind in ("tear_write", "fail_write") or super().is_death(kind)

    def _attempt_started(self, event: dict[str, Any]) -> None:
        super()._attempt_started(event)
        cut = self._complete.get(event["restored"], {})
        self._reached = {split: cut.get(split, 0) for split in self._lengths}

    def _subtask_started(self, event: dict[str, Any]) -> None:
        """A task begins in a worker; for one that was killed before, this is its recovery."""
        self._attempts[event["attempt"]] = self._attempt
        for recovery, _, read in self._waiting:
            if recovery.parallelism_after or recovery.kind not in _DEATHS_OF_TASKS:
                continue
            if recovery.kind in ("kill_all", "fail_write") or recovery.task == event["task"]:
                self.goes_on(recovery, event["restored"], read)

    def _snapshot_taken(self, event: dict[str, Any]) -> None:
        super()._snapshot_taken(event)
        self._reached.update(event["cut"])

    def _fault_struck(self, event: dict[str, Any]) -> None:
        fault = self._faults[event["number"]]
        kills_driver = fault.kind == "kill_process" or (fault.kind, fault.point) == TORN_METADATA
        self.death_was_planned |= kills_driver
        if kills_driver:
            # All that was read since the last checkpoint is read again, not only what the witness had read.
            event = {**event, "read": {**self._reached, **event["read"]}}
        super()._fault_struck(event)

    def _zombie_released(self, event: dict[str, Any]) -> None:
        """It was counted among the dead when it was stopped; whatever it does now, the files will show."""

    def _subtask_failed(self, event: dict[str, Any]) -> None:
        """Its own attempt may be called as one of the job's, in which the driver fails."""
        writer = event["attempt"]
        self._task_failed({**event, "attempt": self._attempts.get(writer, writer)})
        if event["injected"]:
            self._killed.add(writer)
