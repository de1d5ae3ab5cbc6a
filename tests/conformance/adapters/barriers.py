"""Barriers of one task: drives the handlers of onceproof.engine.task.barriers with blocked channels.

Priority elements are queued by the function that the engine's outputs use; records in flight are collected by
the engine's recorder, on the side of the receiver and of the senders.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from onceproof.engine.configuration.alignment import (
    ALIGNED,
    AT_LEAST_ONCE,
    UNALIGNED,
    AlignmentKind,
    CheckpointOptions,
)
from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.state.in_flight import INPUT, ChannelId
from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    AlignmentTimeOut,
    BarrierAnnounced,
    BarrierArrived,
    BarrierEffect,
    CancellationArrived,
    ChannelEnded,
    InFlightComplete,
    StartAlignmentTimer,
    StartCheckpoint,
)
from onceproof.engine.task.barriers.tracker import BarrierTracker
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.task.outputs import ahead_of_all
from onceproof.engine.task.unaligned_task import InFlightRecorder, buffers_of


class Gate:
    """Input channels in front of a barrier handler.

    Channels that are unblocked together are drained in ascending order, each as far as it goes. Only barriers
    that overtake are taken without being asked where ``auto_poll`` is off.
    """

    def __init__(self, given: dict[str, Any], handler: Any, options: CheckpointOptions = ALIGNED) -> None:
        channels = range(given["channels"])
        self.handler = handler(
            len(channels), checkpoints_after_tasks_finish=given.get("checkpoints_after_tasks_finish", True)
        )
        self.options = options
        self.holds_back = not given.get("handler_level", False)
        self.polls = given.get("auto_poll", True)
        self.queues: list[deque[Any]] = [deque() for _ in channels]
        self.names = tuple([ChannelId(INPUT, "", "", 0, channel, 0) for channel in channels])
        self.now = 0
        self.begun: dict[int, int] = {}
        self.timers: list[StartAlignmentTimer] = []
        self.recorders: dict[int, InFlightRecorder] = {}
        self.delivered: list[str] = []
        self.triggered: list[dict[str, Any]] = []
        self.aborted: list[dict[str, Any]] = []
        self.channel_state: dict[str, dict[str, list[str]]] = {}

    def receive(self, event: list[Any]) -> None:
        """Handle an event of a vector; elements on a blocked channel wait."""
        kind = event[0]
        if kind == "T":
            self.now += event[1]
            due = [timer for timer in self.timers if timer.due_ms <= self.now]
            self.timers = [timer for timer in self.timers if timer.due_ms > self.now]
            for timer in due:
                self.carry_out(self.handler.handle(AlignmentTimeOut(timer.checkpoint_id), self.now))
        elif kind == "P":
            self.take(event[1])
        elif kind == "A":
            announced = BarrierAnnounced(event[1], self.barrier(event[2]))
            self.carry_out(self.handler.handle(announced, self.now))
        elif self.holds_back:
            self.send(event)
        else:
            self.process(event[1], self.element(event))
        self.drain()

    def send(self, event: list[Any]) -> None:
        """Append an element to its channel, like a sending task."""
        channel, element = event[1], self.element(event)
        queue = self.queues[channel]
        if type(element) is not CheckpointBarrier or element.options.alignment is not AlignmentKind.UNALIGNED:
            queue.append(element)
        else:
            self.recorder(element.checkpoint_id).sent(self.names[channel], buffers_of(queue))
            ahead_of_all(queue, element)

    def drain(self) -> None:
        """Take all elements that are not blocked."""
        progress = True
        while progress:
            progress = False
            for channel, queue in enumerate(self.queues):
                while queue and not self.handler.blocked[channel] and (self.polls or _overtakes(queue[0])):
                    self.take(channel)
                    progress = True

    def take(self, channel: int) -> None:
        """Take the next element of a channel."""
        element = self.queues[channel].popleft()
        for recorder in self.recorders.values():
            recorder.reading(channel, element)
        self.process(channel, element)

    def process(self, channel: int, element: Any) -> None:
        """Pass one element to the barrier handler or the records."""
        if type(element) is list:
            self.delivered += [value for value, _ in element]
        else:
            event = BarrierArrived(channel, element) if type(element) is CheckpointBarrier else element
            self.carry_out(self.handler.handle(event, self.now))

    def carry_out(self, effects: Sequence[BarrierEffect]) -> None:
        self.handler.validate()
        for effect in effects:
            checkpoint_id = (
                effect.barrier.checkpoint_id
                if isinstance(effect, StartCheckpoint)
                else (effect.checkpoint_id)
            )
            if isinstance(effect, StartCheckpoint):
                alignment = effect.barrier.options.alignment
                self.triggered.append(
                    {
                        "id": checkpoint_id,
                        "alignment": alignment.value,
                        "delivered_before": len(self.delivered),
                    }
                )
                if alignment is AlignmentKind.UNALIGNED and self.handler.pending:
                    self.recorder(checkpoint_id).expect(self.handler.undelivered)
            elif isinstance(effect, AbortCheckpoint):
                self.aborted.append({"id": checkpoint_id, "reason": effect.reason})
                self.recorders.pop(checkpoint_id, None)
                self.end_earlier_recordings(checkpoint_id)
            elif isinstance(effect, InFlightComplete):
                self.end_recording(checkpoint_id)
            elif isinstance(effect, StartAlignmentTimer):
                self.timers.append(effect)
            else:
                for channel in effect.channels:
                    self.recorder(checkpoint_id).overtake(channel, self.queues[channel])

    def end_earlier_recordings(self, checkpoint_id: int) -> None:
        """End the recordings of earlier snapshots, which no barrier is awaited for any more."""
        aborted = {each["id"] for each in self.aborted}
        for earlier in [each["id"] for each in self.triggered]:
            if earlier < checkpoint_id and earlier in self.recorders and earlier not in aborted:
                self.end_recording(earlier)

    def end_recording(self, checkpoint_id: int) -> None:
        """Give the records in flight that were recorded for a checkpoint, by channel."""
        records = self.recorders.pop(checkpoint_id).records()
        self.channel_state[str(checkpoint_id)] = {
            str(name.sender): [value for buffer in buffers for value, _ in buffer]
            for name, buffers in sorted(records.items(), key=lambda item: item[0].sender)
        }

    def recorder(self, checkpoint_id: int) -> InFlightRecorder:
        return self.recorders.setdefault(checkpoint_id, InFlightRecorder(checkpoint_id, self.names))

    def barrier(self, checkpoint_id: int) -> CheckpointBarrier:
        """Return a barrier, triggered at its first mention."""
        begun = self.begun.setdefault(checkpoint_id, self.now)
        return CheckpointBarrier(checkpoint_id, begun, options=self.options)

    def element(self, event: list[Any]) -> Any:
        kind, channel = event[:2]
        if kind == "D":
            return [(event[2], None)]
        if kind == "B":
            return self.barrier(event[2])
        if kind == "C":
            return CancellationArrived(channel, event[2])
        if kind == "E":
            return ChannelEnded(channel)
        raise ValueError(f"unknown event {event}")


def _overtakes(element: Any) -> bool:
    return type(element) is CheckpointBarrier and element.options.alignment is AlignmentKind.UNALIGNED


def run(gate: Gate, given: dict[str, Any], *, blocked: bool, in_flight: bool) -> dict[str, Any]:
    """Handle all events; the answer has the fields of the area."""
    blocked_after = []
    pending = []
    for event in given["events"]:
        gate.receive(event)
        blocked_after.append([channel for channel, waits in enumerate(gate.handler.blocked) if waits])
        pending.append(gate.handler.pending)
    answer = {
        "delivered": gate.delivered,
        "triggered": gate.triggered,
        "aborted": gate.aborted,
        "pending_after_event": pending,
        "latest_checkpoint_id": gate.handler.latest_checkpoint_id,
    }
    if blocked:
        answer["blocked_after_event"] = blocked_after
    if in_flight:
        answer["channel_state"] = gate.channel_state
    return answer


def aligned(given: dict[str, Any]) -> dict[str, Any]:
    return run(Gate(given, AlignedBarrierHandler), given, blocked=True, in_flight=False)


def tracker(given: dict[str, Any]) -> dict[str, Any]:
    return run(Gate(given, BarrierTracker, AT_LEAST_ONCE), given, blocked=False, in_flight=False)


def unaligned(given: dict[str, Any]) -> dict[str, Any]:
    return run(Gate(given, UnalignedBarrierHandler, UNALIGNED), given, blocked=False, in_flight=True)


def alternating(given: dict[str, Any]) -> dict[str, Any]:
    options = CheckpointOptions(AlignmentKind.ALIGNED, given.get("aligned_timeout_ms"))
    return run(Gate(given, UnalignedBarrierHandler, options), given, blocked=True, in_flight=True)


ADAPTERS = {
    "barrier.aligned": aligned,
    "barrier.tracker": tracker,
    "barrier.unaligned": unaligned,
    "barrier.alternating": alternating,
}
