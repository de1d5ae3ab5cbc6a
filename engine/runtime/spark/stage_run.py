"""Runs a stage of an epoch's Spark job in a worker: the subtasks of a partition, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark import Broadcast, TaskContext

from onceproof.engine.errors import text_of
from onceproof.engine.messages import AttemptId, TaskFailed, TaskId
from onceproof.engine.runtime.garbage_collection import few_garbage_collections, freeze_loaded_objects
from onceproof.engine.runtime.spark.epoch import Deployment, Epoch, Report
from onceproof.engine.runtime.spark.stages import DRIVER, Parcel
from onceproof.engine.runtime.spark.subtask import GIVE_MODULES, SubtaskRun


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
        for place in range(partition, len(tasks), self._partitions):
            run: SubtaskRun = deployment.subtask_class(deployment, self._epoch, tasks[place], spark_attempt)
            yield from run.run(arrived.pop(place, ()))

    def _address(self, parcel: Parcel, partition: int) -> int:
        """Return the partition of the next stage for a parcel; one that passes through may take any."""
        stage = parcel[0]
        if stage == self._stage + 1:
            return parcel[1] % self._next_partitions
        return (partition if stage == DRIVER else parcel[1]) % self._next_partitions


def _unmade(partition: int, spark_attempt: int, error: BaseException) -> Parcel:
    """Return the report that the worker cannot make the job's tasks, which would fail again."""
    said = f"{type(error).__name__}: {text_of(error)}"
    cause = f"a Spark worker cannot make the job's tasks: {said}: {GIVE_MODULES}"
    task, attempt = TaskId(0, partition), AttemptId("")
    failure = TaskFailed(attempt, task, cause, unrecoverable=True)
    return DRIVER, 0, 0, 0, Report(task, attempt, {}, (failure,), 0, b"", spark_attempt)
