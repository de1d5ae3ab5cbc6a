"""Runs an epoch as a Spark job: starts it, waits for it, cancels it, and explains its failure.

Rules:

- Spark's actions block, so a job runs in a thread of its own; the driver can wait with a timeout, and can
  cancel the job.
- The subtasks of a Spark task make their files durable together, and only then does any of them report: apart
  from that each would wait for the disk some four times. If that fails, all of them decline the checkpoint.
- A buffer is one object for Spark's serializer: a shuffle of single records would take twice the time.
- A failed job can be tried again, unless Spark has stopped, or the workers cannot import a module.
- Spark's errors do not say which disk is full. It is that of its temporary folder, which is named here.
"""

from __future__ import annotations

import errno
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final

from msgspec.structs import replace
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import Broadcast, InheritableThread, SparkContext, TaskContext

from onceproof.engine.errors import text_of
from onceproof.engine.file_calls import joint_syncs
from onceproof.engine.messages import AcknowledgeCheckpoint, AttemptId, DeclineCheckpoint, TaskFailed, TaskId
from onceproof.engine.runtime.garbage_collection import few_garbage_collections, freeze_loaded_objects
from onceproof.engine.runtime.spark.epoch import Deployment, Epoch, Report
from onceproof.engine.runtime.spark.stages import DRIVER, Parcel, Stages, partitions_of
from onceproof.engine.runtime.spark.subtask import GIVE_MODULES, SubtaskRun
from onceproof.engine.runtime.spark_session import SPARK_ERRORS, one_line


class StageRun:
    """The function that Spark calls with each partition; it is sent with every task, so it is small."""

    def __init__(
        self, stage: int, partitions: Sequence[int], shipment: Broadcast[Deployment], epoch: Epoch
    ) -> None:
        self._stage = stage
        self._partitions = partitions[stage]
        self._next_partitions = partitions[stage + 1] if stage + 1 < len(partitions) else 1
        self._shipment = shipment
        self._epoch = epoch

    def __call__(self, partition: int, arrived: Iterable[Any]) -> Iterator[tuple[int, Parcel]]:
        """Yield (partition of the next stage, parcel): parcels of the subtasks, and those passing through."""
        mine: dict[int, list[Parcel]] = {}
        freeze_loaded_objects()
        with few_garbage_collections():
            # The key of the shuffle is not needed any more.
            for _, parcel in arrived:
                if parcel[0] == self._stage:
                    mine.setdefault(parcel[1], []).append(parcel)
                else:
                    yield self._address(parcel, partition), parcel
            for parcel in self._run(partition, mine):
                yield self._address(parcel, partition), parcel

    def _run(self, partition: int, arrived: dict[int, list[Parcel]]) -> Iterator[Parcel]:
        context = TaskContext.get()
        assert context is not None
        spark_attempt = context.taskAttemptId()
        try:
            deployment = self._shipment.value
        except BaseException as error:
            yield _unmade(partition, spark_attempt, error)
            return
        tasks = deployment.stages.tasks[self._stage]
        reports: list[Report] = []
        try:
            with joint_syncs():
                for place in range(partition, len(tasks), self._partitions):
                    run: SubtaskRun = deployment.subtask_class(
                        deployment, self._epoch, tasks[place], spark_attempt
                    )
                    for parcel in run.run(arrived.pop(place, ())):
                        if parcel[0] == DRIVER:
                            reports.append(parcel[-1])
                        else:
                            yield parcel
        except OSError as error:
            reports = [_declining(report, error) for report in reports]
        yield from [(DRIVER, 0, 0, 0, report) for report in reports]

    def _address(self, parcel: Parcel, partition: int) -> int:
        """Return the partition of the next stage for a parcel; one that passes through may take any."""
        stage = parcel[0]
        if stage == self._stage + 1:
            return parcel[1] % self._next_partitions
        return (partition if stage == DRIVER else parcel[1]) % self._next_partitions


def _declining(report: Report, error: OSError) -> Report:
    """Return the report of a subtask whose files, or those beside them, have not become durable."""
    place = f"{error.filename}: " if error.filename else ""
    reason = f"{place}cannot be written: {error.strerror or error}"
    messages = [
        DeclineCheckpoint(message.attempt, message.task, message.checkpoint_id, reason)
        if isinstance(message, AcknowledgeCheckpoint)
        else message
        for message in report.messages
    ]
    return replace(report, messages=tuple(messages))


def _unmade(partition: int, spark_attempt: int, error: BaseException) -> Parcel:
    """Return the report that the worker cannot make the job's tasks, which would fail again."""
    said = f"{type(error).__name__}: {text_of(error)}"
    cause = f"a Spark worker cannot make the job's tasks: {said}: {GIVE_MODULES}"
    task, attempt = TaskId(0, partition), AttemptId("")
    failure = TaskFailed(attempt, task, cause, unrecoverable=True)
    return DRIVER, 0, 0, 0, Report(task, attempt, {}, (failure,), 0, b"", spark_attempt)


