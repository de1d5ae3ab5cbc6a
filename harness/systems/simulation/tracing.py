"""Records the full trace of one simulated run, for diagrams and explanations.

A trace has lanes (the coordinator and the tasks), arrows (records, barriers, messages), marks, kills, faults
and attempts. Only replays are traced; a replay takes the same steps as the first run. The world calls the
tracer, which compares the queues before and after each step; the engine has no code for it.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TaskFailed,
    TriggerCheckpoint,
)
from onceproof.engine.protocol_points import (
    ABORTED,
    COORDINATOR,
    METADATA_WRITTEN,
    PRE_COMMITTED,
    RESTORED,
    SNAPSHOTTED,
    TRIGGERED,
    UPLOADED,
)
from onceproof.engine.task.outputs import Queue
from onceproof.engine.task.task import Task
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.simulation.actions import Action, Slot
from onceproof.harness.systems.simulation.external_system import Transaction

_MARKS = {
    TRIGGERED: "trigger",
    SNAPSHOTTED: "snapshot",
    UPLOADED: "stored",
    PRE_COMMITTED: "prepare",
    METADATA_WRITTEN: "metadata",
    RESTORED: "restored",
    ABORTED: "aborted",
}
_ARROWS: dict[Any, str] = {
    TriggerCheckpoint: "trigger",
    AcknowledgeCheckpoint: "acknowledge",
    NotifyCheckpointComplete: "notify",
    NotifyCheckpointAborted: "control",
    DeclineCheckpoint: "control",
    TaskFailed: "control",
}
LABEL_LENGTH = 24


class Tracer:
    """Collects the trace of a run; the world calls its methods with the number of the current step."""

    def __init__(self) -> None:
        self._lanes: dict[str, None] = {COORDINATOR: None}
        self._arrows: list[dict[str, Any]] = []
        self._marks: list[dict[str, Any]] = []
        self._kills: list[dict[str, Any]] = []
        self._faults: list[dict[str, Any]] = []
        self._attempts: list[dict[str, Any]] = []
        self._shadows: dict[int, tuple[Queue, str, deque[int]]] = {}
        self._names: dict[Any, str] = {}
        self._sinks: set[str] = set()

    def attempt(self, step: int, name: str, parallelism: int, restored: int | None) -> None:
        """Record the start of an attempt; ``restored`` is the id of its restored checkpoint, if any."""
        self._end_attempt(step)
        self._shadows.clear()
        self._attempts.append(
            {"name": name, "from": step, "to": None, "parallelism": parallelism, "restored": restored}
        )

    def _end_attempt(self, step: int) -> None:
        if self._attempts and self._attempts[-1]["to"] is None:
            self._attempts[-1]["to"] = step

    def tasks(self, tasks: list[Task]) -> None:
        """Add the lanes of an attempt's tasks, and watch their output queues."""
        for task in tasks:
            self._lanes.setdefault(task.name)
            self._names[task.id] = task.name
            if not task.outputs:
                self._sinks.add(task.name)
            for queue in task.output_queues:
                if id(queue) not in self._shadows:
                    self._shadows[id(queue)] = (queue, task.name, deque())

    def slot(self, step: int, slot: Slot) -> None:
        """Draw the arrow of the element that a task is about to read from a channel."""
        queue = slot.queue
        if isinstance(queue, list):
            return
        self._catch_up(step)
        shadow = self._shadows.get(id(queue))
        if shadow is None or not shadow[2]:
            return
        _, sender, sent = shadow
        element = queue[0]
        name = slot.task.name
        if type(element) is list:
            label = ", ".join([_short(record[0]) for record in element])
            self._arrow("record", (sender, sent.popleft()), (name, step), label)
            if name in self._sinks:
                self._mark("write", name, step, label)
        elif isinstance(element, CheckpointBarrier):
            self._arrow("barrier", (sender, sent.popleft()), (name, step), str(element.checkpoint_id))
        else:
            self._arrow("control", (sender, sent.popleft()), (name, step), type(element).__name__)

    def action(self, step: int, action: Action) -> None:
        """Draw the arrow of a message that arrives; other pending actions have none."""
        self._message(action, step)

    def lost(self, step: int, action: Action) -> None:
        """Draw the arrow of a message that a fault has lost."""
        self._message(action, None)

    def _message(self, action: Action, step: int | None) -> None:
        message = action.argument
        kind = _ARROWS.get(type(message))
        if kind is None:
            return
        task = self._names.get(message.task)
        if task is None:
            return
        downwards = isinstance(
            message, TriggerCheckpoint | NotifyCheckpointComplete | NotifyCheckpointAborted
        )
        sender, receiver = (COORDINATOR, task) if downwards else (task, COORDINATOR)
        label = type(message).__name__ if kind == "control" else str(message.checkpoint_id)
        arrived = None if step is None else (receiver, step)
        self._arrow(kind, (sender, action.step), arrived, label)
        self._arrows[-1]["toward"] = receiver

    def after(self, step: int) -> None:
        """Record, at the end of a step, that the new elements of all queues were sent in it."""
        self._catch_up(step)

    def _catch_up(self, step: int) -> None:
        for queue, _, sent in self._shadows.values():
            while len(sent) < len(queue):
                sent.append(step)

    def point(self, step: int, point: str, task: str, checkpoint_id: int) -> None:
        """Mark a pass of a protocol point, if diagrams show that point."""
        kind = _MARKS.get(point)
        if kind is not None:
            self._mark(kind, task, step, str(checkpoint_id) if checkpoint_id else "")

    def visible(self, step: int, task: str, transaction: Transaction) -> None:
        """Mark that a transaction becomes visible, with its number of rows."""
        rows = len(transaction.rows)
        self._mark("visible", task, step, f"{rows} row" if rows == 1 else f"{rows} rows")

    def completed(self, step: int, checkpoint_id: int) -> None:
        """Mark a completed checkpoint on the coordinator's lane."""
        self._mark("complete", COORDINATOR, step, str(checkpoint_id))

    def fault(self, step: int, fault: Fault, task: str) -> None:
        """Record a fault that strikes."""
        self._faults.append({"step": step, "kind": fault.kind, "point": fault.point, "task": task})

    def killed(self, step: int, task: str) -> None:
        """Record the death of a task; deaths in one step form one kill."""
        if self._kills and self._kills[-1]["step"] == step:
            self._kills[-1]["lanes"].append(task)
        else:
            self._kills.append({"step": step, "lanes": [task], "label": "kill"})

    def finish(self, step: int) -> dict[str, Any] | None:
        """Return the trace as it is written to JSON; None for a run without tracing."""
        self._end_attempt(step)
        return {
            "lanes": list(self._lanes),
            "arrows": self._arrows,
            "marks": self._marks,
            "kills": self._kills,
            "faults": self._faults,
            "attempts": self._attempts,
            "steps": step,
        }

    def _arrow(self, kind: str, sent: tuple[str, int], arrived: tuple[str, int] | None, label: str) -> None:
        self._arrows.append(
            {
                "kind": kind,
                "from": list(sent),
                "to": None if arrived is None else list(arrived),
                "label": label,
                "lost": arrived is None,
            }
        )

    def _mark(self, kind: str, lane: str, step: int, label: str) -> None:
        self._marks.append({"kind": kind, "lane": lane, "step": step, "label": label})


class _NoTracer(Tracer):
    def finish(self, step: int) -> None:
        return None


NO_TRACER = _NoTracer()
"""The tracer of runs without a trace; the world tests for it before each call."""


def _short(value: Any) -> str:
    text = "=".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= LABEL_LENGTH else text[: LABEL_LENGTH - 1] + "…"
