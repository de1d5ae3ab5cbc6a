"""Redistributes the state of a checkpoint over the subtasks of the job that restores it.

State is matched by operator id. Keyed state goes to the subtasks that own its key groups now. Operator state
goes by its mode: SPLIT_DISTRIBUTE stays in place at the same parallelism and is otherwise cut into contiguous
runs of equal length, the odd elements of one name beginning where those of the previous name ran out; UNION
goes to every subtask in full; BROADCAST gives each new subtask one of the old copies (and, at the same
parallelism, leaves it its own). Names are visited in sorted order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import CheckpointMetadata, OperatorMetadata, StateHandle
from onceproof.engine.key_groups import key_group_range
from onceproof.engine.state.file_envelope import DamagedFile, StateError
from onceproof.engine.state.raw import RAW
from onceproof.engine.state.snapshot import decode_task_snapshot
from onceproof.engine.state.stored import (
    BROADCAST,
    SPLIT_DISTRIBUTE,
    UNION,
    DecodedSnapshot,
    EncodedList,
    EncodedOperator,
    EncodedTable,
    NativePart,
)


class Vertex(NamedTuple):
    """One operator of the job that restores, with the parallelism of its vertex."""

    operator_id: str
    parallelism: int
    max_parallelism: int
    max_parallelism_is_explicit: bool


Source: TypeAlias = tuple[StateHandle, range]
"""A file, and which elements of a state in it."""

Slice: TypeAlias = tuple[int, range]
"""The place of a holder in the order given to ``deal_out``, and which of its elements.

