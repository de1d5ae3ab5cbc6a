"""A task of a job in BATCH mode whose inputs end before its operators see them: a blocking stage.

Rules:

- The task collects its inputs, except those that its first operator takes as they come: broadcast ones. When
  all inputs have ended, it releases what it has collected in portions, as a source is polled.
- Records of a keyed input come key by key, in the order of their timestamps. Behind the last record of a key
  its timers fire, and its state is forgotten. So there is no late data, and no event time in between.
- Of two keyed inputs with records of one key and time, the one that was not read last is next, as in Flink.
- There is no snapshot of what is collected: until all is released, the task declines checkpoints, and an
  attempt that dies begins again at its inputs. So each checkpoint that completes comes behind the ends of all
  stages, and commits the output of the job as a whole. The job master refuses savepoints.
- A task that restores keyed state of a checkpoint in the middle of its input, which no version has taken
  since, collects nothing, and goes on as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from onceproof.engine.elements import (
    Buffer,
    CancelCheckpointMarker,
    CheckpointBarrier,
    Watermark,
    WatermarkStatus,
)
from onceproof.engine.graph import JobVertex, PartitionerKind
from onceproof.engine.messages import DECLINED_IN_BATCH, TaskId
from onceproof.engine.operators.base import IN_TURN, InputOrder, Operator
from onceproof.engine.protocol_points import ELEMENT
from onceproof.engine.state.external_sort import ExternalSort, Sortable
from onceproof.engine.task.events import Cancel, Deliver, Restore, TaskEffect, TaskEvent
from onceproof.engine.task.task import NOTHING, RUNNING, TaskSettings
from onceproof.engine.task.timed_task import TimedTask
from onceproof.engine.types import Types
from onceproof.engine.types.wrapped import key_codec

_TIME: Final = (Watermark, WatermarkStatus)
_OF_CHECKPOINTS: Final = (CheckpointBarrier, CancelCheckpointMarker)


def input_order_of(vertex: JobVertex, head: Operator) -> InputOrder | None:
    """Return in which order a vertex takes its inputs in BATCH mode; None: as they come.

    Behind ``key_by``, an operator without keyed state gets its records in the order of a keyed one, too.
    """
    order = head.input_order()
    if order is not None or not vertex.inputs or head.may_hold_input:
        return order
    partitioners = [edge.partitioner for edge in vertex.inputs]
    if any(each.kind is not PartitionerKind.HASH for each in partitioners):
        return None
    keys = {edge.input_number: edge.partitioner.key_selector for edge in vertex.inputs}
    return InputOrder(tuple([keys[number] for number in sorted(keys)]), partitioners[0].key_type)


class SortedTask(TimedTask):
    """A blocking stage (Flink: SortingDataInput, MultiInputSortingDataInput)."""

    __slots__ = ("_arrived", "_encode_key", "_ends_keys", "_keys", "_next", "_number", "_released", "_sorts")

    def __init__(
        self,
        task_id: TaskId,
        vertex: JobVertex,
        settings: TaskSettings,
        queue_input: Sequence[int],
        operators: Sequence[Operator],
        order: InputOrder,
    ) -> None:
        super().__init__(task_id, vertex, settings, queue_input, operators)
        assert vertex.sort_memory_bytes is not None
        self._keys = order.keys
        key_type = order.key_type or Types.DYNAMIC()
        self._encode_key, decode_key = key_codec(key_type)
        collected = [number for number, key in enumerate(order.keys) if key is not None]
        share = vertex.sort_memory_bytes // len(collected)
        key_of = None if IN_TURN in order.keys else decode_key
        self._sorts = {
            number: ExternalSort(share, key_of, allow_pickle=settings.allow_pickle) for number in collected
        }
        """By input that is collected, what it has brought; empty once all is released."""
        self._released: dict[int, Iterator[Sortable]] = {}
        """By input, what is left of it behind its record in ``_next``; empty before the release."""
        self._next: dict[int, Sortable] = {}
        self._ends_keys = False
        """Whether the first operator is called at the end of each key."""
        self._number = len(order.keys)
        """The input of the last record that was released."""
        self._arrived = 0
        """How many records have come that have no key to sort them by."""

    @property
    def is_polled(self) -> bool:
        """Return whether the task releases what it has collected."""
        return bool(self.unread)

    @property
    def may_hold_input(self) -> bool:
        return True

    def takes(self, channel: int) -> bool:
        return not self.unread and super().takes(channel)

    def takes_key_by_key(self, restore: Restore) -> bool:
        """Return whether the first operator gets its records key by key, as the task begins."""
        head = self._tail_first[-1][1]
        restored = restore.operators.get(head)
        if restored is not None and not restored.has_finished and (restored.keyed or restored.native):
            self._sorts = {}
        order = self.operators[0].input_order()
        self._ends_keys = bool(self._sorts) and order is not None and IN_TURN not in order.keys
        return self._ends_keys

    # Collecting.

    def handle(self, event: TaskEvent, now: int) -> Sequence[TaskEffect]:
        if type(event) is Deliver and self._sorts:
            channel = event.channel
            element, number = self.queues[channel][0], self.queue_input[channel]
            if type(element) is list and number in self._sorts:
                self.queues[channel].popleft()
                self._context.now = now
                self.collect(element, number)
                return NOTHING
        return TimedTask.handle(self, event, now)

    @property
    def collects(self) -> bool:
        """Return whether the task has records, or waits for some, that no snapshot would hold."""
        return bool(self._sorts)

    def collect(self, records: Buffer, number: int) -> None:
        """Take a buffer of an input that is collected."""
        if self.state is not RUNNING:
            return
        self.buffers_taken += 1
        self.counters.records_in += len(records)
        if self._watches_elements:
            self._probe(ELEMENT, self.name, 0)
        select, encode = self._keys[number], self._encode_key
        assert select is not None
        if select is IN_TURN:
            first = self._arrived
            self._arrived += len(records)
            keys = [place.to_bytes(8, "big") for place in range(first, self._arrived)]
        else:
            keys = [encode(select(value)) for value, _ in records]
        self._sorts[number].add(list(zip(keys, records, strict=True)))

    def _control(self, channel: int, element: object) -> Sequence[TaskEffect]:
        if self._sorts and type(element) in _TIME:
            # In the middle of its input nothing is known of event time.
            return NOTHING
        return super()._control(channel, element)

    def take_checkpoint(self, barrier: CheckpointBarrier, effects: list[TaskEffect]) -> None:
        """Decline, as long as the task has records that no snapshot would hold."""
        if self.collects:
            self._decline(barrier.checkpoint_id, DECLINED_IN_BATCH, effects)
        else:
            super().take_checkpoint(barrier, effects)

    # Releasing.

    def end_data(self) -> Sequence[TaskEffect]:
        """Release what was collected before the data ends."""
        if not self._sorts:
            return super().end_data()
        self._released = {number: each.in_order() for number, each in self._sorts.items()}
        for number in self._sorts:
            self._advance(number)
        self.unread.append(None)
        return NOTHING

    def _advance(self, number: int) -> None:
        following = next(self._released[number], None)
        if following is None:
            self._next.pop(number, None)
        else:
            self._next[number] = following

    def _poll(self) -> Sequence[TaskEffect]:
        """Release a portion, behind the barriers that have come meanwhile; end the data behind the last."""
        effects = self._answer_barriers()
        self.buffers_taken += 1
        if self._watches_elements:
            self._probe(ELEMENT, self.name, 0)
        left = self.read_limit
        while left > 0 and self._next:
            left -= self._release(left)
        if self._next:
            return effects
        self._close()
        return [*effects, *super().end_data()]

    def _answer_barriers(self) -> list[TaskEffect]:
        effects: list[TaskEffect] = []
        for channel, queue in enumerate(self.queues):
            while queue and not self.barriers.blocked[channel] and type(queue[0]) in _OF_CHECKPOINTS:
                effects += self._control(channel, queue.popleft())
        return effects

    def _release(self, limit: int) -> int:
        """Process records of one key and input, at most ``limit``; return how many there were."""
        number = min(self._next, key=lambda each: (*self._next[each][:2], each == self._number))
        self._number = number
        key, _, record = self._next[number]
        others = [following[:2] for other, following in self._next.items() if other != number]
        end = min(others, default=None)
        records: Buffer = []
        while len(records) < limit:
            records.append(record)
            self._advance(number)
            following = self._next.get(number)
            if following is None or following[0] != key or (end is not None and end <= following[:2]):
                break
            record = following[2]
        self._emit(records, 0, number)
        if self._ends_keys and all(each[0] != key for each in self._next.values()):
            self._emit(self._chain[0].end_key(), 1)
        return len(records)

    def _close(self) -> None:
        for each in self._sorts.values():
            each.close()
        self._sorts, self._released, self._next = {}, {}, {}
        self.unread.clear()

    def _cancel(self, event: Cancel) -> Sequence[TaskEffect]:
        self._close()
        return super()._cancel(event)
