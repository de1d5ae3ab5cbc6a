"""Mutants of settings that few jobs have: restart strategies that give up, limits left to the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.restart_strategies import FailureRateRestart, FixedDelayRestart
from onceproof.engine.runtime import job_driver
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


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
