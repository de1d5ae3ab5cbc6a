"""What the reports of an epoch tell of task attempts that Spark has begun and lost, or run twice."""

from __future__ import annotations

from collections.abc import Sequence

from engine.messages import TaskId
from engine.runtime.spark.epoch import Report


def has_losses(reports: Sequence[Report]) -> bool:
    """Whether Spark has begun more task attempts than the job has tasks: it numbers them one by one."""
    numbers = [report.spark_attempt for report in reports]
    return max(numbers) - min(numbers) >= len(numbers)


def mixed_attempts(reports: Sequence[Report]) -> TaskId | None:
    """A subtask of which others have read another attempt than the one that came back, if there is any."""
    attempts = {report.task: report.attempt for report in reports}
    for report in reports:
        for task, attempt in report.upstreams.items():
            if attempts[task] != attempt:
                return task
    return None
