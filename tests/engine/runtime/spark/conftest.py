"""Epochs without Spark: the same driver and the same subtasks, their stages run one after another here.

What travels is pickled and unpickled, what arrives is in disorder, and every attempt has a number of its own,
as on Spark. A worker dies by an exception that nothing survives, and another attempt takes its place. So
what a driver makes of deaths, repetitions and zombies can be tried many times a second, and without chance.
"""

from __future__ import annotations

import pickle
from itertools import count
from random import Random
from typing import ClassVar

import pytest

from onceproof.engine.protocol_points import no_probe
from onceproof.engine.runtime.job_startup import recover_job
from onceproof.engine.runtime.spark.driver import SparkExecution
from onceproof.engine.runtime.spark.epoch import Packed
from onceproof.engine.runtime.spark.epoch_job import EpochJobFailed
from onceproof.engine.runtime.spark.stages import DRIVER
from onceproof.engine.runtime.spark.subtask import SubtaskRun
from onceproof.engine.runtime.spark.target import spark_storage


class WorkerDied(BaseException):
    """The process that ran a subtask is gone."""


class JobHere:
    """The job of an epoch, done at once."""

    def __init__(self, execution, epoch):
        self.execution = execution
        self.epoch = epoch
        self.failure = None
        try:
            self.found = self.run()
        except EpochJobFailed as error:
            self.failure = error

    def wait(self, seconds):
        return True

    def cancel(self):
        pass

    def reports(self):
        if self.failure is not None:
            raise self.failure
        return self.found

    def run(self):
        execution, deployment = self.execution, self.execution.deployment
        arrived = {}
        reports = []
        for stage, tasks in enumerate(deployment.stages.tasks):
            for partition, task_id in enumerate(tasks):
                inbox = arrived.pop((stage, partition), [])
                execution.random.shuffle(inbox)
                for parcel in pickle.loads(pickle.dumps(self.subtask(task_id, inbox))):
                    if parcel[0] == DRIVER:
                        reports.append(parcel[-1])
                    else:
                        arrived.setdefault(parcel[:2], []).append(parcel)
        return reports

    def subtask(self, task_id, inbox):
        """Run it until an attempt survives; those in ``repeated`` survive and are run again all the same."""
        execution, deployment = self.execution, self.execution.deployment
        for _ in range(4):
            execution.task_attempts += 1
            run = deployment.subtask_class(deployment, self.epoch, task_id, execution.task_attempts)
            execution.tried.append((self.epoch.checkpoint_id, task_id, str(run.attempt)))
            try:
                parcels = list(run.run(list(inbox)))
            except WorkerDied:
                continue
            if (self.epoch.checkpoint_id, task_id) in execution.repeated:
                execution.repeated.remove((self.epoch.checkpoint_id, task_id))
                continue
            return parcels
        raise EpochJobFailed("a task died four times", is_final=False)


class SubtaskHere(SubtaskRun):
    """A subtask whose worker dies of an exception."""

    def ends_the_process(self, error):
        is_death = type(error).__name__ in ("WorkerDied", "PowerCut")
        return is_death or super().ends_the_process(error)


class ExecutionHere(SparkExecution):
    """The driver, with its stages run here."""

    task_attempts = 100

    def __init__(self, graph, context, storage, recovered, **settings):
        self.random = Random(1)
        self.tried = []
        self.repeated = []
        self.slept = []
        settings.setdefault("subtask_class", SubtaskHere)
        super().__init__(graph, context, storage, recovered, **settings)

    def ship(self, shipment):
        self.deployment = pickle.loads(pickle.dumps(Packed(shipment)))

    def start_job(self, epoch):
        return JobHere(self, pickle.loads(pickle.dumps(epoch)))


class Dying:
    """A probe that is pickled to the workers: it kills the process at a point, a given number of times."""

    passes: ClassVar[dict[str, int]] = {}
    numbers = count()

    def __init__(self, point, task="", checkpoint=0, times=1, death=WorkerDied):
        self.key = f"{point}/{task}/{checkpoint}/{times}/{next(self.numbers)}"
        self.point = point
        self.task = task
        self.checkpoint = checkpoint
        self.times = times
        self.death = death

    def __call__(self, point, task, checkpoint_id):
        if point == self.point and task.startswith(self.task) and self.checkpoint in (0, checkpoint_id):
            struck = self.passes.get(self.key, 0)
            if struck < self.times:
                self.passes[self.key] = struck + 1
                raise self.death

    @property
    def struck(self):
        return self.passes.get(self.key, 0)


@pytest.fixture
def here():
    """Run a graph to its end here, from its checkpoint directory; gives the execution, and its result."""

    def run(graph, probe=no_probe, execution_class=ExecutionHere, prepare=lambda execution: None, **settings):
        storage = spark_storage(graph)
        with storage.exclusive():
            recovered = recover_job(graph, storage)
            execution = execution_class(graph, None, storage, recovered, probe=probe, **settings)
            prepare(execution)
            return execution, execution.run()

    run.execution = ExecutionHere
    run.dying = Dying
    run.worker_died = WorkerDied
    run.epoch_failed = EpochJobFailed
    return run
