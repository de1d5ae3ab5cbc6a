"""The checkpoint coordinator and its parts: drives onceproof.engine.checkpoint.

Deletions take place within a step here, and a checkpoint is triggered within one; metadata is durable as soon
as it is to be stored. The tasks of ``checkpoint.coordinator`` run on their own: t0, t1, ... are subtasks of
one vertex each, fed by the first ones where only these are sources.
"""

from collections.abc import Sequence
from typing import Any

from onceproof.engine.checkpoint.completed_store import CompletedCheckpointStore
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator, checkpoint_tasks
from onceproof.engine.checkpoint.events import (
    AbortPending,
    AnsweredTooLate,
    AttemptStarted,
    CheckpointPlan,
    IntervalElapsed,
    MetadataStored,
    PeriodicTriggerRequested,
    RequestResolved,
    Shutdown,
    StartScheduler,
    StartTimer,
    StopScheduler,
    StoreMetadata,
    TooManyFailures,
    TriggerRequested,
)
from onceproof.engine.checkpoint.failure_counter import FailureCounter
from onceproof.engine.checkpoint.request_queue import CheckpointRequest, RequestQueue, TooEarly
from onceproof.engine.configuration import UNLIMITED_RESTARTS as UNLIMITED
from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.graph import PartitionerKind
from onceproof.engine.job.channel_layout import senders_of
from onceproof.engine.messages import (
    CHECKPOINT,
    SAVEPOINT,
    SYNC_SAVEPOINT,
    AcknowledgeCheckpoint,
    AttemptId,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    Send,
    TaskId,
    TaskRunning,
    TriggerCheckpoint,
)

ATTEMPT = AttemptId("1.1")
KINDS = {"checkpoint": CHECKPOINT, "savepoint": SAVEPOINT, "sync_savepoint": SYNC_SAVEPOINT}


