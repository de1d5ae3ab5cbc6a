"""A job over its attempts: its checkpoints, what users ask of it, its failures and its end.

Rules:

- A checkpoint begins only when all tasks of the attempt run. Those that have not finished must answer, and
  those of them without a running upstream are triggered. At most so many are under way; savepoints that
  block channels are forced. A periodic one waits for the pause after the last completion, and none begins
  while the job ends with a savepoint.
- Metadata are stored once all have answered, of one checkpoint at a time, and list exactly the answers.
- What is declined, expires, fails to be stored, lacks the answer of a task that finishes, or whose attempt
  ends is aborted, unless its metadata are being written: then its outcome is awaited. Its tasks hear of it.
- A completed checkpoint ends older ones and notifies all tasks that run. A savepoint does neither, unless
  the job stops with it; only that one is what the job goes on from.
- Each request is answered exactly once, and at the latest when the attempt or the job ends. A refused one
  changes nothing. A stop that is answered with a savepoint ends the job as stopped; a cancel ends it, too.
- A rescale begins the next attempt at once, if the job runs, does not end, and no outcome is awaited.
- An attempt ends with the first failure of a task, or with too many failed checkpoints in a row. The
  restart strategy says whether another follows, and when. It goes on from the latest completed checkpoint,
  under a name of its own, and nothing is under way then. The job has finished once all its tasks have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from onceproof.engine.checkpoint.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointExpired,
    CheckpointPlan,
    CheckpointTriggered,
    DiscardCheckpoint,
    DiscardHandle,
    DiscardSharedFiles,
    MetadataFailed,
    MetadataStored,
    RequestResolved,
    StartTimer,
    StoreMetadata,
    TooManyFailures,
    TriggerRequested,
)
from onceproof.engine.job.events import (
    AttemptDeployed,
    CancelRequested,
    CancelTasks,
    Deploy,
    DeploymentFailed,
    JobCanceled,
    JobFailed,
    JobFinished,
    OrphanEnded,
    RescaleRequested,
    RestartDue,
    StartJob,
    StartRestartTimer,
    StopOverdue,
    StopRequested,
)
from onceproof.engine.messages import (
    CHECKPOINT,
    DECLINED_IN_BATCH,
    DECLINED_INPUT_END_OF_STREAM,
    DECLINED_ON_CANCELLATION_BARRIER,
    DECLINED_SUBSUMED,
    SAVEPOINT,
    SYNC_SAVEPOINT,
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    Send,
    TaskFailed,
    TaskFinished,
    TaskId,
    TaskRunning,
    TriggerCheckpoint,
)
from onceproof.harness.specifications import Mismatch
from onceproof.harness.specifications.restart_waits import FailedAt, Strategy, is_hopeless
from onceproof.harness.specifications.retention import Kept, RetentionSpecification, kept_of

EXPIRED: Final = "CHECKPOINT_EXPIRED"
SUBSUMED: Final = "CHECKPOINT_SUBSUMED"
UNION: Final = "union list state"
"""Words of the reason why a checkpoint is refused of which only some subtasks have ended."""
TOLERATED: Final = frozenset(
    (DECLINED_IN_BATCH, DECLINED_INPUT_END_OF_STREAM, DECLINED_ON_CANCELLATION_BARRIER, DECLINED_SUBSUMED)
)
"""Reasons of a task that are no failure of the job."""

_ASKS: Final = frozenset((TriggerRequested, StopRequested, CancelRequested))

CREATED: Final = "created"
RUNNING: Final = "running"
FAILING: Final = "failing"
RESTARTING: Final = "restarting"
CANCELLING: Final = "cancelling"
OVER: Final = "over"


@dataclass(frozen=True, slots=True)
class JobRules:
    """What the settings of a job say."""

    strategy: Strategy
    timeout_ms: int
    max_concurrent: int = 1
    min_pause_ms: int = 0
    tolerable_failures: int = 0
    retained: int = 1
    forces_savepoints: bool = True
    """Whether savepoints begin beside whatever is under way: where barriers block channels."""
    is_batch: bool = False
    max_equal_errors: int = 0


@dataclass(slots=True)
class Pending:
    """A checkpoint under way. An answer is the path of a task's state, and whether its data had ended."""

    checkpoint_id: int
    kind: str
    number: int
    attempt: str
    missing: set[TaskId]
    finished: frozenset[TaskId]
    answers: dict[TaskId, tuple[str | None, bool]] = field(default_factory=dict)
    stored: Any = None
    """Its metadata, while they are being written."""


