"""Mutants of the job master: a fenced master still writes, a late acknowledgement counts, tasks overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import CheckpointExpired, CoordinatorEffect
from onceproof.engine.checkpoint.pending import PendingCheckpoint
from onceproof.engine.job.events import MasterEffect, StartJob
from onceproof.engine.job.master import JobMaster
from onceproof.engine.messages import AcknowledgeCheckpoint
from onceproof.engine.runtime.job_driver import JobDriver
from onceproof.engine.runtime.recovery import is_claimed_by
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import SMALL_JOBS, Reached, mutant


@mutant(
    id="old-master-publishes",
    breaks="consistent_cut",
    summary="a job master publishes metadata although another one has claimed the job",
    families=SMALL_JOBS,
)
def old_master_publishes(reached: Reached) -> Iterator[None]:
    """The new master restores an older checkpoint than the one that a third master will find."""

    def trusting(self: JobDriver) -> None:
        if not is_claimed_by(self.storage, self._recovered.incarnation):
            reached()

    with replaced(JobDriver, "check_claim", trusting):
        yield


@mutant(
    id="late-acknowledgement-completes",
    breaks="liveness",
    summary="the last acknowledgement of a checkpoint that has expired completes it",
    families=SMALL_JOBS,
)
def late_acknowledgement_completes(reached: Reached) -> Iterator[None]:
    """The checkpoint was aborted and its files were deleted."""
    expired, acknowledged = CheckpointCoordinator.checkpoint_expired, CheckpointCoordinator.acknowledge
    given_up: dict[int, dict[int, PendingCheckpoint]] = {}

    def remembered(self: CheckpointCoordinator, event: CheckpointExpired) -> Sequence[CoordinatorEffect]:
        pending = self.pending.get(event.checkpoint_id)
        effects = expired(self, event)
        if pending is not None and event.checkpoint_id not in self.pending:
            given_up.setdefault(id(self), {})[event.checkpoint_id] = pending
        return effects

    def forgiving(self: CheckpointCoordinator, message: AcknowledgeCheckpoint) -> Sequence[CoordinatorEffect]:
        pending = given_up.get(id(self), {}).get(message.checkpoint_id)
        latest = self.store.latest
        is_newest = latest is None or message.checkpoint_id > latest.checkpoint_id
        plan = self._plan
        runs = plan is not None and pending is not None and plan.attempt == pending.attempt == message.attempt
        if pending is not None and runs and is_newest and not self.is_finalizing:
            pending.acknowledge(message)
            if pending.is_fully_acknowledged:
                reached()
                del given_up[id(self)][message.checkpoint_id]
                pending.missing[message.task] = None
                self.pending[message.checkpoint_id] = pending
        return acknowledged(self, message)

    with (
        replaced(CheckpointCoordinator, "checkpoint_expired", remembered),
        replaced(CheckpointCoordinator, "acknowledge", forgiving),
    ):
        yield


@mutant(
    id="zombies-run-beside-the-new-attempt",
    breaks="fencing",
    summary="a new job master deploys its attempt while tasks that outlived the old one still run",
)
def zombies_run_on(reached: Reached) -> Iterator[None]:
    """Their writes by key overwrite those of the new attempt."""
    start = JobMaster.start

    def hasty(self: JobMaster, event: StartJob, now: int) -> Sequence[MasterEffect]:
        if event.orphans:
            reached()
        return start(self, StartJob(), now)

    with replaced(JobMaster, "start", hasty):
        yield