class Decider:
    """The request queue, with the coordinator's state as the vector gives it."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.queue = RequestQueue(given["max_concurrent"], given["min_pause_ms"], given["max_queued"])
        self.pending = given["pending"]
        self.deleting = given.get("cleaning", 0)
        self.is_triggering = False
        self.now = 0
        self.last_completion_ms: int | None = None
        self.names: dict[int, str] = {}
        self.failed: dict[str, str] = {}

    def on_submit(self, name: str, kind: str, is_periodic: bool, is_forced: bool) -> dict[str, Any]:
        number = len(self.names) + 1
        self.names[number] = name
        request = CheckpointRequest(self.now, KINDS[kind], is_periodic, is_forced, number)
        refused = self.queue.submit(request)
        if refused is not None:
            self.failed[self.names[refused.number]] = "failed:TOO_MANY_CHECKPOINT_REQUESTS"
        return {"execute": None} if refused is request else self.on_dequeue()

    def on_dequeue(self) -> dict[str, Any]:
        # The process that is triggering a checkpoint requests the next one when it is done.
        if self.is_triggering:
            return {"execute": None}
        chosen = self.queue.next(self.now, self.pending, self.last_completion_ms, self.deleting)
        if isinstance(chosen, TooEarly):
            self.failed[self.names[chosen.request.number]] = "failed:MINIMUM_TIME_BETWEEN_CHECKPOINTS"
            return {"execute": None, "rescheduled_after_ms": [chosen.left_ms]}
        return {"execute": None if chosen is None else self.names[chosen.number]}

    def on_set_pending(self, pending: int) -> dict[str, Any]:
        self.pending = pending
        return {}

    def on_set_cleaning(self, deleting: int) -> dict[str, Any]:
        self.deleting = deleting
        return {}

    def on_set_triggering(self, is_triggering: bool) -> dict[str, Any]:
        self.is_triggering = is_triggering
        return {}

    def on_completed_now(self) -> dict[str, Any]:
        self.last_completion_ms = self.now
        return {}

    def on_advance(self, milliseconds: int) -> dict[str, Any]:
        self.now += milliseconds
        return {}


def request_decider(given: dict[str, Any]) -> dict[str, Any]:
    decider = Decider(given)
    trace = []
    for name, *arguments in given["events"]:
        answer = getattr(decider, f"on_{name}")(*arguments)
        answer.update(failed_so_far=dict(decider.failed), queued=len(decider.queue.queued))
        trace.append(answer)
    return {"trace": trace}


def failure_manager(given: dict[str, Any]) -> dict[str, Any]:
    counter = FailureCounter(given["tolerable"])
    failures = 0
    after = []
    for event in given["events"]:
        if event[0] == "success":
            counter.completed(event[1])
        elif event[0] == "fail":
            checkpoint_id, reason, *kind = event[1:]
            failures += counter.failed(
                None if checkpoint_id < 0 else checkpoint_id,
                reason,
                KINDS[kind[0]] if kind else CHECKPOINT,
                by_task=False,
            )
        else:
            raise ValueError(f"unknown event {event}")
        after.append(failures)
    return {"job_failures_after_event": after}


PATTERNS = {"ALL_TO_ALL": PartitionerKind.HASH, "POINTWISE": PartitionerKind.RESCALE}


def plan(given: dict[str, Any]) -> dict[str, Any]:
    names = list(given["vertices"])
    upstreams: dict[TaskId, tuple[TaskId, ...]] = {}
    for vertex, name in enumerate(names):
        parallelism = given["vertices"][name]
        for subtask in range(parallelism):
            upstreams[TaskId(vertex, subtask)] = tuple(
                TaskId(names.index(source), sender)
                for source, target, pattern in given["edges"]
                if target == name
                for sender in senders_of(PATTERNS[pattern], given["vertices"][source], parallelism, subtask)
            )
    upstream_by_name = {f"{names[task.vertex]}{task.subtask}": task for task in upstreams}
    tasks = checkpoint_tasks(
        upstreams,
        [upstream_by_name[name] for name in given["finished"]],
        after_tasks_finish=given.get("checkpoints_after_tasks_finish", True),
    )
    if tasks is None:
        return {"error": "NOT_ALL_REQUIRED_TASKS_RUNNING"}

    def named(chosen: Sequence[TaskId]) -> list[str]:
        return [f"{names[task.vertex]}{task.subtask}" for task in chosen]

    return {
        "trigger": named(tasks.triggered),
        "wait": named(tasks.answering),
        "notify": named(tasks.answering),
    }


class Coordination:
    """A coordinator with tasks that only answer."""

    def __init__(self, given: dict[str, Any]) -> None:
        config = given.get("config", {})
        self.settings = CheckpointSettings(
            interval_ms=config.get("interval_ms"),
            timeout_ms=config.get("timeout_ms", 600_000),
            min_pause_ms=config.get("min_pause_ms", 0),
            max_concurrent=config.get("max_concurrent", UNLIMITED),
            tolerable_failures=config.get("tolerable_failures", UNLIMITED),
            num_retained=config.get("num_retained", 1),
        )
        self.store = CompletedCheckpointStore(self.settings.num_retained)
        self.coordinator = CheckpointCoordinator("job", "job", self.settings, self.store)
        self.now = 0
        self.timers: list[StartTimer] = []
        self.requests = 0
        tasks = [TaskId(index, 0) for index in range(given["tasks"])]
        sources = tuple(tasks[: given.get("source_tasks", len(tasks))])
        self.tasks = {task: () if task in sources else sources for task in tasks}
        self.answer: dict[str, Any] = {}
        self.handle(AttemptStarted(CheckpointPlan(ATTEMPT, (), self.tasks)))
        self.on_tasks_running(True)
        # An attempt requests checkpoints by itself; a vector says when that begins.
        self.handle(StopScheduler())

    def play(self, event: list[Any]) -> dict[str, Any]:
        """Play one event and return its effects."""
        self.answer = {"messages": []}
        name, *arguments = event
        getattr(self, f"on_{name}")(*arguments)
        self.answer["pending"] = list(self.coordinator.pending)
        self.answer["retained"] = [metadata.checkpoint_id for metadata in self.store.retained]
        return self.answer

    def handle(self, event: Any) -> bool:
        """Pass an event in and carry out its effects; return whether it came too late."""
        too_late = False
        for effect in self.coordinator.handle(event, self.now):
            if isinstance(effect, Send):
                self.answer["messages"].append(self.message(effect.message))
            elif isinstance(effect, StoreMetadata):
                self.handle(MetadataStored(effect.metadata.checkpoint_id))
            elif isinstance(effect, StartTimer):
                self.timers.append(effect)
            elif isinstance(effect, RequestResolved):
                done = effect.checkpoint_id is not None
                outcome = f"completed:cp{effect.checkpoint_id}" if done else f"failed:{effect.reason}"
                self.answer.setdefault("requests_resolved", {})[f"r{effect.number}"] = outcome
            elif isinstance(effect, TooManyFailures):
                self.answer["messages"].append("fail_job")
            elif isinstance(effect, AnsweredTooLate):
                too_late = True
        self.coordinator.validate()
        return too_late

    @staticmethod
    def message(message: Any) -> str:
        where = f"t{message.task.vertex} cp{message.checkpoint_id}"
        if isinstance(message, TriggerCheckpoint):
            return f"trigger{'_sync' if message.kind == SYNC_SAVEPOINT else ''} {where}"
        if isinstance(message, NotifyCheckpointAborted):
            return f"notify_aborted {where} latest_completed={message.latest_completed_id}"
        assert isinstance(message, NotifyCheckpointComplete)
        return f"notify_complete {where}" + (
            f" subsumed={message.subsumed_id}" if message.subsumed_id else ""
        )

    def number(self) -> int:
        self.requests += 1
        return self.requests

    def on_trigger(self) -> None:
        self.handle(TriggerRequested(number=self.number()))

    def on_trigger_periodic(self) -> None:
        self.handle(PeriodicTriggerRequested(self.number()))

    def on_savepoint(self) -> None:
        self.handle(TriggerRequested(SAVEPOINT, self.number()))

    def on_stop_with_savepoint(self, drains: bool) -> None:
        self.handle(TriggerRequested(SYNC_SAVEPOINT, self.number(), drains))

    def on_ack(self, task: int, checkpoint_id: int) -> None:
        known = checkpoint_id in self.coordinator.pending
        message = AcknowledgeCheckpoint(ATTEMPT, TaskId(task, 0), checkpoint_id, None, False)
        self.answer["ack_returned"] = self.handle(message) or known

    def on_decline(self, task: int, checkpoint_id: int, reason: str) -> None:
        self.handle(DeclineCheckpoint(ATTEMPT, TaskId(task, 0), checkpoint_id, reason))

    def on_advance(self, milliseconds: int) -> None:
        until = self.now + milliseconds
        while due := [timer for timer in self.timers if timer.due_ms <= until]:
            timer = min(due, key=lambda timer: timer.due_ms)
            self.timers.remove(timer)
            self.now = max(self.now, timer.due_ms)
            self.handle(timer.event)
        self.now = until

    def on_start_scheduler(self) -> None:
        self.timers = [timer for timer in self.timers if not isinstance(timer.event, IntervalElapsed)]
        self.handle(StartScheduler())

    def on_stop_scheduler(self) -> None:
        self.handle(StopScheduler())

    def on_abort_pending(self, reason: str) -> None:
        self.handle(AbortPending(reason))

    def on_shutdown(self) -> None:
        self.handle(Shutdown())

    def on_tasks_running(self, running: bool) -> None:
        if running:
            for task in self.tasks:
                self.handle(TaskRunning(ATTEMPT, task))
        else:
            # A running task reports itself as running; only a task that ends reports that it does no more.
            self.coordinator._running.clear()


def coordinator(given: dict[str, Any]) -> dict[str, Any]:
    coordination = Coordination(given)
    return {"trace": [coordination.play(event) for event in given["events"]]}


ADAPTERS = {
    "checkpoint.request_decider": request_decider,
    "checkpoint.failure_manager": failure_manager,
    "checkpoint.plan": plan,
    "checkpoint.coordinator": coordinator,
}