@dataclass(slots=True)
class Ending:
    """A request to end the job with a savepoint."""

    number: int
    stops: bool
    drains: bool
    is_complete: bool = False
    only_commits: bool = False


class Wrong(Exception):
    """An effect, or the lack of one, that the rules do not allow."""

    def __init__(self, expected: str, got: object) -> None:
        super().__init__(expected)
        self.mismatch = Mismatch(expected, str(got))


@dataclass(slots=True)
class Step:
    """What one event has done so far."""

    event: Any
    now: int
    state: str
    """That of the job before it."""
    pending: dict[int, Pending]
    triggered: list[int] = field(default_factory=list)
    expiries: dict[int, int] = field(default_factory=dict)
    triggers: dict[int, set[TaskId]] = field(default_factory=dict)
    aborted: dict[int, CheckpointAborted] = field(default_factory=dict)
    abort_notices: dict[int, set[TaskId]] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    discarded: set[int] = field(default_factory=set)
    notices: set[TaskId] = field(default_factory=set)
    resolved: dict[int, RequestResolved] = field(default_factory=dict)
    plan: CheckpointPlan | None = None
    ends: list[Any] = field(default_factory=list)
    """Deploy, StartRestartTimer of a restart, JobFailed, JobCanceled, JobFinished."""
    is_cancelled: bool = False
    is_counted: bool = False
    too_many: bool = False
    has_finished: bool = False
    """Whether all tasks had finished before the effects."""
    discards_state: bool = False
    stored: int = 0
    """The checkpoint that has completed."""


