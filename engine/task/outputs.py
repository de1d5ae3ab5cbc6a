"""Where the records of a task go: one output an edge, one queue a channel.

Sending appends to the receiver's queue at once; a queue over its capacity stops the sender's task before its
next buffer, so an append never fails. Partitioning is per record, batching per channel and buffer. The cache
from key to queue saves murmur for keys already seen; it is dropped when it outgrows CACHED_KEYS.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onceproof.engine.configuration.alignment import AlignmentKind
from onceproof.engine.elements import (
    BarrierAnnouncement,
    Buffer,
    CancelCheckpointMarker,
    CheckpointBarrier,
    Element,
    EndOfData,
    Record,
)
from onceproof.engine.graph import JobEdge, JobVertex, PartitionerKind
from onceproof.engine.java_hashes import InvalidKey
from onceproof.engine.key_groups import key_group_of, operator_index
from onceproof.engine.key_identity import Distinct
from onceproof.engine.operators.base import Emit
from onceproof.engine.owned import own_records
from onceproof.engine.task.task_counters import TaskCounters
from onceproof.engine.types.scalars import key_rule_of

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation

Queue: TypeAlias = deque[Element]

CACHED_KEYS = 500_000
DATA: Final = frozenset((list, EndOfData))
"""Kinds of elements that belong before an aligned barrier, if they were sent before it."""
_TAKE_NO_ROOM: Final = frozenset((CheckpointBarrier, BarrierAnnouncement, CancelCheckpointMarker))
_HASH: Final = PartitionerKind.HASH


class Output:
    """One edge to all subtasks of a downstream vertex, or to the one that a forward edge leads to."""

    __slots__ = ("queues",)

    def __init__(self, queues: Sequence[Queue]) -> None:
        self.queues = list(queues)

    def emit(self, records: list[Record]) -> None:
        """Append ``records`` to the queues they belong to."""
        raise NotImplementedError

    def broadcast(self, element: Element) -> None:
        """Append a control element to every queue."""
        for queue in self.queues:
            queue.append(element)

    def overtake(self, barrier: CheckpointBarrier) -> list[list[Buffer]]:
        """Put a barrier ahead of all records; return the buffers that it overtook, by queue."""
        overtaken: list[list[Buffer]] = []
        for queue in self.queues:
            overtaken.append([element for element in queue if type(element) is list])
            ahead_of_all(queue, barrier)
        return overtaken

    def send_announced(self, barrier: CheckpointBarrier) -> None:
        """Append a barrier to every queue; where records are ahead of it, an announcement goes first."""
        for queue in self.queues:
            if list in map(type, queue):
                ahead_of_all(queue, BarrierAnnouncement(barrier))
            queue.append(barrier)


def is_full(queue: Queue, capacity: int) -> bool:
    """Return whether a queue of ``capacity`` elements or more has no room for records.

    Barriers take no room: with several checkpoints at a time they could leave none, and the job would take
    checkpoints for ever and read nothing. Asked only of a queue that is long enough.
    """
    return len(queue) - sum(map(_TAKE_NO_ROOM.__contains__, map(type, queue))) >= capacity


def next_overtakes(queue: Queue) -> bool:
    """Return whether a barrier that overtakes, or the announcement of one, is next in a queue.

    A task takes it although its outputs have no room, as the priority events of Flink's mailbox. Otherwise a
    barrier that overtakes would wait for the very records that it is to overtake, and a task behind a channel
    on which none overtakes could wait for it for ever.
    """
    head = queue[0]
    if type(head) is CheckpointBarrier:
        return head.options.alignment is AlignmentKind.UNALIGNED
    return type(head) is BarrierAnnouncement


def ahead_of_all(queue: Queue, element: Element) -> None:
    """Insert ``element`` ahead of all records, behind what is ahead of them already."""
    place = 0
    for queued in queue:
        kind = type(queued)
        if kind is not BarrierAnnouncement and kind is not CheckpointBarrier:
            break
        place += 1
    queue.insert(place, element)


def behind_data(queue: Queue, barrier: CheckpointBarrier) -> None:
    """Insert ``barrier`` behind the last records and the end of the data, ahead of the channel's own end."""
    place = len(queue)
    while place and type(queue[place - 1]) not in DATA:
        place -= 1
    queue.insert(place, barrier)


class SingleOutput(Output):
    """All records to one queue: forward and global edges, and every edge to a single subtask."""

    __slots__ = ("_append",)

    def __init__(self, queues: Sequence[Queue], target: int = 0) -> None:
        super().__init__(queues)
        self._append = self.queues[target].append

    def emit(self, records: list[Record]) -> None:
        """Append the buffer as it is."""
        self._append(records)


