"""Timers of keys, in event time and processing time (Flink: InternalTimerService).

The rules this module lives by:

- A timer is (key, timestamp, namespace), and exists at most once: registering it again changes nothing,
  deleting an absent one does nothing.
- Timers are in a table of the keyed backend, so every snapshot holds them by key group, and a restore
  redistributes them like keyed state.
- A heap in memory orders them by timestamp. A restore rebuilds it from the table; deleted timers stay in the
  heap until they reach its top.
- Timers fire in ascending order of timestamp over all keys; timers of equal timestamp fire in the order of
  registration. (A restore does not keep that order; Flink promises none.)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.tables import ValueTable
from onceproof.engine.types import TypeInformation, Types

EVENT_TIMERS: Final = "_timer_state/event_"
PROCESSING_TIMERS: Final = "_timer_state/processing_"
"""The prefixes of Flink's timer states; the name of the timer service follows."""

TOLERATED_DELETED_TIMERS: Final = 1024
"""A heap may hold as many deleted timers as living ones, plus this number."""


class FiredTimers:
    """How many timers of a queue have fired: before the end of the input, and because of it.

    Timers for the end of the input itself, MAX_WATERMARK, are not counted. ``registered`` counts those that
    came into the queue, restored ones included.
    """

    __slots__ = ("at_end", "before_end", "registered")

    def __init__(self) -> None:
        self.registered = 0
        self.before_end = 0
        self.at_end = 0


class TimerQueue:
    """The timers of one operator in one time domain (Flink: InternalPriorityQueue).

    The parameter ``timer`` is a timer without its key: the timestamp, or (timestamp, namespace).
    """

    __slots__ = ("_count", "_has_namespaces", "_heap", "_table", "fired")

    def __init__(self, table: ValueTable, has_namespaces: bool) -> None:
        self._table = table
        self._has_namespaces = has_namespaces
        self._heap: list[tuple[int, int, Any]] = []
        self.fired = FiredTimers()
        self._count = 0
        for key, timer in table:
            self._push((key, timer), timer)
        self._count = len(self._heap)

    def __len__(self) -> int:
        return self._count

    def stored(self) -> list[tuple[Any, Any]]:
        """Return (key, timer) of all timers in the state, whether or not the heap knows them."""
        return list(self._table)

    def register(self, key: Any, timer: Any) -> None:
        """Add a timer if it is not there."""
        entry = (key, timer)
        table = self._table
        if entry in table:
            return
        table[entry] = True
        self._count += 1
        self._push(entry, timer)

    def delete(self, key: Any, timer: Any) -> None:
        """Remove a timer, if it is there."""
        if self._table.pop((key, timer), None) is None:
            return
        self._count -= 1
        if len(self._heap) > 2 * self._count + TOLERATED_DELETED_TIMERS:
            self._forget_deleted()

    def next_timestamp(self) -> int | None:
        """Return the least timestamp in milliseconds, or None if there is no timer."""
        heap, table = self._heap, self._table
        while heap:
            timestamp, _, entry = heap[0]
            if entry in table:
                return timestamp
            heapq.heappop(heap)
        return None

    def pop_due(self, limit: int) -> tuple[Any, Any] | None:
        """Remove the first timer at or before ``limit`` and return (key, timer); None if there is none."""
        heap, table = self._heap, self._table
        while heap and heap[0][0] <= limit:
            timestamp, _, entry = heapq.heappop(heap)
            if table.pop(entry, None) is not None:
                self._count -= 1
                if limit < MAX_WATERMARK:
                    self.fired.before_end += 1
                elif timestamp < MAX_WATERMARK:
                    self.fired.at_end += 1
                return entry  # type: ignore[no-any-return]
        return None

    def _push(self, entry: Any, timer: Any) -> None:
        fired = self.fired
        fired.registered += 1
        timestamp = timer[0] if self._has_namespaces else timer
        heapq.heappush(self._heap, (timestamp, fired.registered, entry))

    def _forget_deleted(self) -> None:
        table = self._table
        living: dict[Any, tuple[int, int, Any]] = {}
        for item in sorted(self._heap):
            if item[2] in table:
                living.setdefault(item[2], item)
        self._heap = list(living.values())


class TimersOfOneKey(TimerQueue):
    """The timers of a single key, which fire at its end; while they do, none can be added.

    Flink: BatchExecutionInternalTimeService. There is no time to wait for.
    """

    __slots__ = ("is_closed",)

    def __init__(self, table: ValueTable, has_namespaces: bool) -> None:
        super().__init__(table, has_namespaces)
        self.is_closed = False

    def register(self, key: Any, timer: Any) -> None:
        if not self.is_closed:
            super().register(key, timer)

    def next_timestamp(self) -> int | None:
        return None

    def pop_due(self, limit: int) -> tuple[Any, Any] | None:
        if limit < MAX_WATERMARK:
            return None
        due = super().pop_due(limit)
        # The end of a key is not that of the input.
        self.fired.at_end = 0
        return due


class Timers:
    """The timers of one operator in one subtask, in both time domains.

    ``watermark`` is the operator's current watermark. ``wake_at(timestamp_ms)`` asks the driver to call the
    operator at a processing time.
    """

    __slots__ = ("_wake_at", "event", "processing", "watermark")

    def __init__(
        self,
        backend: KeyedStateBackend,
        name: str,
        wake_at: Callable[[int], None],
        namespace_type: TypeInformation | None = None,
    ) -> None:
        timestamp = Types.LONG()
        timer_type = timestamp if namespace_type is None else Types.TUPLE([timestamp, namespace_type])
        kind = TimersOfOneKey if backend.key_by_key else TimerQueue
        queues = []
        for prefix in (EVENT_TIMERS, PROCESSING_TIMERS):
            table = backend.table(ValueStateDescriptor(prefix + name, Types.BOOLEAN()), timer_type)
            queues.append(kind(table, namespace_type is not None))
        self.event, self.processing = queues
        self.watermark = MIN_WATERMARK
        self._wake_at = wake_at
        self.request_wakeup()

    def close(self, *, is_closed: bool) -> None:
        """Take no timers more in either queue, or take them again; only of the timers of a single key."""
        for queue in (self.event, self.processing):
            assert isinstance(queue, TimersOfOneKey)
            queue.is_closed = is_closed

    def register_processing(self, key: Any, timer: Any) -> None:
        """Add a timer in processing time, and ask the driver for a wake-up at the first due timer."""
        self.processing.register(key, timer)
        self.request_wakeup()

    def request_wakeup(self) -> None:
        """Ask the driver for a wake-up when the next timer in processing time is due."""
        due_ms = self.processing.next_timestamp()
        if due_ms is not None:
            self._wake_at(due_ms)
