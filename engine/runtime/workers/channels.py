"""Channels between tasks in two processes.

Rules:

- The sender's task fills a queue as it does in one process, and the receiver's task reads its own. The
  drivers move elements from the one to the other.
- The receiver has a window. The sender sends no more than the window has room for, and the receiver reports
  what its task has processed (Flink: credit-based flow control). So no channel fills the connection that it
  shares with others, and memory is bounded: a window at the receiver, a full queue at the sender.
- The window of a slow task is what it works off in a part of the buffer timeout (task_turns.py); a longer
  buffer is cut.
- Barriers take no room. A barrier that overtakes goes ahead of the records at the sender, whose task stores
  them; at the receiver it is announced ahead of the records there, and the receiver's task stores those.
- A barrier that may still turn into one that overtakes must stand in the receiver's queue, because only its
  task can promote it. So the sender sends all that is ahead of it, beyond the window.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.configuration.alignment import AlignmentKind
from onceproof.engine.elements import BarrierAnnouncement, CancelCheckpointMarker, CheckpointBarrier, Element
from onceproof.engine.runtime.task_turns import Pace, Schedule
from onceproof.engine.runtime.workers.link import CREDIT, ELEMENT, Link
from onceproof.engine.runtime.workers.subtasks import Subtasks
from onceproof.engine.task.outputs import Queue, ahead_of_all
from onceproof.engine.task.task_counters import TaskCounters
from onceproof.engine.types import exchange


class WorkerChannels:
    """Moves elements between the queues of the tasks and the connections to other workers."""

    def __init__(self, settings: CheckpointSettings, peers: Mapping[int, Link], schedule: Schedule) -> None:
        self._window = settings.buffer_records * settings.channel_buffers
        self._begins_slow = settings.buffer_timeout_ms == 0
        self._peers = peers
        self._schedule = schedule
        self._outgoing: dict[int, OutgoingChannel] = {}
        self._incoming: dict[int, IncomingChannel] = {}

    def connect(self, built: Subtasks) -> None:
        """Connect the channels of the tasks of an attempt, and arrange their turns."""
        schedule, tasks, window = self._schedule, built.tasks, self._window
        schedule.change()
        for leaving in built.leaving:
            channel = self._outgoing[leaving.number] = OutgoingChannel(
                leaving.number,
                leaving.queue,
                self._peers[leaving.worker],
                window,
                is_slow=self._begins_slow,
                counters=tasks[leaving.sender].counters,
            )
            schedule.read_elsewhere(leaving.queue, channel)
        schedule.round(tasks)
        for arriving in built.arriving:
            self._incoming[arriving.number] = IncomingChannel(
                arriving.number,
                arriving.queue,
                self._peers[arriving.worker],
                window,
                schedule.pace_of(arriving.reader),
                tasks[arriving.reader].counters,
            )

    def receive(self) -> bool:
        """Take what has arrived from other workers; return whether there was something."""
        progress = False
        for peer in self._peers.values():
            for kind, number, content in peer.receive():
                if kind == ELEMENT:
                    self._incoming[number].take(content)
                else:
                    self._outgoing[number].credit(content)
                progress = True
        return progress

    def transfer(self) -> None:
        """Write what the tasks have sent and what they have processed."""
        for outgoing in self._outgoing.values():
            if outgoing.queue:
                outgoing.transfer()
        for incoming in self._incoming.values():
            incoming.report()


_CREDIT: Final = struct.Struct("<QQ?")
REPORTED_SHARE: Final = 4
"""A fast receiver reports each time it has processed this part of the window."""


def weight_of(element: Element) -> int:
    """Return how much room an element takes: that of its records."""
    kind = type(element)
    if kind is list:
        return len(element)  # type: ignore[arg-type]
    return 0 if kind is CheckpointBarrier or kind is CancelCheckpointMarker else 1


class OutgoingChannel:
    """The sender's end. ``is_slow`` and ``backlog`` are those of the task that reads the channel."""

    __slots__ = (
        "_counters",
        "_link",
        "_number",
        "_processed",
        "_pushed_to",
        "_sent",
        "_window",
        "backlog",
        "is_slow",
        "queue",
    )

    def __init__(
        self, number: int, queue: Queue, link: Link, window: int, *, is_slow: bool, counters: TaskCounters
    ) -> None:
        """Connect a queue.

        Args:
            number: of the channel within the attempt.
            queue: what the sender's task fills.
            link: the connection to the receiver's process.
            window: how many records of a fast receiver may be under way.
            is_slow: whether the receiver begins as a slow one.
            counters: those of the sender's task.
        """
        self._counters = counters
        self._number = number
        self.queue = queue
        self._link = link
        self._window = window
        self._sent = 0
        self._processed = 0
        self._pushed_to: int | None = None
        """The checkpoint up to whose announced barrier everything is sent."""
        self.is_slow = is_slow
        self.backlog = 1

    def credit(self, content: bytes) -> None:
        """Take the receiver's report."""
        self._processed, self.backlog, self.is_slow = _CREDIT.unpack(content)

    def transfer(self) -> None:
        """Write what there is room for."""
        queue = self.queue
        while queue:
            head = queue.popleft()
            weight = weight_of(head)
            if type(head) is BarrierAnnouncement:
                self._pushed_to = head.barrier.checkpoint_id
                continue
            if weight and self._pushed_to is None:
                room = self._room()
                if room <= 0:
                    queue.appendleft(head)
                    return
                if weight > room and self.is_slow:
                    assert isinstance(head, list)
                    queue.appendleft(head[room:])
                    head, weight = head[:room], room
            elif type(head) is CheckpointBarrier and head.checkpoint_id == self._pushed_to:
                self._pushed_to = None
            self._sent += weight
            content = exchange.encode(head)
            self._counters.bytes_out += len(content)
            self._link.put(ELEMENT, self._number, content)

    def _room(self) -> int:
        most = min(self._window, self.backlog) if self.is_slow else self._window
        return most - (self._sent - self._processed)


