"""A stage of an epoch's Spark job, as Spark calls it in a worker: one subtask for each partition."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark import Broadcast, TaskContext

from engine.runtime.spark.epoch import Deployment, Epoch
from engine.runtime.spark.stages import DRIVER, Parcel

GARBAGE_THRESHOLD: Final = 100_000
"""As in the local runtime: buffers are many young objects that die young."""


class StageRun:
    """What Spark calls with each partition; it travels with every task, so it is small."""

    def __init__(self, stage: int, shipment: Broadcast[Deployment], epoch: Epoch) -> None:
        self._stage = stage
        self._shipment = shipment
        self._epoch = epoch

    def __call__(self, partition: int, arrived: Iterable[Any]) -> Iterator[tuple[int, Parcel]]:
        """Give (partition of the next stage, parcel): what this subtask sends, and what passes through."""
        deployment = self._shipment.value
        stages = deployment.stages.tasks
        next_stage = self._stage + 1
        next_partitions = len(stages[next_stage]) if next_stage < len(stages) else 1
        mine: list[Parcel] = []
        with _few_garbage_collections():
            # Of what arrives the key of the shuffle has done its work.
            for _, parcel in arrived:
                if parcel[0] == self._stage:
                    mine.append(parcel)
                else:
                    yield _address(parcel, partition, next_stage, next_partitions), parcel
            context = TaskContext.get()
            assert context is not None
            task_id = stages[self._stage][partition]
            run = deployment.subtask_class(deployment, self._epoch, task_id, context.taskAttemptId())
            for parcel in run.run(mine):
                yield _address(parcel, partition, next_stage, next_partitions), parcel


def _address(parcel: Parcel, partition: int, next_stage: int, next_partitions: int) -> int:
    """To which partition of the next stage a parcel goes; one that passes through may go to any."""
    stage = parcel[0]
    if stage == next_stage:
        return parcel[1]
    return (partition if stage == DRIVER else parcel[1]) % next_partitions


@contextmanager
def _few_garbage_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(GARBAGE_THRESHOLD, before[1], before[2])
    try:
        yield
    finally:
        gc.set_threshold(*before)
