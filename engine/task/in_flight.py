"""The records in flight that a task stores for one checkpoint (Flink: ChannelStateWriter).

A record was sent by one task and is read by another. For a checkpoint whose barrier overtakes it belongs to

- the sender, where the barrier overtook it in the queue: it was sent, and not read by then;
- the reader, where it read the record behind its own snapshot and ahead of the channel's barrier, or let an
  announced barrier overtake it, which the sender had queued behind it.

So each record in flight is stored exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable

from onceproof.engine.elements import Buffer, CheckpointBarrier, Element
from onceproof.engine.state.in_flight import ChannelId, detached
from onceproof.engine.task.outputs import Queue, ahead_of_all


class InFlightRecorder:
    """The records in flight of one task and one checkpoint; ``inputs`` are the names of its channels."""

    __slots__ = ("_expected", "_inputs", "_records", "checkpoint_id")

    def __init__(self, checkpoint_id: int, inputs: tuple[ChannelId, ...]) -> None:
        self.checkpoint_id = checkpoint_id
        self._inputs = inputs
        self._expected: set[int] = set()
        """The channels whose barrier is still to come."""
        self._records: dict[ChannelId, list[Buffer]] = {}

    def expect(self, channels: Iterable[int]) -> None:
        """Treat records read on these channels as in flight until their barrier comes."""
        self._expected.update(channels)

    def reading(self, channel: int, element: Element) -> None:
        """Note that the task is about to read ``element``."""
        if channel not in self._expected:
            return
        if type(element) is list:
            self._add(self._inputs[channel], [element])
        elif type(element) is CheckpointBarrier and element.checkpoint_id == self.checkpoint_id:
            self._expected.discard(channel)

    def overtake(self, channel: int, queue: Queue) -> None:
        """Let the barrier in ``queue`` overtake, if there is one; what is ahead of it is in flight."""
        overtaken: list[Element] = []
        barrier: CheckpointBarrier | None = None
        while queue and barrier is None:
            element = queue.popleft()
            if type(element) is CheckpointBarrier and element.checkpoint_id == self.checkpoint_id:
                barrier = element
            else:
                overtaken.append(element)
        queue.extendleft(reversed(overtaken))
        if barrier is not None:
            ahead_of_all(queue, barrier.overtaking())
        self._add(self._inputs[channel], buffers_of(overtaken))

    def sent(self, channel: ChannelId, buffers: list[Buffer]) -> None:
        """Record the buffers that the barrier overtook on an output."""
        self._add(channel, buffers)

    def records(self) -> dict[ChannelId, list[Buffer]]:
        """Return all records in flight, by channel."""
        return self._records

    def _add(self, channel: ChannelId, buffers: list[Buffer]) -> None:
        if buffers:
            self._records.setdefault(channel, []).extend([detached(buffer) for buffer in buffers])


def buffers_of(elements: Iterable[Element]) -> list[Buffer]:
    """Return the buffers among the elements of a channel."""
    return [element for element in elements if type(element) is list]
