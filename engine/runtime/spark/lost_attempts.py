"""Detects epochs that cannot count, and task attempts that Spark has lost or run twice; deletes files."""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.messages import TaskFailed, TaskId
from onceproof.engine.runtime.deletion import delete_if_possible
from onceproof.engine.runtime.recovery import files_of, metadata_path
from onceproof.engine.runtime.spark.epoch import Report
from onceproof.engine.runtime.storage import CheckpointStorage
from onceproof.engine.state.stored import SHARED


def has_lost_attempts(reports: Sequence[Report]) -> bool:
    """Return whether Spark has started more task attempts than the epoch has tasks: their ids have gaps."""
    numbers = {report.spark_attempt for report in reports}
    return max(numbers) - min(numbers) >= len(numbers)


def mixed_attempts(reports: Sequence[Report]) -> TaskId | None:
    """Return a subtask of which another one has read a different attempt than the reported one, or None."""
    attempts = {report.task: report.attempt for report in reports}
    for report in reports:
        for task, attempt in report.upstreams.items():
            if attempts[task] != attempt:
                return task
    return None


def failure_in(reports: Sequence[Report]) -> TaskFailed | None:
    """Return why an epoch cannot count, or None: a task has failed, or two attempts of one were read.

    A failure that no retry mends comes before the others.
    """
    messages = [message for report in reports for message in report.messages]
    failures = [message for message in messages if isinstance(message, TaskFailed)]
    if failures:
        return min(failures, key=lambda failure: not failure.unrecoverable)
    mixed = mixed_attempts(reports)
    if mixed is None:
        return None
    return TaskFailed(reports[0].attempt, mixed, "Spark has run it twice in one epoch, and used both runs")


def delete_unlisted(storage: CheckpointStorage, completed: CheckpointMetadata) -> bool:
    """Delete files of an epoch that its checkpoint does not list, and return whether there were any."""
    checkpoint_id = completed.checkpoint_id
    listed = files_of(completed) | {metadata_path(checkpoint_id)}
    found = [
        path
        for beginning in (f"chk-{checkpoint_id}/", f"{SHARED}chk-{checkpoint_id}.")
        for path in storage.list(beginning)
        if path not in listed
    ]
    delete_if_possible(storage, found)
    return bool(found)
