"""The turns of the tasks in one process: which task has one, how much it takes, and how long it took.

Rules:

- A task has a turn where all of its outputs have room. A slow task has room for nothing while records wait
  for it, a fast one until a queue holds its full number of buffers. Barriers that overtake need no room.
- In a turn a source reads once, and another task processes one element of each channel. The turn ends early
  when events have waited long; the next one goes on with the next channel.
- A task that sends to slow ones takes no more records than may wait there.
- A source with nothing to read has no turn until it is woken, or until it wants to be asked again.
- The turns are arranged anew when the tasks change; their paces stay while the job has the same tasks.
- The schedule says of each task how long it was idle, backpressured and busy; together that is all its time
  (Flink: TaskIOMetricGroup). A turn is busy; the time from there to the next look at the task belongs to
  what the turn has left: nothing to do, no room, or more work, which waits for the thread.
- One thread runs all tasks in turns. A turn of a slow function must end soon, because timers, barriers,
  watermarks and requests wait for it. A turn of a fast function must be long, because each turn costs.
- The time of a turn is measured after it, never inside: the loops over records stay as they are. So a task
  begins with one record, and takes at most twice as many in each turn as in the one before.
- Records that wait in front of a slow task delay the barrier behind them. So no more are sent to it than it
  works off in a part of the buffer timeout (Flink: buffer debloating). A fast task has full buffers.
- A function that turns slow has one turn of the old size before this notices, and works off what waits.
- With a buffer timeout of 0 each record has a turn of its own, and at most one waits in a channel. Without
  a buffer timeout (-1) nothing is measured, and every turn takes a whole buffer.

Nothing here decides about results: any number of records in a turn gives the same rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from onceproof.engine.configuration.settings import CheckpointSettings
from onceproof.engine.elements import Element, Record
from onceproof.engine.messages import TaskId
from onceproof.engine.runtime.clocks import Clocks
from onceproof.engine.task.events import POLL, WOKEN_UP, Deliver, TaskEvent
from onceproof.engine.task.outputs import Queue, is_full, next_overtakes
from onceproof.engine.task.task import Task, TaskState
from onceproof.engine.task.task_counters import BACKPRESSURED, BUSY, IDLE
from onceproof.engine.task.unaligned_task import UnalignedTask

TURN_SHARE: Final = 0.05
"""A turn may take this part of the buffer timeout, ..."""
BACKLOG_SHARE: Final = 0.4
"""... and what waits for a slow task in all of its channels this part."""
SLOW_RECORDS: Final = 32
"""A task is slow if a turn has not even time for so many records."""
FEW_RECORDS: Final = 64
"""Buffers smaller than this are joined: behind a hash edge each turn of the sender leaves a small one."""


class Pace:
    """The pace of one task."""

    __slots__ = ("_backlog_ns", "_channels", "_most", "_record_ns", "_turn_ns", "is_slow", "limit")

    def __init__(self, most_records: int, channels: int, timeout_ms: int) -> None:
        """Begin with one record a turn.

        Args:
            most_records: how many records a turn takes at most.
            channels: how many input channels the task has.
            timeout_ms: the buffer timeout in milliseconds; 0: each record by itself; -1: none.
        """
        self._most = most_records
        self._channels = max(1, channels)
        self._turn_ns = int(timeout_ms * 1_000_000 * TURN_SHARE)
        self._backlog_ns = int(timeout_ms * 1_000_000 * BACKLOG_SHARE)
        self._record_ns = 0
        """What a record has cost, smoothed over some turns."""
        self.limit = most_records if timeout_ms < 0 else 1
        """How many records the next turn takes at most."""
        self.is_slow = timeout_ms == 0

    @property
    def backlog(self) -> int:
        """Return how many records may wait in each channel of the slow task, at least 1."""
        return max(1, self._backlog_ns // max(1, self._record_ns) // self._channels)

    def took(self, records: int, elapsed_ns: int) -> None:
        """Adapt to a turn of ``records`` records that took ``elapsed_ns``; of none: to nothing."""
        turn_ns = self._turn_ns
        if turn_ns <= 0 or records <= 0:
            return
        sample = elapsed_ns // records
        smooth = self._record_ns = (3 * self._record_ns + sample) >> 2
        fitting = turn_ns // max(1, sample, smooth)
        self.is_slow = fitting < SLOW_RECORDS
        self.limit = max(1, min(self._most, 2 * self.limit, fitting))


def head_of(queue: deque[Element], limit: int) -> int:
    """Let the first element of ``queue`` be a buffer of at most ``limit`` records; return their number.

    A longer buffer is cut, and the rest stays behind it. Short ones that follow each other are joined. No
    buffer is changed, because a snapshot may hold it. Returns 0 if the element is no buffer.
    """
    head = queue[0]
    if type(head) is not list:
        return 0
    count = len(head)
    if count > limit:
        queue[0] = head[limit:]
        queue.appendleft(head[:limit])
        return limit
    if count < FEW_RECORDS <= limit and len(queue) > 1 and type(queue[1]) is list:
        return _join(queue, limit)
    return count


def _join(queue: deque[Element], limit: int) -> int:
    joined: list[Record] = []
    while queue:
        head = queue[0]
        if type(head) is not list or len(joined) + len(head) > limit:
            break
        joined += head
        queue.popleft()
    queue.appendleft(joined)
    return len(joined)


EVENTS_SHARE: Final = 0.1
"""Events have waited long when turns have taken this part of the buffer timeout since."""
NO_READER: Final = Pace(1, 1, -1)
"""The pace of a task that has failed: its queues fill up until the attempt is cancelled."""


class Reader(Protocol):
    """What a sender must know of the task that reads a queue: see Pace."""

    @property
    def is_slow(self) -> bool:
        """Return whether the task has room for nothing while records wait for it."""
        ...

    @property
    def backlog(self) -> int:
        """Return how many records may wait in each channel of the slow task."""
        ...


class Turn:
    """A task in the schedule: its pace, and its output queues with the paces of the tasks that read them."""

    __slots__ = ("first_channel", "may_overtake", "outputs", "pace", "task")

    def __init__(self, task: Task, pace: Pace, outputs: Sequence[tuple[Queue, Reader]]) -> None:
        self.task = task
        self.pace = pace
        self.outputs = outputs
        self.first_channel = 0
        """Where the next turn begins."""
        self.may_overtake = isinstance(task, UnalignedTask)
        """Whether barriers may overtake in its inputs."""


class Schedule:
    """Turns of the tasks of one attempt after another; ``handle`` passes an event to a task."""

    def __init__(
        self, settings: CheckpointSettings, clocks: Clocks, handle: Callable[[Task, TaskEvent], None]
    ) -> None:
        self._handle = handle
        self._clock_ns = clocks.steady_ns
        self._capacity = settings.channel_buffers
        self._most_records = settings.buffer_records
        self._timeout_ms = settings.buffer_timeout_ms
        self._events_ns = int(max(0, self._timeout_ms) * 1_000_000 * EVENTS_SHARE)
        self._since_events_ns = 0
        self.events_are_due = False
        """Whether events have waited long, because the turns since they were handled took long."""
        self._paces: dict[TaskId, Pace] = {}
        self._slow_tasks = 0
        self._elsewhere: dict[int, Reader] = {}
        """The readers in other processes, by the id of the queue."""
        self._turns: list[Turn] | None = None
        self._waiting: dict[TaskId, int] = {}
        """By source task with nothing to read: when it wants to be asked again, by the steady clock."""

    @property
    def has_changed(self) -> bool:
        """Return whether the turns must be arranged anew."""
        return self._turns is None

    def change(self) -> None:
        """Note that the tasks have changed: the current round ends."""
        self._turns = None
        self._waiting.clear()

    def read_elsewhere(self, queue: Queue, reader: Reader) -> None:
        """Note that a task in another process reads ``queue``, which lives as long as this object."""
        self._elsewhere[id(queue)] = reader
        self._turns = None

    def pace_of(self, task: TaskId) -> Pace:
        """Return the pace of a task that has had its turns arranged."""
        return self._paces[task]

    def round(self, tasks: Mapping[TaskId, Task]) -> Sequence[Turn]:
        """Return the turns of a round of these tasks."""
        if self._turns is None:
            self._turns = self._arranged(tasks)
        return self._turns

    def _arranged(self, tasks: Mapping[TaskId, Task]) -> list[Turn]:
        paces = self._paces
        if paces.keys() != tasks.keys():
            paces = self._paces = {
                task_id: Pace(self._most_records, len(task.queues), self._timeout_of(task))
                for task_id, task in tasks.items()
            }
        readers: dict[int, Reader] = dict(self._elsewhere)
        for task_id, task in tasks.items():
            readers.update({id(queue): paces[task_id] for queue in task.queues})
        self._slow_tasks = sum(pace.is_slow for pace in paces.values())
        turns = []
        for task_id, task in tasks.items():
            outputs = [(queue, readers.get(id(queue), NO_READER)) for queue in task.output_queues]
            turns.append(Turn(task, paces[task_id], outputs))
        return turns

    def _timeout_of(self, task: Task) -> int:
        own_ms = task.vertex.buffer_timeout_ms
        return self._timeout_ms if own_ms is None else own_ms

    def take(self, turn: Turn, now: int) -> bool:
        """Let a task have its turn at ``now`` (steady clock); return whether it had work and room."""
        capacity = self._capacity
        task = turn.task
        counters = task.counters
        if counters.seen_ms != now:
            counters.time_passes(now)
        for queue, receiver in turn.outputs:
            if receiver.is_slow:
                if list in map(type, queue):
                    return self._take_overtaking(turn)
            elif len(queue) >= capacity and is_full(queue, capacity):
                return self._take_overtaking(turn)
        worked_ns = counters.turn_ns
        if task.is_polled:
            had_work = has_more = task.state is TaskState.RUNNING and self._poll(turn, now)
        else:
            had_work = task.state is not TaskState.CREATED and self._deliver(turn)
            has_more = had_work and any(task.queues)
        if has_more:
            counters.standing = BUSY
        else:
            counters.standing = IDLE
            counters.last_turn_ns += counters.turn_ns - worked_ns
        return had_work

    def _take_overtaking(self, turn: Turn) -> bool:
        """Let a task without room take the barriers that overtake; return whether there was one."""
        task = turn.task
        task.counters.standing = BACKPRESSURED
        progress = False
        if turn.may_overtake and task.state is not TaskState.CREATED:
            blocked = task.barriers.blocked
            for channel, queue in enumerate(task.queues):
                # A source has none.
                if queue and not blocked[channel] and next_overtakes(queue) and task.takes(channel):
                    self._handle(task, _delivery(channel))
                    progress = True
                    if self._turns is None:
                        break
        return progress

    def _poll(self, turn: Turn, now: int) -> bool:
        task = turn.task
        if self._waiting:
            if self._waiting.get(task.id, 0) > now:
                return False
            self.wake(task.id)
        task.read_limit = self._limit(turn)
        before = task.records_read
        began_ns = self._clock_ns()
        self._handle(task, POLL)
        self._took(turn, task.records_read - before, began_ns)
        retry_ms = task.retry_ms
        if retry_ms is None:
            return True
        self._waiting[task.id] = now + retry_ms
        return False

    def _deliver(self, turn: Turn) -> bool:
        task = turn.task
        queues = task.queues
        blocked = task.barriers.blocked
        progress = False
        may_hold_input = task.may_hold_input
        first, turn.first_channel = turn.first_channel, 0
        for channel in _from(first, len(queues)):
            queue = queues[channel]
            if queue and not blocked[channel] and not (may_hold_input and not task.takes(channel)):
                records = head_of(queue, self._limit(turn))
                began_ns = self._clock_ns()
                self._handle(task, _delivery(channel))
                self._took(turn, records, began_ns)
                progress = True
                if self._turns is None:
                    # The task has failed.
                    break
                if self.events_are_due:
                    turn.first_channel = (channel + 1) % len(queues)
                    break
        return progress

    def _limit(self, turn: Turn) -> int:
        """Return how many records the turn takes at most."""
        limit = turn.pace.limit
        if self._slow_tasks or self._elsewhere:
            for _, receiver in turn.outputs:
                if receiver.is_slow:
                    limit = min(limit, receiver.backlog)
        return limit

    def _took(self, turn: Turn, records: int, began_ns: int) -> None:
        elapsed_ns = self._clock_ns() - began_ns
        turn.task.counters.turn_ns += elapsed_ns
        pace = turn.pace
        was_slow = pace.is_slow
        pace.took(records, elapsed_ns)
        self._slow_tasks += pace.is_slow - was_slow
        self._since_events_ns += elapsed_ns
        if self._since_events_ns > self._events_ns:
            self.events_are_due = self._timeout_ms >= 0

    def events_handled(self) -> None:
        """Begin to measure anew how long events wait."""
        self._since_events_ns = 0
        self.events_are_due = False

    def wake(self, task: TaskId) -> None:
        """Let a source be polled in the next round."""
        self._waiting.pop(task, None)

    def wake_up(self, task: Task | None) -> None:
        """Wake a task that has asked for it: a source is polled, the operators of another one are called."""
        if task is None:
            return
        if task.is_source:
            self.wake(task.id)
        else:
            self._handle(task, WOKEN_UP)

    def next_poll_ms(self) -> Iterable[int]:
        """Return when waiting sources want to be asked again."""
        return self._waiting.values()


def _from(first: int, count: int) -> Iterable[int]:
    return range(count) if first == 0 else (*range(first, count), *range(first))


_DELIVERIES: Final = tuple(Deliver(channel) for channel in range(256))


def _delivery(channel: int) -> Deliver:
    return _DELIVERIES[channel] if channel < len(_DELIVERIES) else Deliver(channel)
