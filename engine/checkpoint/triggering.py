"""When checkpoints begin: the interval, the requests that wait, and what a new checkpoint needs.

The half of the coordinator that looks forward. Waiting requests begin in the order of the queue and within
its limits (request_queue.py). A request that cannot begin in its turn fails, and its sender gets the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.engine.checkpoint.events import (
    CheckpointExpired,
    CheckpointPlan,
    CheckpointTriggered,
    CoordinatorEffect,
    IntervalElapsed,
    RequestResolved,
    StartTimer,
)
from onceproof.engine.checkpoint.failure_counter import (
    SCHEDULER_STOPPED,
    SHUT_DOWN,
    TASKS_NOT_RUNNING,
    TOO_MANY_REQUESTS,
    WITHIN_MIN_PAUSE,
)
from onceproof.engine.checkpoint.pending import PendingCheckpoint
from onceproof.engine.checkpoint.plan_calculator import CheckpointTasks, checkpoint_tasks
from onceproof.engine.checkpoint.request_queue import CheckpointRequest, RequestQueue, TooEarly
from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.messages import Send, TaskId, TriggerCheckpoint
from onceproof.engine.wall_clock import WallClock


class CheckpointTriggering:
    """Begins checkpoints and adds them to ``pending``."""

    __slots__ = (
        "_finished",
        "_is_scheduling",
        "_is_shut_down",
        "_last_completion_ms",
        "_now",
        "_periodic_due_ms",
        "_plan",
        "_requests",
        "_running",
        "_settings",
        "_undisturbed",
        "_wall_clock",
        "next_id",
        "pending",
    )

    def __init__(self, settings: CheckpointSettings, next_id: int, wall_clock: WallClock) -> None:
        self._settings = settings
        self.pending: dict[int, PendingCheckpoint] = {}
        self._plan: CheckpointPlan | None = None
        self._undisturbed: CheckpointTasks | None = None
        """The tasks of a checkpoint of this attempt as long as none has finished."""
        self._running: set[TaskId] = set()
        self._finished: dict[TaskId, None] = {}
        self.next_id = next_id
        self._requests = RequestQueue(settings.max_concurrent, settings.min_pause_ms)
        self._last_completion_ms: int | None = None
        self._is_scheduling = False
        self._is_shut_down = False
        self._periodic_due_ms = 0
        self._now = 0
        self._wall_clock = wall_clock

    def _begin_attempt(self, plan: CheckpointPlan, effects: list[CoordinatorEffect]) -> None:
        self._plan = plan
        self._undisturbed = None
        self._running.clear()
        self._finished.clear()
        self._begin_scheduling(effects)

    # The interval.

    def _begin_scheduling(self, effects: list[CoordinatorEffect]) -> None:
        interval_ms = self._settings.interval_ms
        if interval_ms is not None and self._plan is not None:
            self._is_scheduling = True
            effects.append(self._start_interval(self._plan, self._now + interval_ms))

    def _start_interval(self, plan: CheckpointPlan, due_ms: int) -> StartTimer:
        """Return the timer of the next periodic request. No timer is cancelled: one due earlier is stale."""
        self._periodic_due_ms = due_ms
        return StartTimer(due_ms, IntervalElapsed(plan.attempt))

    def _interval_elapsed(self, event: IntervalElapsed) -> Sequence[CoordinatorEffect]:
        plan = self._plan
        if plan is None or event.attempt != plan.attempt:
            return ()
        due_ms = self._periodic_due_ms
        if self._now < due_ms or not self._is_scheduling:
            return ()
        interval_ms = self._settings.interval_ms
        assert interval_ms is not None
        effects: list[CoordinatorEffect] = [self._start_interval(plan, due_ms + interval_ms)]
        self._request(CheckpointRequest(self._now, is_periodic=True), effects)
        return effects

    # Requests.

    def _request(self, request: CheckpointRequest, effects: list[CoordinatorEffect]) -> None:
        refused = self._requests.submit(request)
        if refused is not None:
            self._refuse(refused, TOO_MANY_REQUESTS, effects)
        if refused is not request:
            self._start_waiting(effects)

    def _start_waiting(self, effects: list[CoordinatorEffect]) -> None:
        """Begin the queued checkpoints that may begin now. Deletions take no time here: none is awaited."""
        requests = self._requests
        while requests.queued:
            chosen = requests.next(self._now, len(self.pending), self._last_completion_ms)
            if chosen is None:
                return
            if type(chosen) is TooEarly:
                self._refuse(chosen.request, WITHIN_MIN_PAUSE, effects)
                if self._plan is not None and self._is_scheduling:
                    effects.append(self._start_interval(self._plan, self._now + chosen.left_ms))
                return
            self._trigger(chosen, effects)  # type: ignore[arg-type]

    def _refuse(self, request: CheckpointRequest, reason: str, effects: list[CoordinatorEffect]) -> None:
        if request.number:
            effects.append(RequestResolved(request.number, None, reason))

    def _refuse_all(self, reason: str, effects: list[CoordinatorEffect]) -> None:
        if self._requests.queued:
            for request in self._requests.clear():
                self._refuse(request, reason, effects)

    def _trigger(self, request: CheckpointRequest, effects: list[CoordinatorEffect]) -> None:
        if self._is_shut_down:
            self._refuse(request, SHUT_DOWN, effects)
            return
        if request.is_periodic and not self._is_scheduling:
            self._refuse(request, SCHEDULER_STOPPED, effects)
            return
        plan, tasks = self._plan, self._tasks()
        if plan is None or tasks is None:
            self._refuse(request, TASKS_NOT_RUNNING, effects)
            return
        checkpoint_id = self.next_id
        self.next_id += 1
        now, ahead_ms = self._now, self._wall_clock.ahead_ms
        kind = request.kind
        self.pending[checkpoint_id] = PendingCheckpoint(
            checkpoint_id, now + ahead_ms, plan.attempt, tasks.answering, self._finished, kind, request.number
        )
        effects.append(CheckpointTriggered(checkpoint_id, kind, request.number))
        expiry = CheckpointExpired(plan.attempt, checkpoint_id)
        effects.append(StartTimer(now + self._settings.timeout_ms, expiry))
        drains = request.drains
        for task in tasks.triggered:
            trigger = TriggerCheckpoint(
                plan.attempt, task, checkpoint_id, now + ahead_ms, kind, drains, ahead_ms
            )
            effects.append(Send(trigger))

    def _tasks(self) -> CheckpointTasks | None:
        """Return the tasks of a checkpoint that begins now, or None if none can begin."""
        plan = self._plan
        if plan is None or len(self._running) < len(plan.upstreams):
            return None
        if self._finished:
            allowed = self._settings.checkpoints_after_tasks_finish
            return checkpoint_tasks(plan.upstreams, self._finished, after_tasks_finish=allowed)
        if self._undisturbed is None:
            self._undisturbed = checkpoint_tasks(plan.upstreams)
        return self._undisturbed