class IncomingChannel:
    """The receiver's end; ``pace`` and ``counters`` are those of the task that reads ``queue``."""

    __slots__ = (
        "_counters",
        "_link",
        "_number",
        "_pace",
        "_queue",
        "_received",
        "_reported",
        "_was_slow",
        "_window",
    )

    def __init__(
        self, number: int, queue: Queue, link: Link, window: int, pace: Pace, counters: TaskCounters
    ) -> None:
        self._counters = counters
        self._number = number
        self._queue = queue
        self._link = link
        self._window = window
        self._pace = pace
        self._received = 0
        self._reported = 0
        self._was_slow = pace.is_slow

    def take(self, content: bytes) -> None:
        """Put an element that has arrived into the queue of the task."""
        element: Element = exchange.decode(content)
        self._counters.bytes_in += len(content)
        self._received += weight_of(element)
        queue = self._queue
        if type(element) is CheckpointBarrier and list in map(type, queue):
            options = element.options
            if options.is_timeoutable or options.alignment is AlignmentKind.UNALIGNED:
                ahead_of_all(queue, BarrierAnnouncement(element))
        queue.append(element)

    def report(self) -> None:
        """Write to the sender what the task has processed, if that is worth a frame."""
        pace = self._pace
        if self._reported == self._received and pace.is_slow is self._was_slow:
            return
        waiting = sum(map(weight_of, self._queue)) - self._announced()
        processed = self._received - waiting
        is_worth_it = processed - self._reported >= self._window // REPORTED_SHARE
        is_due = processed > self._reported and (pace.is_slow or not waiting)
        if is_worth_it or is_due or pace.is_slow is not self._was_slow:
            self._reported, self._was_slow = processed, pace.is_slow
            self._link.put(CREDIT, self._number, _CREDIT.pack(processed, pace.backlog, pace.is_slow))

    def _announced(self) -> int:
        """Return the weight of the announcements, which were never sent."""
        return sum([type(element) is BarrierAnnouncement for element in self._queue])
