"""Bugs planted into the code that runs only on Spark, in the driver or in the workers.

A driver takes seconds to start and has the same mutant from start to end. To test several bugs with one
driver, the mutant ``the-bug-that-the-job-names`` plants for each job the bug that its parameters name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from onceproof.engine.connectors.file_sink_function import FileSinkFunction
from onceproof.engine.connectors.part_files import Transaction
from onceproof.engine.job.deployment import RestorePlan
from onceproof.engine.messages import TaskId
from onceproof.engine.runtime.spark.driver import SparkExecution
from onceproof.engine.runtime.spark.driver_committer import DriverCommitter
from onceproof.engine.runtime.spark.epoch_time import AttemptTime, EpochSpan
from onceproof.harness.model.mutants import Reached, find_mutant, mutant, replaced
from onceproof.harness.systems.process.job_assembly import Assembly
from onceproof.harness.systems.process.job_specification import Spec

BUG = "bug"
"""The job parameter with the id of the bug that is planted while the job runs."""
BUG_FILE = "bug_file"
"""The one with the file of the bug."""


@mutant(
    id="the-bug-that-the-job-names",
    breaks="the property that the named bug breaks",
    summary="in each process that puts the job together, the bug of its parameters is planted",
)
def the_bug_that_the_job_names(reached: Reached) -> Iterator[None]:
    """Each process assembles the job before it runs its part. The previous job's bug is removed then."""
    put_together = Assembly.__init__
    with ExitStack() as planted:

        def planting(self: Assembly, spec: Spec, *others: Any) -> None:
            planted.close()
            bug, file = str(spec.parameters[BUG]), str(spec.parameters[BUG_FILE])
            reached()
            planted.enter_context(find_mutant(bug, file).applied())
            put_together(self, spec, *others)

        with replaced(Assembly, "__init__", planting):
            yield


@mutant(
    id="dead-attempts-are-not-swept",
    breaks="no_leaks",
    summary="the driver leaves the part files that killed workers have begun",
)
def dead_attempts_are_not_swept(reached: Reached) -> Iterator[None]:
    """No attempt owns these files and no reader sees them, but they are never deleted."""

    def leaving(self: DriverCommitter) -> None:
        reached()

    with replaced(DriverCommitter, "sweep", leaving):
        yield


@mutant(
    id="new-driver-commits-nothing",
    breaks="exactly_once",
    summary="a driver that begins does not commit what the checkpoint lists that it has found",
)
def new_driver_commits_nothing(reached: Reached) -> Iterator[None]:
    """The driver before it completed the checkpoint and died before it could commit."""
    start_tasks = SparkExecution.start_tasks

    def unsettled(self: SparkExecution, begin_with: dict[TaskId, RestorePlan]) -> None:
        def nothing(committer: DriverCommitter, task: TaskId, plan: RestorePlan) -> None:
            reached()

        with replaced(DriverCommitter, "settle", nothing):
            start_tasks(self, begin_with)

    with replaced(SparkExecution, "start_tasks", unsettled):
        yield


@mutant(
    id="second-commit-copies-the-file",
    breaks="exactly_once",
    summary="a commit that has been made already is made again, under another name",
)
def second_commit_copies_the_file(reached: Reached) -> Iterator[None]:
    """The driver that made the first commit died before it could log the commit."""
    commit = FileSinkFunction.commit

    def again(self: FileSinkFunction, transaction: Transaction) -> None:
        name, length = transaction[:2]
        target = os.path.join(self._base_path, name)
        if length and os.path.exists(target):
            reached()
            shutil.copy(target, os.path.join(self._base_path, f"again-{name}"))
        commit(self, transaction)

    with replaced(FileSinkFunction, "commit", again):
        yield


@mutant(
    id="event-time-begins-anew-with-each-epoch",
    breaks="no_error",
    summary="the driver does not hand the event time of an epoch's tasks to those of the next one",
)
def event_time_begins_anew_with_each_epoch(reached: Reached) -> Iterator[None]:
    """Nothing is late in the records that an epoch reads first, and closed windows answer twice."""
    completed = AttemptTime.completed

    def forgetful(self: AttemptTime, span: EpochSpan) -> None:
        completed(self, span)
        if self.carried:
            reached()
            self.carried = {}

    with replaced(AttemptTime, "completed", forgetful):
        yield