class JobSpecification:
    """The job master and the checkpoint coordinator of one process, which begins with what it has found."""

    def __init__(self, rules: JobRules, found: Iterable[Any] = ()) -> None:
        """Begin a process; ``found`` is the metadata of the checkpoints that it has found, oldest first."""
        self.rules = rules
        self.state = CREATED
        self.retention = RetentionSpecification(rules.retained)
        for metadata in found:
            self.retention.completed(kept_of(metadata))
        kept = self.retention.kept
        self.latest: Kept | None = kept[-1] if kept else None
        """What a new attempt goes on from."""
        self._last_id = 0 if self.latest is None else self.latest.checkpoint_id
        self._savepoints: set[tuple[int, str]] = set()
        self._attempt: str | None = None
        self._attempts: set[str] = set()
        self._deployed: CheckpointPlan | None = None
        """The plan of the attempt, until it ends."""
        self._running: set[TaskId] = set()
        self._finished: set[TaskId] = set()
        self._pending: dict[int, Pending] = {}
        self._requests: dict[int, tuple[str, bool]] = {}
        """The requests without an answer: the kind of their checkpoint, and whether it drains."""
        self._ending: Ending | None = None
        self._last_completion_ms: int | None = None
        self._failures_ms: list[int] = []
        self._restarts_ms: dict[int, int] = {}
        """When a restart is due, by the number of failures before it."""
        self._failed_at: list[FailedAt | None] = []
        self._failed_ids: set[int] = set()
        self._last_completed_id = 0

    def judge(self, event: Any, now: int, effects: Sequence[Any]) -> Mismatch | None:
        """Return what is wrong with the effects of an event at ``now`` (milliseconds), or None."""
        if not effects and self._is_only_noted(event):
            return None
        step = Step(event, now, self.state, dict(self._pending))
        try:
            self._take(event, step)
            for effect in effects:
                judge_effect = _EFFECTS.get(type(effect))
                if judge_effect is not None:
                    judge_effect(self, effect, step)
            self._conclude(event, effects, step)
        except Wrong as wrong:
            return wrong.mismatch
        return None

    # Events.

    def _is_only_noted(self, event: Any) -> bool:
        """Note an event that asks for no answer, as most do; False for any other."""
        if type(event) is TaskRunning and self.state == RUNNING:
            if event.attempt == self._attempt:
                self._running.add(event.task)
            return True
        return type(event) is AcknowledgeCheckpoint and self._is_waiting(event) and self._answered(event)

    def _is_waiting(self, event: AcknowledgeCheckpoint) -> bool:
        pending = self._pending.get(event.checkpoint_id)
        return pending is not None and len(pending.missing) > 1 and self.state == RUNNING

    def _answered(self, event: Any) -> bool:
        """Note an acknowledgement; return whether it is the first of its task."""
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or pending.attempt != event.attempt or event.task not in pending.missing:
            return False
        pending.missing.discard(event.task)
        pending.answers[event.task] = (event.handle and event.handle.path, event.finished)
        return True

    def _take(self, event: Any, step: Step) -> None:
        kind = type(event)
        if kind is AcknowledgeCheckpoint:
            step.is_counted = self._answered(event)
        elif kind is TaskRunning or kind is TaskFinished:
            if event.attempt == self._attempt:
                (self._running if kind is TaskRunning else self._finished).add(event.task)
        elif kind is AttemptDeployed:
            self._deployed = event.plan
            self._running.clear()
            self._finished.clear()
        elif kind is MetadataStored:
            step.stored = event.checkpoint_id
            self._stored(event, step)
        elif kind in _ASKS and event.number:
            asked = SYNC_SAVEPOINT if kind is StopRequested else getattr(event, "kind", SAVEPOINT)
            self._requests[event.number] = (asked, getattr(event, "drains", False))
        step.plan = self._deployed
        step.has_finished = self._has_finished

    # Effects.

    def _triggers(self, effect: CheckpointTriggered, step: Step) -> None:
        plan, checkpoint_id, kind = self._deployed, effect.checkpoint_id, effect.kind
        _require(plan is not None and self._all_run, "no checkpoint before all tasks run", effect)
        assert plan is not None
        _require(checkpoint_id > self._last_id, f"an id above {self._last_id}", effect)
        if effect.number:
            asked = self._requests.get(effect.number)
            _require(asked is not None and asked[0] == kind, f"what request {effect.number} asks for", effect)
        else:
            _require(kind == CHECKPOINT, "no savepoint without a request", effect)
            _require(self._ending is None, "no other checkpoint while the job ends with a savepoint", effect)
            rested_ms = self._last_completion_ms
            is_early = rested_ms is not None and step.now < rested_ms + self.rules.min_pause_ms
            _require(not is_early, f"no checkpoint before {self.rules.min_pause_ms} ms have passed", effect)
        is_forced = kind != CHECKPOINT and self.rules.forces_savepoints
        most = self.rules.max_concurrent
        _require(is_forced or len(self._pending) < most, f"at most {most} under way", effect)
        self._last_id = checkpoint_id
        missing = set(plan.upstreams) - self._finished
        self._pending[checkpoint_id] = Pending(
            checkpoint_id, kind, effect.number, plan.attempt, missing, frozenset(self._finished)
        )
        step.triggered.append(checkpoint_id)

    def _timer(self, effect: StartTimer, step: Step) -> None:
        if type(effect.event) is CheckpointExpired:
            step.expiries[effect.event.checkpoint_id] = effect.due_ms

    def _send(self, effect: Send, step: Step) -> None:
        message: Any = effect.message
        match message:
            case TriggerCheckpoint():
                step.triggers.setdefault(message.checkpoint_id, set()).add(message.task)
                pending = self._pending.get(message.checkpoint_id)
                asked = self._requests.get(pending.number) if pending is not None else None
                drains = asked is not None and asked[1]
                _require(message.drains is drains, f"a trigger with drains={drains}", message)
            case NotifyCheckpointAborted():
                step.abort_notices.setdefault(message.checkpoint_id, set()).add(message.task)
            case NotifyCheckpointComplete():
                latest = self.latest
                is_latest = latest is not None and latest.checkpoint_id == message.checkpoint_id
                _require(is_latest, f"a notice of {'none' if latest is None else latest[:3]}", message)
                step.notices.add(message.task)

    def _stores(self, effect: StoreMetadata, step: Step) -> None:
        metadata = effect.metadata
        pending = self._pending.get(metadata.checkpoint_id)
        _require(pending is not None and not pending.missing, "metadata once all have answered", effect)
        _require(not self._is_storing, "the metadata of one checkpoint at a time", effect)
        assert pending is not None
        assert self._deployed is not None
        pending.stored = metadata
        listed = {operator.operator_id: operator for operator in metadata.operators}
        for vertex in self._deployed.vertices:
            tasks = [TaskId(vertex.index, each) for each in range(vertex.parallelism)]
            answers = [pending.answers.get(each, (None, True)) for each in tasks]
            for node in vertex.operators:
                operator = listed.pop(node.operator_id, None)
                if operator is None:
                    raise Wrong(f"the operator {node.name}", metadata.checkpoint_id)
                found = [(each.handle and each.handle.path, each.finished) for each in operator.subtasks]
                _require(found == answers, f"the answers {answers} of {vertex.name}", found)
                ranges = (operator.parallelism, operator.max_parallelism)
                expected = (vertex.parallelism, vertex.max_parallelism)
                _require(ranges == expected, f"parallelism and maximum {expected} of {vertex.name}", ranges)
        _require(not listed, "the operators of the job", list(listed))
        gone = kept_of(metadata).files & self.retention.deleted
        _require(not gone, "no reference to deleted files", sorted(gone))

    def _completes(self, effect: CheckpointCompleted, step: Step) -> None:
        _require(step.stored == effect.checkpoint_id, "no completion without durable metadata", effect)

    def _aborts(self, effect: CheckpointAborted, step: Step) -> None:
        pending = self._pending.get(effect.checkpoint_id)
        _require(pending is not None, "an abort of what is under way", effect)
        assert pending is not None
        may = pending.stored is None or type(step.event) is MetadataFailed
        _require(may, "the outcome of metadata that are being written", effect)
        _require(self._may_abort(pending, effect.reason, step), "no abort without a cause", effect)
        del self._pending[effect.checkpoint_id]
        step.aborted[effect.checkpoint_id] = effect

    def _may_abort(self, pending: Pending, reason: str, step: Step) -> bool:
        event = step.event
        match event:
            case DeclineCheckpoint() | MetadataFailed() if event.checkpoint_id == pending.checkpoint_id:
                return reason == event.reason
            case CheckpointExpired() if event.checkpoint_id == pending.checkpoint_id:
                return reason == EXPIRED
            case TaskFinished() if event.task in pending.missing:
                return True
        if step.is_cancelled or type(event) in (StopRequested, CancelRequested):
            return True
        if type(event) is MetadataStored and reason == SUBSUMED:
            return pending.kind == CHECKPOINT and pending.checkpoint_id < event.checkpoint_id
        ended = bool(pending.finished) or any(has_ended for _, has_ended in pending.answers.values())
        is_whole = not pending.missing
        return is_whole and ((UNION in reason and ended) or "shared" in reason)

    def _discards(self, effect: DiscardCheckpoint, step: Step) -> None:
        checkpoint_id = effect.checkpoint_id
        may = checkpoint_id in step.aborted or checkpoint_id in step.dropped
        _require(may, "no deletion of a checkpoint that is kept", effect)
        step.discarded.add(checkpoint_id)

    def _discards_handle(self, effect: DiscardHandle, step: Step) -> None:
        event = step.event
        is_answer = type(event) is AcknowledgeCheckpoint and not step.is_counted
        _require(is_answer and not self._is_used(event), "no deletion of state that may be used", effect)
        step.discards_state = True

    def _is_used(self, event: AcknowledgeCheckpoint) -> bool:
        key = (event.checkpoint_id, event.attempt)
        return key in self._savepoints or any(
            each[0] == key[0] and each[2] == key[1] for each in self.retention.kept
        )

    def _discards_files(self, effect: DiscardSharedFiles, step: Step) -> None:
        used = self.retention.still_used(effect.paths)
        _require(not used, "no deletion of shared files that are used", used)

    def _resolves(self, effect: RequestResolved, step: Step) -> None:
        number = effect.number
        _require(number in self._requests, "one answer to each request", effect)
        kind = self._requests.pop(number)[0]
        step.resolved[number] = effect
        if effect.checkpoint_id is None:
            _require(bool(effect.reason), "a reason with a refusal", effect)
            return
        pending = step.pending.get(effect.checkpoint_id)
        is_asked = pending is not None and (pending.number, pending.kind) == (number, kind)
        is_right = is_asked and step.stored == effect.checkpoint_id
        _require(is_right, "the savepoint that was asked for, complete", effect)

    def _too_many(self, effect: TooManyFailures, step: Step) -> None:
        step.too_many = True

    def _cancels(self, effect: CancelTasks, step: Step) -> None:
        _require(effect.attempt == self._attempt, f"the end of attempt {self._attempt}", effect)
        step.is_cancelled = True
        self._deployed = None
        step.plan = None

    def _ends(self, effect: Any, step: Step) -> None:
        if type(effect) is StartRestartTimer and type(effect.event) is not RestartDue:
            return
        step.ends.append(effect)
        if type(effect) is StartRestartTimer:
            self.state = RESTARTING
            return
        if type(effect) is not Deploy:
            self.state = OVER
            return
        _require(not self._pending, "no attempt while a checkpoint is under way", effect.attempt)
        is_new = effect.attempt not in self._attempts
        _require(is_new, "an attempt with a name of its own", effect.attempt)
        latest = self.latest
        expected = None if latest is None else (latest.checkpoint_id, latest.attempt)
        restored = effect.restored
        found = None if restored is None else (restored.checkpoint_id, restored.attempt)
        _require(found == expected, f"an attempt from checkpoint {expected}", found)
        self._attempt = effect.attempt
        self._attempts.add(effect.attempt)
        self._deployed = None
        self._running.clear()
        self._finished.clear()
        self.state = RUNNING

    # Conclusions.

    def _conclude(self, event: Any, effects: Sequence[Any], step: Step) -> None:
        self._conclude_checkpoints(event, step)
        self._conclude_requests(event, effects, step)
        self._conclude_job(event, effects, step)

    def _stored(self, event: MetadataStored, step: Step) -> None:
        """Note that a checkpoint is complete: what is retained, and what is not."""
        pending = self._pending.pop(event.checkpoint_id, None)
        is_written = pending is not None and pending.stored is not None
        _require(is_written, "metadata of a checkpoint that all have answered", event)
        assert pending is not None
        kept = kept_of(pending.stored)
        self._last_completion_ms = step.now
        self._last_completed_id = max(self._last_completed_id, pending.checkpoint_id)
        self._failed_ids.clear()
        if pending.kind == CHECKPOINT:
            step.dropped = [each.checkpoint_id for each in self.retention.completed(kept)]
        else:
            self._savepoints.add((pending.checkpoint_id, pending.attempt))
        if pending.kind != SAVEPOINT:
            self.latest = kept

    def _conclude_checkpoints(self, event: Any, step: Step) -> None:
        pending = step.pending.get(getattr(event, "checkpoint_id", 0))
        if pending is not None:
            is_open = pending.stored is None or type(event) in (MetadataFailed, MetadataStored)
            ends = type(event) in (DeclineCheckpoint, CheckpointExpired, MetadataFailed, MetadataStored)
            if ends and is_open and getattr(event, "attempt", pending.attempt) == pending.attempt:
                is_over = pending.checkpoint_id not in self._pending
                _require(is_over, f"the end of checkpoint {pending.checkpoint_id}", "it is still under way")
        if type(event) is MetadataStored and pending is not None:
            self._conclude_completion(pending, step)
        for checkpoint_id in step.triggered:
            self._conclude_trigger(checkpoint_id, step)
        if step.aborted and step.plan is not None:
            tasks = set(step.plan.upstreams) - self._finished
            for checkpoint_id in step.aborted:
                heard = step.abort_notices.get(checkpoint_id, set())
                expected = f"notices of the abort of {checkpoint_id} to {_names(tasks)}"
                _require(heard == tasks, expected, _names(heard))
        lost = step.discarded ^ {*step.aborted, *step.dropped}
        _require(not lost, "the deletion of what is aborted or no longer retained", sorted(lost))
        if type(event) is TaskFinished and event.attempt == self._attempt:
            waiting = [each.checkpoint_id for each in self._pending.values() if event.task in each.missing]
            _require(not waiting, "the end of checkpoints that lack the answer of a finished task", waiting)
        if self._pending and not self._is_storing and self.state != OVER:
            whole = [each.checkpoint_id for each in self._pending.values() if not each.missing]
            _require(not whole, "the metadata of a checkpoint that all have answered", whole)
        if type(event) is AcknowledgeCheckpoint and event.handle is not None:
            is_known = event.checkpoint_id in step.pending or event.attempt not in self._attempts
            if not is_known and not self._is_used(event):
                _require(step.discards_state, "the deletion of state that came too late", "it stays")
        self._conclude_failures(event, pending, step)

    def _conclude_completion(self, pending: Pending, step: Step) -> None:
        plan = step.plan
        tasks = set()
        if plan is not None and plan.attempt == pending.attempt and pending.kind != SAVEPOINT:
            tasks = set(plan.upstreams) - self._finished
        if plan is not None:
            expected = f"notices of checkpoint {pending.checkpoint_id} to {_names(tasks)}"
            _require(step.notices == tasks, expected, _names(step.notices))
        older = [
            each.checkpoint_id
            for each in self._pending.values()
            if each.kind == CHECKPOINT and each.checkpoint_id < pending.checkpoint_id
        ]
        _require(pending.kind == SAVEPOINT or not older, "the end of older checkpoints", older)

    def _conclude_trigger(self, checkpoint_id: int, step: Step) -> None:
        plan = step.plan
        if plan is None:
            return
        finished = self._finished
        tasks = {
            task
            for task, upstreams in plan.upstreams.items()
            if task not in finished and finished.issuperset(upstreams)
        }
        notified = step.triggers.get(checkpoint_id, set())
        _require(notified == tasks, f"triggers to {_names(tasks)}", _names(notified))
        due_ms = step.now + self.rules.timeout_ms
        _require(step.expiries.get(checkpoint_id) == due_ms, f"an expiry at {due_ms}", step.expiries)

    def _conclude_failures(self, event: Any, pending: Pending | None, step: Step) -> None:
        """Count a failed checkpoint, once; more in a row than tolerated fail the job."""
        fails = False
        for checkpoint_id, aborted in step.aborted.items():
            failed = step.pending.get(checkpoint_id)
            is_own = failed is pending and type(event) in (
                DeclineCheckpoint,
                CheckpointExpired,
                MetadataFailed,
            )
            is_unreadable = (
                type(event) in (AcknowledgeCheckpoint, MetadataStored) and "shared" in aborted.reason
            )
            if failed is None or not (is_own or is_unreadable):
                continue
            by_task = type(event) is DeclineCheckpoint
            if failed.kind != CHECKPOINT and not by_task:
                continue
            if failed.kind == SYNC_SAVEPOINT:
                fails = True
            elif aborted.reason not in TOLERATED and checkpoint_id > self._last_completed_id:
                self._failed_ids.add(checkpoint_id)
                if len(self._failed_ids) > self.rules.tolerable_failures:
                    self._failed_ids.clear()
                    fails = True
        _require(step.too_many is fails, f"too many failures: {fails}", step.too_many)

    def _conclude_requests(self, event: Any, effects: Sequence[Any], step: Step) -> None:
        number = getattr(event, "number", 0)
        ending = self._ending
        if type(event) in _ASKS and number:
            ends_job = type(event) is not TriggerRequested
            may = not self.rules.is_batch and ending is None and (not ends_job or step.state == RUNNING)
            refusal = step.resolved.get(number)
            if not may:
                is_refused = refusal is not None and len(effects) == 1
                _require(is_refused, f"a refusal of request {number} that changes nothing", effects)
            elif refusal is None:
                if ends_job:
                    self._ending = Ending(
                        number, type(event) is StopRequested, getattr(event, "drains", False)
                    )
                    others = [each for each in self._pending.values() if each.stored is None]
                    left = [each.checkpoint_id for each in others if each.number != number]
                    _require(not left, "the end of all checkpoints under way", left)
            else:
                is_possible = self._all_run and len(self._finished) < len(self._running)
                is_wrong = is_possible and self.rules.forces_savepoints and not self._finished
                _require(not is_wrong, f"a savepoint for request {number}", refusal)
                changes = step.is_cancelled or bool(step.triggered)
                _require(not changes, "a refusal that changes nothing", effects)
        elif ending is not None and not ending.is_complete and ending.number in step.resolved:
            if step.resolved[ending.number].checkpoint_id is None:
                self._ending = None
            else:
                ending.is_complete = True
        begun = {each.number for each in self._pending.values()}
        for each in self._requests:
            may_wait = not self.rules.forces_savepoints and bool(self._pending)
            _require(each in begun or may_wait, f"an answer to request {each}", "none")

    def _conclude_job(self, event: Any, effects: Sequence[Any], step: Step) -> None:
        ending, was_running = self._ending, step.state == RUNNING
        ends = step.ends
        _require(len(ends) <= 1, "one end of an attempt", ends)
        end: Any = ends[0] if ends else None
        outcome = type(end) if end is not None else None
        if step.state == OVER:
            _require(not effects or outcome is None, "nothing of a job that is over", effects)
            return
        cause = self._failure(event, step)
        if cause:
            self._conclude_failure(event, end, step)
        elif step.state in (FAILING, CANCELLING) and not self._is_storing:
            # The savepoint of a cancel may complete behind the failure of its attempt: the job ends with it.
            restarts = step.state == FAILING and not self._is_cancelled
            expected = StartRestartTimer if restarts else JobCanceled
            _require(outcome is expected, expected.__name__, end)
        elif outcome is StartRestartTimer or (outcome is JobFailed and type(event) is not DeploymentFailed):
            raise Wrong("no end of an attempt without a failure", end)
        elif type(event) is RescaleRequested:
            may = was_running and not self._stores_in(step.pending) and ending is None
            _require((outcome is Deploy) is may, "a new attempt" if may else "no rescale now", effects)
        elif type(event) is RestartDue:
            may = step.state == RESTARTING and event.attempt in self._attempts
            is_own = may and (outcome is Deploy or event.attempt != self._attempt)
            _require(is_own or not effects, "the next attempt", effects)
            _require(not may or is_own, "the next attempt", effects)
        elif outcome is Deploy:
            may = type(event) in (StartJob, OrphanEnded, StopOverdue)
            _require(may, "no new attempt", end)
        elif step.is_cancelled:
            self._conclude_end(event, outcome, step)
        # One that is due at once may have been planned for earlier, while metadata were written.
        if outcome is StartRestartTimer and end.due_ms > step.now:
            self._restarts_ms[len(self._failures_ms)] = end.due_ms
        if was_running and self.state == RUNNING and self._has_finished and not self._is_storing:
            raise Wrong("the end of a job whose tasks have all finished", effects)
        if outcome is JobFinished:
            stopped = ending is not None and ending.stops and ending.is_complete
            _require(end.stopped is stopped, f"an end with stopped={stopped}", end)
            is_over = step.is_cancelled or (self._has_finished and not self._is_storing)
            _require(is_over, "no end before that of all tasks", end)
        if outcome in (JobFinished, JobFailed, JobCanceled):
            _require(not self._requests, "answers to all requests", list(self._requests))

    def _failure(self, event: Any, step: Step) -> bool:
        """Return whether the attempt fails in this step."""
        if step.state != RUNNING:
            return False
        if type(event) is TaskFailed:
            return bool(event.attempt == self._attempt)
        if type(event) is DeploymentFailed:
            return bool(event.may_pass)
        # Flink ends a job whose tasks have all finished, whatever becomes of its checkpoints.
        too_many = step.too_many and not step.has_finished
        return too_many or self._has_failed_to_stop(event, step)

    def _has_failed_to_stop(self, event: Any, step: Step) -> bool:
        """Return whether the savepoint of a stop has failed: its tasks read no more, others take over."""
        if type(event) is StopRequested or step.has_finished:
            return False
        stops = [each.number for each in step.pending.values() if each.kind == SYNC_SAVEPOINT]
        return any(number in stops and each.checkpoint_id is None for number, each in step.resolved.items())

    def _conclude_failure(self, event: Any, end: Any, step: Step) -> None:
        _require(step.is_cancelled, "the end of an attempt that failed", end)
        self._failures_ms.append(step.now)
        hopeless = False
        if type(event) is TaskFailed:
            latest_id = 0 if self.latest is None else self.latest.checkpoint_id
            at = FailedAt(event.task.vertex, event.error, event.taken, latest_id) if event.error else None
            self._failed_at.append(at)
            hopeless = is_hopeless(self._failed_at, self.rules.max_equal_errors)
        wait = self.rules.strategy.wait(self._failures_ms, self._restarts_ms)
        if wait is None or getattr(event, "unrecoverable", False):
            _require(type(end) is JobFailed, "the failure of the job", end)
        elif self._is_storing:
            _require(end is None, "no attempt while an outcome is open", end)
            self.state = FAILING
        elif hopeless:
            _require(type(end) is JobFailed, "the failure of a job whose error repeats", end)
        else:
            due = (step.now + wait.shortest_ms, step.now + wait.longest_ms)
            is_due = type(end) is StartRestartTimer and due[0] <= end.due_ms <= due[1]
            _require(is_due, f"a restart between {due[0]} and {due[1]} ms", end)

    def _conclude_end(self, event: Any, outcome: Any, step: Step) -> None:
        """Judge an attempt that ends without a failure."""
        ending = self._ending
        if type(event) is CancelRequested or self._is_cancelled:
            _require(outcome is JobCanceled or self._is_storing, "the end of a cancelled job", outcome)
            if outcome is None:
                self.state = CANCELLING
            return
        commits = ending is not None and ending.stops and ending.is_complete and type(event) is TaskRunning
        _require(outcome is JobFinished and commits, "no end of an attempt without a reason", outcome)

    # What the rules have in common.

    @property
    def _is_cancelled(self) -> bool:
        """Whether the savepoint of a cancel is complete."""
        return self._ending is not None and not self._ending.stops and self._ending.is_complete

    @property
    def _all_run(self) -> bool:
        return self._deployed is not None and len(self._running) == len(self._deployed.upstreams)

    @property
    def _has_finished(self) -> bool:
        return self._deployed is not None and len(self._finished) == len(self._deployed.upstreams)

    @property
    def _is_storing(self) -> bool:
        return self._stores_in(self._pending)

    @staticmethod
    def _stores_in(pending: dict[int, Pending]) -> bool:
        return any(each.stored is not None for each in pending.values())


def _require(holds: bool, expected: str, got: object) -> None:
    if not holds:
        raise Wrong(expected, got)


def _names(tasks: Iterable[TaskId]) -> str:
    return " ".join(f"{task.vertex}-{task.subtask}" for task in sorted(tasks)) or "no task"


_EFFECTS: Final[dict[type, Any]] = {
    CheckpointTriggered: JobSpecification._triggers,
    StartTimer: JobSpecification._timer,
    Send: JobSpecification._send,
    StoreMetadata: JobSpecification._stores,
    CheckpointCompleted: JobSpecification._completes,
    CheckpointAborted: JobSpecification._aborts,
    DiscardCheckpoint: JobSpecification._discards,
    DiscardHandle: JobSpecification._discards_handle,
    DiscardSharedFiles: JobSpecification._discards_files,
    RequestResolved: JobSpecification._resolves,
    TooManyFailures: JobSpecification._too_many,
    CancelTasks: JobSpecification._cancels,
    Deploy: JobSpecification._ends,
    StartRestartTimer: JobSpecification._ends,
    JobFailed: JobSpecification._ends,
    JobCanceled: JobSpecification._ends,
    JobFinished: JobSpecification._ends,
}
