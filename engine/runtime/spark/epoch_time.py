"""Time from one epoch to the next: what a task knows of event time, and the driver's clock.

The rules this module lives by:

- A task ends with its epoch, and another one goes on in its place. Within an attempt of the job watermarks,
  idleness and generators continue, so that what is late in the local runtime is late here.
- What is carried is no state of the checkpoint. The driver keeps it for the attempt, and a restart drops it:
  event time begins anew only where Flink's does, at a restore.
- It belongs to the checkpoint that the next epoch restores: that of an epoch whose checkpoint was aborted is
  forgotten with the epoch.
- Epochs follow one another by the driver's steady clock: a wall clock that is set does not make a split idle.
- A generator of the user is pickled by value, like the job's functions. The bytes come from a worker of the
  same attempt, by way of Spark, never from a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pyspark import cloudpickle
from pyspark.serializers import CloudPickleSerializer

from onceproof.engine.errors import UnrecoverableError, text_of
from onceproof.engine.messages import TaskId
from onceproof.engine.runtime.spark.epoch import Report
from onceproof.engine.task.input_time import TaskTime

_CLOSURES: Final = CloudPickleSerializer()


class TimeNotCarried(UnrecoverableError):
    """A watermark generator cannot be pickled. The message is one line."""


class EpochSpan(NamedTuple):
    """The processing time of an epoch's begin and end, and how far it is ahead of the steady clock."""

    begin_ms: int
    end_ms: int
    ahead_ms: int


class AttemptTime:
    """The time that the driver keeps for one attempt of the job."""

    def __init__(self, restored_ms: int | None) -> None:
        self._restored_ms = restored_ms
        """The processing time of the checkpoint that the attempt begins from; None: it has none."""
        self._ended_ms: int | None = None
        """The steady time at which the last complete epoch ended."""
        self._reported: Mapping[TaskId, bytes] = {}
        self.carried: Mapping[TaskId, bytes] = {}
        """The packed event time of each task that knows any, as of the last complete checkpoint."""

    def span(self, end_ms: int, ahead_ms: int) -> EpochSpan:
        """Return the span of the next epoch, whose checkpoint has the processing time ``end_ms``.

        It begins where the last complete one ended, or where the restored checkpoint was taken.
        """
        if self._ended_ms is not None:
            begin_ms = self._ended_ms + ahead_ms
        else:
            begin_ms = end_ms if self._restored_ms is None else self._restored_ms
        return EpochSpan(min(begin_ms, end_ms - 1), end_ms, ahead_ms)

    def reported(self, reports: Iterable[Report]) -> None:
        """Note what the tasks of an epoch knew at its end."""
        self._reported = {report.task: report.time for report in reports if report.time}

    def completed(self, span: EpochSpan) -> None:
        """Keep what was reported: the checkpoint of the epoch is complete, and the next epoch restores it."""
        self.carried = self._reported
        self._ended_ms = span.end_ms - span.ahead_ms


def pack_time(known: TaskTime | None, task_name: str) -> bytes:
    """Return a task's event time as bytes; none if it knows nothing. Raises TimeNotCarried."""
    if known is None:
        return b""
    try:
        packed: bytes = cloudpickle.dumps(known)
    except Exception as error:
        raise TimeNotCarried(
            f"a watermark generator of {task_name} cannot be handed to the next epoch:"
            f" {text_of(error)}: on Spark generators are pickled, so leave what cannot be"
            " pickled out of them"
        ) from error
    return packed


def unpack_time(packed: bytes) -> TaskTime:
    """Return the event time of packed bytes, which a worker of this attempt has sent."""
    known: TaskTime = _CLOSURES.loads(packed)
    return known
