"""Aligned barriers: drives engine.task.barriers.aligned, holding back what the handler blocks."""

from collections import deque
from typing import Any

from engine.elements import CheckpointBarrier
from engine.task.barriers.aligned import AlignedBarrierHandler
from engine.task.barriers.events import BarrierArrived, CancellationArrived, ChannelEnded, StartCheckpoint


class Gate:
    """Input channels in front of a barrier handler.

    Channels that are unblocked together are drained in ascending order, each as far as it goes.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        self.handler = AlignedBarrierHandler(
            given["channels"],
            checkpoints_after_tasks_finish=given.get("checkpoints_after_tasks_finish", True),
        )
        self.holds_back = not given.get("handler_level", False)
        self.queues: list[deque[list[Any]]] = [deque() for _ in range(given["channels"])]
        self.delivered: list[str] = []
        self.triggered: list[dict[str, Any]] = []
        self.aborted: list[dict[str, Any]] = []

    def receive(self, event: list[Any]) -> None:
        """Take an event of a vector; what stands on a blocked channel waits."""
        if not self.holds_back:
            self.process(event)
            return
        self.queues[event[1]].append(event)
        progress = True
        while progress:
            progress = False
            for channel, queue in enumerate(self.queues):
                while queue and not self.handler.blocked[channel]:
                    self.process(queue.popleft())
                    progress = True

    def process(self, event: list[Any]) -> None:
        """Hand one element to whom it concerns."""
        kind, channel = event[:2]
        if kind == "D":
            self.delivered.append(event[2])
            return
        if kind == "B":
            effects = self.handler.handle(BarrierArrived(channel, CheckpointBarrier(event[2], 0)), 0)
        elif kind == "C":
            effects = self.handler.handle(CancellationArrived(channel, event[2]), 0)
        elif kind == "E":
            effects = self.handler.handle(ChannelEnded(channel), 0)
        else:
            raise ValueError(f"unknown event {event}")
        self.handler.validate()
        for effect in effects:
            if isinstance(effect, StartCheckpoint):
                self.triggered.append(
                    {
                        "id": effect.barrier.checkpoint_id,
                        "alignment": "ALIGNED",
                        "delivered_before": len(self.delivered),
                    }
                )
            else:
                self.aborted.append({"id": effect.checkpoint_id, "reason": effect.reason})


def aligned(given: dict[str, Any]) -> dict[str, Any]:
    gate = Gate(given)
    blocked = []
    pending = []
    for event in given["events"]:
        gate.receive(event)
        blocked.append([channel for channel, waits in enumerate(gate.handler.blocked) if waits])
        pending.append(gate.handler.pending)
    return {
        "delivered": gate.delivered,
        "triggered": gate.triggered,
        "aborted": gate.aborted,
        "blocked_after_event": blocked,
        "pending_after_event": pending,
        "latest_checkpoint_id": gate.handler.latest_checkpoint_id,
    }


ADAPTERS = {"barrier.aligned": aligned}
