"""How records in flight are dealt out to the subtasks of the job that restores them.

They belong to an edge, and follow its rule (Flink: SubtaskStateMapper). Where nothing was rescaled every
channel gets its own back. Otherwise a receiver takes over whole channels of receivers of before; where
several take over the same ones, as along a keyed edge, each keeps the records whose key groups it owns.
Channels of senders that are gone go to those that there are, in turn. So records of one channel stay in one,
in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from onceproof.engine.checkpoint.metadata import CheckpointMetadata, StateHandle
from onceproof.engine.checkpoint.redistribution import RestoreRefused
from onceproof.engine.elements import Record
from onceproof.engine.graph import Partitioner, PartitionerKind
from onceproof.engine.key_groups import MAX_PARALLELISM_LIMIT, key_group_of, key_group_range, operator_index
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.engine.state.in_flight import INPUT, ChannelId, decode_channels
from onceproof.engine.types.scalars import key_rule_of

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation


class SubtaskMapper(Enum):
    """Which subtasks of before a subtask takes over."""

    RANGE = "RANGE"
    """Those whose key groups it has some of."""
    ROUND_ROBIN = "ROUND_ROBIN"
    """In turn."""
    FIRST = "FIRST"
    """The first all, the others none."""
    FULL = "FULL"
    """All, each of them."""
    ARBITRARY = "ARBITRARY"
    """Any, as long as each has one taker."""
    UNSUPPORTED = "UNSUPPORTED"
    """Nothing is ever in flight there."""

    @property
    def is_ambiguous(self) -> bool:
        """Whether several subtasks may take over the same one, and must filter."""
        return self in (SubtaskMapper.RANGE, SubtaskMapper.FULL)

    def old_subtasks(
        self,
        subtask: int,
        old_parallelism: int,
        new_parallelism: int,
        max_parallelism: int = MAX_PARALLELISM_LIMIT,
    ) -> range:
        """Give the subtasks of before that ``subtask`` of ``new_parallelism`` takes over.

        Raises RestoreRefused where there is no rule.
        """
        if self is SubtaskMapper.RANGE:
            low, high = key_group_range(max_parallelism, new_parallelism, subtask)
            first = operator_index(max_parallelism, old_parallelism, low)
            return range(first, operator_index(max_parallelism, old_parallelism, high) + 1)
        if self in (SubtaskMapper.ROUND_ROBIN, SubtaskMapper.ARBITRARY):
            return range(subtask, old_parallelism, new_parallelism)
        if self is SubtaskMapper.FIRST:
            return range(old_parallelism if subtask == 0 else 0)
        if self is SubtaskMapper.FULL:
            return range(old_parallelism)
        raise RestoreRefused("records in flight on such an edge cannot be rescaled: keep its parallelism")

    def shared_subtasks(self, old_parallelism: int, new_parallelism: int) -> list[int]:
        """Give the subtasks of before that more than one of now take over."""
        takers = [0] * old_parallelism
        for subtask in range(new_parallelism):
            for old in self.old_subtasks(subtask, old_parallelism, new_parallelism):
                takers[old] += 1
        return [old for old, count in enumerate(takers) if count > 1]


MAPPERS: Final = {
    PartitionerKind.HASH: SubtaskMapper.RANGE,
    PartitionerKind.REBALANCE: SubtaskMapper.ROUND_ROBIN,
    PartitionerKind.SHUFFLE: SubtaskMapper.ROUND_ROBIN,
    PartitionerKind.CUSTOM: SubtaskMapper.FULL,
    PartitionerKind.GLOBAL: SubtaskMapper.FIRST,
    PartitionerKind.FORWARD: SubtaskMapper.UNSUPPORTED,
    PartitionerKind.RESCALE: SubtaskMapper.UNSUPPORTED,
    PartitionerKind.BROADCAST: SubtaskMapper.UNSUPPORTED,
}
"""By the rule of an edge, which receivers a receiver takes over. Senders are always taken over in turn."""

OVERTAKEN_KINDS: Final = frozenset(
    kind for kind, mapper in MAPPERS.items() if mapper is not SubtaskMapper.UNSUPPORTED
)
"""The edges on which barriers may overtake."""


class Edge(Struct, frozen=True):
    """An edge of the job that restores; ``max_parallelism`` is the target's. See ChannelId."""

    source: str
    target: str
    number: int
    partitioner: Partitioner
    source_parallelism: int
    target_parallelism: int
    max_parallelism: int


class KeyFilter(Struct, frozen=True):
    """Which records of a keyed edge a subtask keeps: those of an inclusive range of key groups."""

    key_selector: Callable[[Any], Any]
    key_type: TypeInformation | None
    max_parallelism: int
    low: int
    high: int

    def keep(self, records: Iterable[Record]) -> list[Record]:
        """Give the records that are the subtask's."""
        select, kind, most = self.key_selector, self.key_type, self.max_parallelism
        _, identify = key_rule_of(kind)
        return [
            record
            for record in records
            if self.low <= key_group_of(identify(select(record[0])), most, kind) <= self.high
        ]


class ChoiceFilter(Struct, frozen=True):
    """Which records of an edge with a custom partitioner a subtask keeps: those that it chooses it for."""

    key_selector: Callable[[Any], Any]
    choose: Callable[[Any, int], int]
    parallelism: int
    subtask: int

    def keep(self, records: Iterable[Record]) -> list[Record]:
        """Give the records that are the subtask's."""
        select, choose, parallelism = self.key_selector, self.choose, self.parallelism
        return [record for record in records if choose(select(record[0]), parallelism) == self.subtask]