def identifier_for(target: str, key_type: TypeInformation | None) -> Callable[[Any], Any]:
    """Return what identifies keys on the way to the operators ``target``, which an error names."""
    _, identify = key_rule_of(key_type)

    def identity_of(key: Any) -> Any:
        try:
            return identify(key)
        except InvalidKey as error:
            raise InvalidKey(f"on the way to {target}: {error}") from None

    return identity_of


class HashOutput(Output):
    """Each record to the subtask that owns its key group.

    It looks at each key, and refuses what cannot be one. Where the operators behind the edge look at the
    class of each key, and the declared type admits one class, it checks only the keys that it has not met.
    """

    __slots__ = (
        "_identity_of",
        "_index_of_key",
        "_is_checked_behind",
        "_key_selector",
        "_key_type",
        "_kind",
        "_max_parallelism",
        "_plain_keys",
    )

    def __init__(
        self,
        queues: Sequence[Queue],
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
        max_parallelism: int,
        target: str = "",
        *,
        is_checked_behind: bool = False,
    ) -> None:
        self.queues = list(queues)
        self._key_selector = key_selector
        self._key_type = key_type
        self._plain_keys, _ = key_rule_of(key_type)
        self._kind = self._plain_keys[0] if self._plain_keys else None
        self._is_checked_behind = is_checked_behind and len(self._plain_keys) == 1
        self._identity_of = identifier_for(target, key_type)
        self._max_parallelism = max_parallelism
        self._index_of_key: dict[Any, int] = {}

    def share_index(self, index_of_key: dict[Any, int]) -> None:
        """Look keys up in a cache that outlives the task: that of its edge, at this parallelism."""
        self._index_of_key = index_of_key

    def emit(self, records: list[Record]) -> None:
        """Split the buffer by queue; the order within a queue is that of ``records``."""
        queues = self.queues
        if len(records) == 1:
            queues[self._index_of(self._key_selector(records[0][0]))].append(records)
            return
        buffers: list[list[Record]] = [[] for _ in queues]
        self._split(records, buffers)
        for queue, buffer in zip(queues, buffers, strict=True):
            if buffer:
                queue.append(buffer)

    def _split(self, records: list[Record], buffers: list[list[Record]]) -> None:
        """Append each record to the buffer that has the index of its key.

        To look at the class of a key costs a tenth of this loop, so there are two of them.
        """
        select_key, cache = self._key_selector, self._index_of_key
        if self._is_checked_behind:
            for record in records:
                key = select_key(record[0])
                try:
                    buffers[cache[key]].append(record)
                except (KeyError, TypeError):
                    buffers[self._locate(key)].append(record)
            return
        kind, identify = self._kind, self._identity_of
        for record in records:
            key = select_key(record[0])
            if key.__class__ is not kind:
                # The next keys are likely to be of the class of this one.
                kind = self._kind = key.__class__ if key.__class__ in self._plain_keys else kind
                key = identify(key)
            try:
                buffers[cache[key]].append(record)
            except KeyError:
                buffers[self._locate(key)].append(record)

    def _index_of(self, key: Any) -> int:
        if not self._is_checked_behind and key.__class__ is not self._kind:
            key = self._identity_of(key)
        try:
            return self._index_of_key[key]
        except (KeyError, TypeError):
            return self._locate(key)

    def _locate(self, key: Any) -> int:
        if key.__class__ is not Distinct:
            key = self._identity_of(key)
        cache = self._index_of_key
        if len(cache) >= CACHED_KEYS:
            cache.clear()
        max_parallelism = self._max_parallelism
        group = key_group_of(key, max_parallelism, self._key_type)
        index = cache[key] = operator_index(max_parallelism, len(self.queues), group)
        return index


class RebalanceOutput(Output):
    """Records in turn over the queues, starting with that of the sender's own index."""

    __slots__ = ("_next",)

    def __init__(self, queues: Sequence[Queue], start: int) -> None:
        super().__init__(queues)
        self._next = start % len(self.queues)

    def emit(self, records: list[Record]) -> None:
        """Append every n-th record to each of the n queues."""
        count = len(self.queues)
        start = self._next
        for offset in range(min(count, len(records))):
            self.queues[(start + offset) % count].append(records[offset::count])
        self._next = (start + len(records)) % count


class ShuffleOutput(Output):
    """Each record to a random queue (Flink: ShufflePartitioner).

    The seed is the sender's index, so a run of the simulation, and a Spark task that is repeated, draws the
    same again.
    """

    __slots__ = ("_unit",)

    def __init__(self, queues: Sequence[Queue], seed: int) -> None:
        super().__init__(queues)
        self._unit = Random(seed).random

    def emit(self, records: list[Record]) -> None:
        """Split the buffer by queue; the order within a queue is that of ``records``."""
        unit, queues = self._unit, self.queues
        count = len(queues)
        _append_split(queues, records, [int(unit() * count) for _ in records])