A range takes no memory, however many elements forged metadata list; the file itself decides how many it has.
"""


class RestoreAssignment(msgspec.Struct, frozen=True):
    """What one subtask of one operator restores.

    ``keyed``: files with the inclusive range of key groups to take from each; ``operator``: state name ->
    (mode, files with the elements to take); ``finished``: the whole operator had processed all its input;
    ``restored``: a checkpoint is restored, be it that nothing of it falls to this subtask.
    """

    operator_id: str
    keyed: tuple[tuple[StateHandle, tuple[int, int]], ...] = ()
    operator: dict[str, tuple[str, tuple[Source, ...]]] = {}
    finished: bool = False
    restored: bool = True


class RestoredState(msgspec.Struct, frozen=True):
    """What ``KeyedStateBackend.restore`` and ``OperatorStateStore.restore`` take over."""

    keyed: dict[str, EncodedTable]
    operator: dict[str, EncodedList]
    native: tuple[NativePart, ...] = ()


class RestoreRefused(StateError):
    """The job does not fit the checkpoint. The message is one line."""


def effective_max_parallelism(
    metadata: CheckpointMetadata, vertices: Iterable[tuple[str, int, int, bool]]
) -> dict[str, int]:
    """Give the max parallelism of each operator once the checkpoint is restored.

    A derived max parallelism gives way to that of the checkpoint, an explicit one must equal it. Raises
    RestoreRefused where it does not, and where the parallelism exceeds it.
    """
    stored = {operator.operator_id: operator for operator in metadata.operators}
    effective: dict[str, int] = {}
    for operator_id, parallelism, max_parallelism, is_explicit in vertices:
        effective[operator_id] = max_parallelism
        operator = stored.get(operator_id)
        if operator is None:
            continue
        where = f"checkpoint {metadata.checkpoint_id}, operator {_name(operator)}"
        if is_explicit and operator.max_parallelism != max_parallelism:
            raise RestoreRefused(
                f"{where}: its state has max parallelism {operator.max_parallelism}, the job sets "
                f"{max_parallelism}: set {operator.max_parallelism}, or leave it unset"
            )
        if operator.max_parallelism == max_parallelism >= parallelism:
            continue
        if not operator.has_state:
            continue
        if parallelism > operator.max_parallelism:
            raise RestoreRefused(
                f"{where}: parallelism {parallelism} exceeds the max parallelism "
                f"{operator.max_parallelism} of its state: lower the parallelism"
            )
        effective[operator_id] = operator.max_parallelism
    return effective


class StateMatch(NamedTuple):
    """Which operators of a job find their state in a checkpoint, as operator ids."""

    restored: tuple[str, ...]
    """Those that the checkpoint has."""
    starts_empty: tuple[str, ...]
    """Those that are new in the job."""
    skipped: tuple[OperatorMetadata, ...]
    """The operators of the checkpoint whose state no operator of the job takes."""


def match_state(metadata: CheckpointMetadata, operator_ids: Sequence[str]) -> StateMatch:
    """Match the operators of a job with the state of a checkpoint."""
    stored = {operator.operator_id for operator in metadata.operators}
    known = set(operator_ids)
    return StateMatch(
        tuple([each for each in operator_ids if each in stored]),
        tuple([each for each in operator_ids if each not in stored]),
        tuple([each for each in metadata.operators if each.has_state and each.operator_id not in known]),
    )


def redistribute(
    metadata: CheckpointMetadata,
    vertices: Sequence[tuple[str, int, int, bool]],
    allow_non_restored_state: bool = False,
) -> dict[tuple[str, int], RestoreAssignment]:
    """Deal the state of a checkpoint out: (operator id, subtask) -> what it restores.

    ``vertices``: (operator id, parallelism, max parallelism, whether that is explicit) of every operator.
    Raises RestoreRefused where the job does not fit the checkpoint.
    """
    effective = effective_max_parallelism(metadata, vertices)
    stored = {operator.operator_id: operator for operator in metadata.operators}
    if not allow_non_restored_state:
        for operator in match_state(metadata, list(effective)).skipped:
            raise RestoreRefused(
                f"checkpoint {metadata.checkpoint_id} has state of operator {_name(operator)}, which the job "
                "lacks: give the operator its uid back, or leave its state behind by"
                " execution.state-recovery.ignore-unclaimed-state"
            )
    assignments: dict[tuple[str, int], RestoreAssignment] = {}
    for operator_id, parallelism, _, _ in vertices:
        found = stored.get(operator_id)
        if found is None:
            for subtask in range(parallelism):
                assignments[operator_id, subtask] = RestoreAssignment(operator_id)
            continue
        keyed = deal_keyed(found, parallelism, effective[operator_id])
        lists = _deal_operator(found, parallelism)
        finished = found.is_finished
        for subtask in range(parallelism):
            assignments[operator_id, subtask] = RestoreAssignment(
                operator_id, keyed[subtask], lists[subtask], finished
            )
    return assignments


def _name(operator: OperatorMetadata) -> str:
    return repr(operator.uid or operator.name)


def deal_keyed(
    operator: OperatorMetadata, parallelism: int, max_parallelism: int
) -> list[tuple[tuple[StateHandle, tuple[int, int]], ...]]:
    """Give each new subtask the old files that may hold key groups of its range."""
    holders: list[tuple[StateHandle, int, int]] = []
    for subtask, state in enumerate(operator.subtasks):
        handle = state.handle
        if handle is not None:
            index = handle.index.get(operator.operator_id)
            if index is not None and (index.keyed or index.is_native):
                low, high = key_group_range(operator.max_parallelism, operator.parallelism, subtask)
                holders.append((handle, low, high))
    if not holders:
        return [()] * parallelism
    dealt = []
    for subtask in range(parallelism):
        low, high = key_group_range(max_parallelism, parallelism, subtask)
        dealt.append(
            tuple(
                [
                    (handle, (max(low, old_low), min(high, old_high)))
                    for handle, old_low, old_high in holders
                    if old_low <= high and low <= old_high
                ]
            )
        )
    return dealt


def _deal_operator(
    operator: OperatorMetadata, parallelism: int
) -> list[dict[str, tuple[str, tuple[Source, ...]]]]:
    """Give each new subtask its elements of the operator states."""
    holders: list[StateHandle] = []
    subtasks: list[int] = []
    states: dict[str, tuple[str, list[tuple[int, int]]]] = {}
    for subtask, state in enumerate(operator.subtasks):
        handle = state.handle
        index = None if handle is None else handle.index.get(operator.operator_id)
        if handle is None or index is None or not index.operator:
            continue
        place = len(holders)
        holders.append(handle)
        subtasks.append(subtask)
        for name, (mode, count) in index.operator.items():
            found = states.setdefault(name, (mode, []))
            if found[0] != mode:
                raise RestoreRefused(
                    f"operator {_name(operator)}: state {name!r} is {found[0]} in one subtask and {mode} in "
                    "another: the checkpoint is not consistent, restore another one"
                )
            found[1].append((place, count))
    if not holders:
        return [{} for _ in range(parallelism)]
    raw = states.pop(RAW, None)
    named = sorted((name, mode, counts) for name, (mode, counts) in states.items())
    dealt = deal_out(named, subtasks, operator.parallelism, parallelism)
    if raw is not None:
        # Apart from the others, so that it does not move where their odd elements go.
        apart = deal_out([(RAW, *raw)], subtasks, operator.parallelism, parallelism)
        for share, of_raw in zip(dealt, apart, strict=True):
            share.update(of_raw)
    return [
        {
            name: (mode, tuple([(holders[place], elements) for place, elements in slices]))
            for name, (mode, slices) in share.items()
        }
        for share in dealt
    ]


def deal_out(
    states: Iterable[tuple[str, str, Sequence[tuple[int, int]]]],
    subtasks: Sequence[int],
    old_parallelism: int,
    new_parallelism: int,
) -> list[dict[str, tuple[str, list[Slice]]]]:
    """Deal operator states out (Flink: RoundRobinOperatorStateRepartitioner).

    ``states``: (name, mode, [(holder, number of elements)...]) in the order in which names are visited;
    ``subtasks[holder]``: the old subtask that holder belongs to, in ascending order. Gives for each new
    subtask: name -> (mode, [(holder, elements)...]), by ascending holder.
    """
    dealt: list[dict[str, tuple[str, list[Slice]]]] = [{} for _ in range(new_parallelism)]
    in_place = old_parallelism == new_parallelism
    start = 0
    for name, mode, counts in states:
        whole = [(place, range(count)) for place, count in counts]
        if mode == UNION:
            for share in dealt:
                share[name] = (mode, whole)
        elif mode == BROADCAST:
            for subtask, share in enumerate(dealt):
                copy = whole[subtask % len(whole)]
                own = [item for item in whole if in_place and subtasks[item[0]] == subtask]
                share[name] = (mode, own if copy in own else sorted([*own, copy]))
        elif mode != SPLIT_DISTRIBUTE:
            raise RestoreRefused(f"operator state {name!r} has the unknown mode {mode}: update onceproof")
        elif in_place:
            for item in whole:
                share = dealt[subtasks[item[0]]]
                share.setdefault(name, (mode, []))[1].append(item)
        else:
            start = split(name, counts, dealt, start)
    return dealt


def split(
    name: str,
    counts: Sequence[tuple[int, int]],
    dealt: list[dict[str, tuple[str, list[Slice]]]],
    start: int,
) -> int:
    """Cut the elements of one state into contiguous runs; give the subtask where the next state begins."""
    parallelism = len(dealt)
    base, odd = divmod(sum(count for _, count in counts), parallelism)
    left = iter(counts)
    place, begin, end = 0, 0, 0
    for visit in range(parallelism):
        length = base + (visit < odd)
        slices: list[Slice] = []
        while length:
            while begin == end:
                (place, end), begin = next(left), 0
            taken = min(length, end - begin)
            slices.append((place, range(begin, begin + taken)))
            begin += taken
            length -= taken
        if slices:
            dealt[(start + visit) % parallelism][name] = (SPLIT_DISTRIBUTE, slices)
    return (start + odd) % parallelism


def read_assignment(
    assignment: RestoreAssignment,
    read: Callable[[str], bytes],
    decoded: MutableMapping[str, DecodedSnapshot] | None = None,
) -> RestoredState:
    """Read what a subtask restores, checking each file against what the metadata lists.

    ``decoded`` may be shared by the subtasks of a restore, so that each file is read and checked once.
    Raises DamagedFile, and whatever ``read`` raises.
    """
    files: MutableMapping[str, DecodedSnapshot] = {} if decoded is None else decoded
    keyed: dict[str, EncodedTable] = {}
    natives: list[NativePart] = []
    for handle, (low, high) in assignment.keyed:
        stored = _stored(handle, read, files, assignment.operator_id)
        if stored.native is not None:
            tables = {file.name: file for file in handle.files if file.operator_id == assignment.operator_id}
            natives.append(NativePart(low, high, handle.path, stored.native, tables, read))
        for name, table in stored.keyed.items():
            part = table.within(low, high)
            found = keyed.get(name)
            keyed[name] = part if found is None else _merge(handle.path, name, found, part)
    lists: dict[str, EncodedList] = {}
    for name, (mode, sources) in assignment.operator.items():
        elements: list[bytes] = []
        description = None
        for handle, indexes in sources:
            item = _stored(handle, read, files, assignment.operator_id).operator.get(name)
            if item is None or len(item.elements) < indexes.stop:
                raise DamagedFile(
                    handle.path,
                    f"operator state {name!r} has fewer elements than the checkpoint's metadata list",
                )
            if description is None:
                description = item.type
            elif description != item.type:
                raise DamagedFile(
                    handle.path, f"operator state {name!r} has another type than in other files"
                )
            elements.extend(item.elements[indexes.start : indexes.stop])
        lists[name] = EncodedList(mode, description, elements)
    return RestoredState(keyed, lists, tuple(natives))


def _stored(
    handle: StateHandle,
    read: Callable[[str], bytes],
    files: MutableMapping[str, DecodedSnapshot],
    operator_id: str,
) -> EncodedOperator:
    stored = _load(handle, read, files).get(operator_id)
    if stored is None:
        raise DamagedFile(handle.path, "it lacks an operator that the checkpoint's metadata list")
    return stored


def _load(
    handle: StateHandle, read: Callable[[str], bytes], files: MutableMapping[str, DecodedSnapshot]
) -> DecodedSnapshot:
    found = files.get(handle.path)
    if found is None:
        data = read(handle.path)
        if len(data) != handle.length:
            kind = "truncated" if len(data) < handle.length else "overlong"
            raise DamagedFile(
                handle.path, f"{kind}: {len(data)} bytes where the checkpoint lists {handle.length}"
            )
        found = files[handle.path] = decode_task_snapshot(data, handle.path, handle.sha256)
    return found


def _merge(path: str, name: str, one: EncodedTable, other: EncodedTable) -> EncodedTable:
    merged = replace(one, counts=one.counts | other.counts, groups=one.groups | other.groups)
    if replace(other, counts=merged.counts, groups=merged.groups) != merged:
        raise DamagedFile(path, f"state {name!r} has another type than in other files of the checkpoint")
    return merged