class InFlightShare(Struct, frozen=True):
    """What a subtask takes of one channel of before, into its channel from ``sender``."""

    sender: int
    handle: StateHandle
    channel: ChannelId
    filter: KeyFilter | ChoiceFilter | None


def redistribute_in_flight(
    metadata: CheckpointMetadata, edges: Sequence[Edge]
) -> dict[tuple[int, int], list[InFlightShare]]:
    """Deal records in flight out: (place of the edge, receiving subtask) -> its shares, in order.

    Raises RestoreRefused where the job has no such edge any more, or one that gives no rule.
    """
    stored = _stored_channels(metadata)
    if not stored:
        return {}
    of_edge: dict[tuple[str, str, int], list[ChannelId]] = {}
    for channel in stored:
        of_edge.setdefault((channel.source, channel.target, channel.number), []).append(channel)
    dealt: dict[tuple[int, int], list[InFlightShare]] = {}
    for place, edge in enumerate(edges):
        channels = of_edge.pop((edge.source, edge.target, edge.number), None)
        if channels:
            # What a task had read comes before what it had not.
            channels.sort(key=lambda each: (each.receiver, each.sender, each.side != INPUT))
            _deal(metadata, place, edge, [(each, stored[each]) for each in channels], dealt)
    for source, target, _ in of_edge:
        raise RestoreRefused(
            f"checkpoint {metadata.checkpoint_id} has records in flight from {_name(metadata, source)} to"
            f" {_name(metadata, target)}, and the job no such edge: restore it into the job as it was, or"
            " change the job with a savepoint"
        )
    return dealt


def _stored_channels(metadata: CheckpointMetadata) -> dict[ChannelId, StateHandle]:
    stored: dict[ChannelId, StateHandle] = {}
    for operator in metadata.operators:
        for state in operator.subtasks:
            handle = state.handle
            if handle is not None and handle.channels is not None:
                for channel, _ in handle.channels.channels:
                    stored[channel] = handle
    return stored


def _deal(
    metadata: CheckpointMetadata,
    place: int,
    edge: Edge,
    channels: Sequence[tuple[ChannelId, StateHandle]],
    dealt: dict[tuple[int, int], list[InFlightShare]],
) -> None:
    old = {operator.operator_id: operator for operator in metadata.operators}
    source, target = old[edge.source], old[edge.target]
    is_keyed = edge.partitioner.kind is PartitionerKind.HASH
    same_groups = not is_keyed or target.max_parallelism == edge.max_parallelism
    same_targets = target.parallelism == edge.target_parallelism and same_groups
    same_sources = source.parallelism == edge.source_parallelism
    mapper = MAPPERS[edge.partitioner.kind] if same_groups else SubtaskMapper.FULL
    if mapper is SubtaskMapper.UNSUPPORTED and not (same_targets and same_sources):
        raise RestoreRefused(
            f"checkpoint {metadata.checkpoint_id} has records in flight from {_name(metadata, edge.source)}"
            f" to {_name(metadata, edge.target)}, which a {edge.partitioner.kind.value} edge cannot rescale:"
            " restore it at the parallelism it has"
        )
    for receiver in range(edge.target_parallelism):
        if same_targets:
            taken = range(receiver, receiver + 1)
        else:
            taken = mapper.old_subtasks(
                receiver, target.parallelism, edge.target_parallelism, edge.max_parallelism
            )
        own = None if same_targets or not mapper.is_ambiguous else _filter(edge, receiver)
        shares = [
            InFlightShare(
                channel.sender if same_sources else channel.sender % edge.source_parallelism,
                handle,
                channel,
                own,
            )
            for channel, handle in channels
            if channel.receiver in taken
        ]
        if shares:
            dealt[place, receiver] = shares


def _filter(edge: Edge, receiver: int) -> KeyFilter | ChoiceFilter:
    partitioner = edge.partitioner
    assert partitioner.key_selector is not None
    if partitioner.choose is not None:
        return ChoiceFilter(partitioner.key_selector, partitioner.choose, edge.target_parallelism, receiver)
    low, high = key_group_range(edge.max_parallelism, edge.target_parallelism, receiver)
    return KeyFilter(partitioner.key_selector, partitioner.key_type, edge.max_parallelism, low, high)


def _name(metadata: CheckpointMetadata, operator_id: str) -> str:
    for operator in metadata.operators:
        if operator.operator_id == operator_id:
            return repr(operator.uid or operator.name)
    return operator_id


def read_in_flight(
    share: InFlightShare,
    read: Callable[[str], bytes],
    decoded: dict[str, dict[ChannelId, list[Record]]],
    *,
    allow_pickle: bool,
) -> list[Record]:
    """Read what a subtask takes of a channel; ``decoded`` has what others have read.

    Raises DamagedFile, PickleRefused, and whatever ``read`` raises.
    """
    handle = share.handle
    path = handle.path
    found = decoded.get(path)
    if found is None:
        data = read(path)
        if len(data) != handle.length:
            kind = "truncated" if len(data) < handle.length else "overlong"
            raise DamagedFile(path, f"{kind}: {len(data)} bytes where the checkpoint lists {handle.length}")
        assert handle.channels is not None
        found = decoded[path] = decode_channels(data, handle.channels, path, allow_pickle=allow_pickle)
    if share.channel not in found:
        raise DamagedFile(path, "it lacks a channel that the checkpoint's metadata list")
    records = found[share.channel]
    return records if share.filter is None else share.filter.keep(records)