class CustomOutput(Output):
    """Each record to the queue that the user's partitioner chooses (Flink: CustomPartitionerWrapper)."""

    __slots__ = ("_choose", "_key_selector")

    def __init__(
        self, queues: Sequence[Queue], key_selector: Callable[[Any], Any], choose: Callable[[Any, int], int]
    ) -> None:
        super().__init__(queues)
        self._key_selector = key_selector
        self._choose = choose

    def emit(self, records: list[Record]) -> None:
        """Split the buffer by queue; the order within a queue is that of ``records``."""
        select_key, choose, queues = self._key_selector, self._choose, self.queues
        count = len(queues)
        _append_split(queues, records, [choose(select_key(record[0]), count) for record in records])


def _append_split(queues: Sequence[Queue], records: list[Record], chosen: Sequence[int]) -> None:
    """Append to each queue the records that it was chosen for."""
    buffers: list[list[Record]] = [[] for _ in queues]
    for record, index in zip(records, chosen, strict=True):
        buffers[index].append(record)
    for queue, buffer in zip(queues, buffers, strict=True):
        if buffer:
            queue.append(buffer)


class BroadcastOutput(Output):
    """Every record to every queue."""

    __slots__ = ()

    def emit(self, records: list[Record]) -> None:
        """Append a copy of the list to each queue, with values that no other queue has."""
        first, *others = self.queues
        for queue in others:
            queue.append(list(own_records(records)))
        first.append(list(records))


def each_with_its_own(emits: Sequence[Emit]) -> list[Emit]:
    """Return emits of which only the last one emits the values themselves: what reads one may change them."""

    def with_own_values(emit: Emit) -> Emit:
        return lambda records: emit(own_records(records))

    return [*map(with_own_values, emits[:-1]), *emits[-1:]]


def counted(emits: Sequence[Emit], counters: TaskCounters) -> list[Emit]:
    """Return what emits to a side output, and counts the records: once, however many outputs read it."""
    emits = each_with_its_own(emits)

    def emit_and_count(records: list[Record]) -> None:
        counters.records_out += len(records)
        for emit in emits:
            emit(records)

    return [emit_and_count]


def sort_outputs(
    edges: Sequence[JobEdge], outputs: Sequence[Output]
) -> tuple[list[Emit], dict[str, list[Emit]]]:
    """Return the emits of the main outputs, and those of the side outputs by tag."""
    main: list[Emit] = []
    side: dict[str, list[Emit]] = {}
    for edge, output in zip(edges, outputs, strict=True):
        tag = edge.side_output
        (main if tag is None else side.setdefault(tag, [])).append(output.emit)
    return main, side


def looks_at_keys(vertex: JobVertex) -> bool:
    """Return whether the first operator of a vertex refuses a record whose key cannot be one."""
    takes_keys: bool = getattr(vertex.operators[0].create, "takes_keys", False)
    return takes_keys


def build_output(
    edge: JobEdge,
    subtask: int,
    queues: Sequence[Queue],
    max_parallelism: int,
    target: JobVertex | None = None,
) -> Output:
    """Return the output of ``subtask`` over ``edge``.

    ``queues`` are the queues towards the edge's target subtasks in order (towards the one subtask, where the
    edge is a forward edge); ``max_parallelism`` is that of the vertex ``target``.
    """
    partitioner = edge.partitioner
    kind = partitioner.kind
    if kind is _HASH:
        key_type, takes_keys = partitioner.key_type, target is None or looks_at_keys(target)
        # Operators of one subtask that look at the class of a key refuse it, but for one beyond limits.
        if len(queues) > 1 or not takes_keys or (key_type is not None and key_type.limits_keys):
            assert partitioner.key_selector is not None
            return HashOutput(
                queues,
                partitioner.key_selector,
                key_type,
                max_parallelism,
                "" if target is None else target.name,
                is_checked_behind=takes_keys and target is not None,
            )
    if len(queues) == 1:
        return SingleOutput(queues)
    if kind is PartitionerKind.BROADCAST:
        return BroadcastOutput(queues)
    if kind is PartitionerKind.GLOBAL:
        return SingleOutput(queues)
    if kind is PartitionerKind.SHUFFLE:
        return ShuffleOutput(queues, subtask)
    if kind is PartitionerKind.CUSTOM:
        assert partitioner.key_selector is not None
        assert partitioner.choose is not None
        return CustomOutput(queues, partitioner.key_selector, partitioner.choose)
    return RebalanceOutput(queues, subtask)
