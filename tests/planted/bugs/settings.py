"""Mutants of settings that few jobs have, such as restart strategies that give up or no checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.restart_strategies import FailureRateRestart, FixedDelayRestart
from onceproof.engine.operators import sink
from onceproof.engine.runtime import job_driver
from onceproof.engine.state import hashmap
from onceproof.engine.task import task
from onceproof.engine.task.events import TaskEffect
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

YEAR_MS: Final = 365 * 24 * 3_600_000
"""The time to live of states in random jobs."""


@mutant(
    id="restarts-are-not-counted",
    breaks="liveness",
    summary="a fixed-delay strategy counts no failure, so the job never gives up",
)
def restarts_are_not_counted(reached: Reached) -> Iterator[None]:
    """Each failure is the first."""

    def uncounted(self: FixedDelayRestart, now: int) -> bool:
        reached()
        return True

    with replaced(FixedDelayRestart, "notify_failure", uncounted):
        yield


@mutant(
    id="rate-of-one-failure-less",
    breaks="liveness",
    summary="a failure-rate strategy gives up at as many failures as it allows",
)
def rate_of_one_failure_less(reached: Reached) -> Iterator[None]:
    """One failure less than the settings say is too many already."""

    def hastily(self: FailureRateRestart, now: int) -> bool:
        latest = self._latest_failures
        if len(latest) < self._settings.max_failures_per_interval:
            return True
        reached()
        return now - latest[0] > self._settings.interval_ms

    with replaced(FailureRateRestart, "can_restart", hastily):
        yield


@mutant(
    id="limit-of-the-checkpoint-is-not-taken",
    breaks="exactly_once",
    summary="a job that sets no maximum parallelism restores a checkpoint under the derived one",
)
def limit_of_the_checkpoint_is_not_taken(reached: Reached) -> Iterator[None]:
    """The key groups of the checkpoint belong to other keys than those of the job."""
    fit = job_driver.fit_max_parallelism

    def derived(graph: JobGraph, metadata: CheckpointMetadata | None) -> JobGraph:
        if fit(graph, metadata) is not graph:
            reached()
        return graph

    with replaced(job_driver, "fit_max_parallelism", derived):
        yield


@mutant(
    id="attempts-name-their-output-alike",
    breaks="mode",
    summary="without checkpoints each attempt calls its only commit checkpoint 1, which the target has seen",
    families=("word_batches",),
)
def attempts_name_their_output_alike(reached: Reached) -> Iterator[None]:
    """The target leaves a batch out that it knows from an attempt before, whatever rows are in it."""

    def the_first(attempt: str) -> int:
        reached()
        return 1

    with replaced(sink, "only_checkpoint_of", the_first):
        yield


@mutant(
    id="attempts-without-checkpoints-commit-what-is-open",
    breaks="mode",
    summary="a sink of a job without checkpoints commits at its end only what it has prepared before",
)
def attempts_without_checkpoints_commit_what_is_open(reached: Reached) -> Iterator[None]:
    """Nothing is prepared before the end."""

    def forgetful(self: sink.SinkOperator, now: int) -> None:
        reached()
        self.notify_checkpoint_complete(1)

    with replaced(sink.SinkOperator, "commit_without_checkpoints", forgetful):
        yield


@mutant(
    id="snapshots-lack-living-values",
    breaks="exactly_once",
    summary="the cleanup in full snapshots leaves out values that were last used a tenth of a second ago",
    families=("random_job",),
)
def snapshots_lack_living_values(reached: Reached) -> Iterator[None]:
    """It takes the time to live for that of another state; the running job keeps its own."""
    sound = hashmap._unexpired

    def hasty(entries: dict[Any, Any], kind: str, last_expired: int) -> dict[Any, Any]:
        kept = sound(entries, kind, last_expired + YEAR_MS - 100)
        if kept != sound(entries, kind, last_expired):
            reached()
        return kept

    with replaced(hashmap, "_unexpired", hasty):
        yield


@mutant(
    id="tasks-do-not-wait-for-the-savepoint-of-a-stop",
    breaks="mode",
    summary="in a job without checkpoints a task that is drained before a savepoint commits and ends at once",
    families=("random_job",),
)
def tasks_do_not_wait_for_the_savepoint_of_a_stop(reached: Reached) -> Iterator[None]:
    """What is committed then is committed again from the savepoint, or is not in it."""
    sound = task.Task._finish_without_checkpoint

    def hasty(self: task.Task) -> Sequence[TaskEffect]:
        waited, self._first_final_checkpoint_id = self._first_final_checkpoint_id, None
        is_drained, self._is_drained = self._is_drained, False
        effects = sound(self)
        if effects and (waited is not None or is_drained):
            reached()
        self._first_final_checkpoint_id, self._is_drained = waited, is_drained
        return effects

    with replaced(task.Task, "_finish_without_checkpoint", hasty):
        yield


@mutant(
    id="savepoint-goes-ahead-of-finished-tasks",
    breaks="mode",
    summary="in a job without checkpoints a barrier goes ahead of records of tasks that have finished",
    unseen="few jobs without checkpoints are stopped while some of their tasks have finished",
)
def savepoint_goes_ahead_of_finished_tasks(reached: Reached) -> Iterator[None]:
    """The savepoint lacks the records, and its job reads them no more."""

    def none(self: task.Task) -> set[int]:
        if not self.settings.checkpointing and _channels_with_data(self):
            reached()
            return set()
        return _channels_with_data(self)

    _channels_with_data = task.Task._channels_with_data
    with replaced(task.Task, "_channels_with_data", none):
        yield