SECONDS_TO_CALL_OFF: Final = 0.5
ATTEMPTS_TO_CALL_OFF: Final = 60

DISK_IS_FULL: Final = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
"""What Java and Python say when a disk or a quota of it is full."""

_groups: Final = count(1)
_logger = logging.getLogger(__name__)


class EpochJobFailed(Exception):
    """A Spark job has failed. ``is_final``: the next one would fail, too. The message is one line."""

    def __init__(self, message: str, is_final: bool) -> None:
        super().__init__(message)
        self.is_final = is_final


class EpochJob:
    """The Spark job of one epoch; the constructor starts it."""

    def __init__(
        self,
        context: SparkContext,
        name: str,
        stages: Stages,
        shipment: Broadcast[Deployment],
        epoch: Epoch,
    ) -> None:
        self._context = context
        self._name = name
        self._stages = stages
        self._shipment = shipment
        self._epoch = epoch
        self._group = f"onceproof epoch {next(_groups)}"
        self._reports: list[Report] = []
        self._failure: BaseException | None = None
        self._thread: InheritableThread | None = None
        try:
            thread = InheritableThread(target=self._run, name=self._group, daemon=True)
            thread.start()
            self._thread = thread
        except (*SPARK_ERRORS, OSError) as failure:
            # Starting the thread copies Spark's thread-local properties, which can fail.
            self._failure = failure

    def wait(self, seconds: float | None) -> bool:
        """Wait up to ``seconds`` for the end (None: without limit), and return whether the job has ended."""
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def reports(self) -> list[Report]:
        """Return the reports of the subtasks after the end. Raises JobLost."""
        failure = self._failure
        if failure is None:
            return self._reports
        if not isinstance(failure, Exception):
            raise failure
        said = cause_of(failure, self._context)
        if is_gone(self._context):
            raise EpochJobFailed(said, is_final=True) from failure
        # Workers that lack a module now will lack it the next time.
        is_final = said.startswith(("ModuleNotFoundError", "ImportError"))
        raise EpochJobFailed(f"the epoch's Spark job failed: {said}", is_final) from failure

    def cancel(self) -> None:
        """Cancel the job and wait for its end."""
        # If Spark has stopped, the job has ended. A job that has not reached Spark yet is cancelled again.
        # One that does not end is left alone after a while, because no checkpoint refers to its files.
        for _ in range(ATTEMPTS_TO_CALL_OFF):
            with suppress(Py4JError, OSError):
                self._context.cancelJobGroup(self._group)
            if self.wait(SECONDS_TO_CALL_OFF):
                return
        _logger.warning("%s does not end although it was called off", self._group)

    def _run(self) -> None:
        try:
            context = self._context
            context.setJobGroup(self._group, f"{self._name}, checkpoint {self._epoch.checkpoint_id}", True)
            # A Java that is dead shows here, where it ends the job in a line.
            partitions = partitions_of(self._stages, context.defaultParallelism)
            first, *others = partitions
            stream = context.parallelize(range(first), first).mapPartitionsWithIndex(_numbered)
            parcels = stream.mapPartitionsWithIndex(StageRun(0, partitions, self._shipment, self._epoch))
            for stage, number in enumerate(others, 1):
                shuffled = parcels.partitionBy(number, _itself)
                run = StageRun(stage, partitions, self._shipment, self._epoch)
                parcels = shuffled.mapPartitionsWithIndex(run)
            self._reports = [parcel[-1] for _, parcel in parcels.collect()]
        except BaseException as failure:
            self._failure = failure


def cause_of(failure: Exception, context: SparkContext) -> str:
    """Return an error of Spark in one line, with what to do about it."""
    said = one_line(failure)
    if is_gone(context):
        return (
            f"Spark has stopped: {said}: its Java has ended or was killed; start the job again, and"
            " it resumes from its last checkpoint"
        )
    if any(text in said for text in DISK_IS_FULL):
        folder = context.getConf().get("spark.local.dir", tempfile.gettempdir())
        return f"{said}: free some space in {folder}, or set spark.local.dir or TMPDIR to another disk"
    return said


def _numbered(partition: int, nothing: object) -> Sequence[object]:
    """Return no input: the first stage reads its sources."""
    return ()


def _itself(partition: int) -> int:
    return partition


def is_gone(context: SparkContext) -> bool:
    """Return whether Spark has stopped, or its Java has ended."""
    try:
        return bool(context._jsc is None or context._jsc.sc().isStopped())
    except (Py4JNetworkError, Py4JError, OSError):
        return True
