"""The logical content of a stored checkpoint, in one form whichever state backend has stored it.

The rules this module lives by:

- Content is read from the files of the checkpoint, never from tasks: the tables of a heap, the databases of
  full and of incremental checkpoints, operator state, records in flight. The checksums of the files are
  checked on the way.
- Keyed state is compared as it is stored, by operator, name and key group: so a mistake is seen although the
  engine's own reading would mend it. How it is stored must not matter: entries have no order, nor have the
  pairs of a map, and keys that are equal in a dict are one key.
- Of a database only the key groups of its subtask count: a restore reads no others.
- Broadcast state is compared, too: all copies are one, so it stands where a key group would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from onceproof.engine.checkpoint.metadata import OperatorMetadata, StateHandle
from onceproof.engine.key_groups import key_group_range
from onceproof.engine.state.descriptors import LIST, MAP
from onceproof.engine.state.file_envelope import DamagedFile, PickleRefused
from onceproof.engine.state.in_flight import decode_channels
from onceproof.engine.state.raw import RAW_KIND
from onceproof.engine.state.snapshot import decode_task_snapshot
from onceproof.engine.state.stored import BROADCAST, EncodedOperator, EncodedTable, NativePart
from onceproof.engine.state.timers import EVENT_TIMERS, PROCESSING_TIMERS
from onceproof.harness.systems.simulation.checkpoint_recorder import Progress, RecordedCheckpoint, Upstream
from onceproof.harness.systems.simulation.modelled_databases import ModelledDatabases
from onceproof.harness.systems.simulation.simulated_job import DATABASES

Contents: TypeAlias = Mapping[tuple[str, str, int], Counter[str]]
"""By operator, state and key group, its entries as text."""

EVERY_SUBTASK: Final = -1
"""Stands for the key group of state that belongs to no key."""

TIMES_OUT: Final = '"TTL"'
"""Stands in the description of a type whose values have the time of their last access."""
HAS_NO_ORDER: Final = '"MAP"'
"""Stands in the description of a type whose pairs are stored as a list."""


def contents_of(
    recorded: RecordedCheckpoint, ordered: bool, without: Collection[str] = ()
) -> tuple[Contents, Mapping[str, Progress], Upstream]:
    """Return the state of a checkpoint that belongs to keys, timers included, or to all subtasks alike.

    And by operator how far time had come in it, and what is before it.

    Left out are operators that had finished in part, those whose state has seen event time come further
    before a restore, those that wait for a processing time, and states that remember when they were accessed:
    these follow from the clock as well as from the input. So are the states in ``without``. ``ordered`` says
    that the order within a list follows from the input.
    """
    contents: dict[tuple[str, str, int], Counter[str]] = {}
    progress: dict[str, Progress] = {}
    names = _names_in(recorded)
    for operator in recorded.metadata.operators:
        name = names[operator.operator_id]
        found: dict[tuple[str, str, int], Counter[str]] = {}
        copies: dict[str, list[Counter[str]]] = {}
        times: list[Progress] = []
        for number, subtask in enumerate(operator.subtasks):
            if subtask.handle is None or subtask.finished:
                break
            path = subtask.handle.path
            if path in recorded.behind:
                break
            times.append(recorded.progress.get(path))
            state = _state_of(recorded, operator, subtask.handle)
            if state is None:
                continue
            tables = _keyed_tables(recorded, operator, number, state)
            if any(table.groups for state_name, table in tables.items() if _in_processing_time(state_name)):
                break
            for state_name, kept_list in state.operator.items():
                if kept_list.mode == BROADCAST:
                    pairs = map(msgspec.msgpack.decode, kept_list.elements)
                    copy = Counter([_text(pair, ordered) for pair in pairs])
                    copies.setdefault(state_name, []).append(copy)
            for state_name, table in tables.items():
                description = _description(table)
                if TIMES_OUT in description or state_name in without:
                    continue
                in_order = ordered and HAS_NO_ORDER not in description
                for group, entries in _entries(table, _value_text_of(table.kind, None, in_order)):
                    found.setdefault((name, state_name, group), Counter()).update(entries)
        else:
            if times and all(each == times[0] for each in times):
                contents.update(found)
                for state_name, own in copies.items():
                    contents[name, state_name, EVERY_SUBTASK] = _as_one(own, len(operator.subtasks))
                progress[name] = times[0]
    upstream = {
        name: frozenset(names[each] for each in recorded.upstream[operator_id])
        for operator_id, name in names.items()
    }
    return contents, progress, upstream


def whole_content_of(
    recorded: RecordedCheckpoint, *, has_steady_time: bool = True
) -> tuple[Contents, frozenset[str]]:
    """Return everything that a checkpoint holds, to compare it with one of a run that is the same otherwise.

    And the operators behind one whose backend chooses in which order it emits: restored timers of equal time,
    and the pairs of a map, have no order. What comes behind sees the records in that order.

    Left out is what has expired, because a backend may have removed it or not: when that happens depends on
    its cleanup. Where time may have gone back nothing tells what had expired once, so without
    ``has_steady_time`` it is all state with a time to live.
    """
    contents: dict[tuple[str, str, int], Counter[str]] = {}
    names = _names_in(recorded)
    in_flight: set[str] = set()
    choosing: set[str] = set()
    for operator in recorded.metadata.operators:
        name = names[operator.operator_id]
        for number, subtask in enumerate(operator.subtasks):
            handle = subtask.handle
            if handle is None:
                continue
            if handle.channels is not None and handle.path not in in_flight:
                in_flight.add(handle.path)
                contents.update(_records_in_flight(recorded, handle, names))
            state = _state_of(recorded, operator, handle)
            if state is None:
                continue
            for state_name, kept_list in state.operator.items():
                elements = Counter([_element_text(each) for each in kept_list.elements])
                contents[name, f"{state_name} of subtask {number}", EVERY_SUBTASK] = elements
            for state_name, table in _keyed_tables(recorded, operator, number, state).items():
                if table.kind == MAP or state_name.startswith((EVENT_TIMERS, PROCESSING_TIMERS)):
                    choosing.add(operator.operator_id)
                for group, entries in _living_entries(
                    recorded, operator, handle, state_name, table, has_steady_time
                ):
                    contents.setdefault((name, state_name, group), Counter()).update(entries)
    behind = [names[each] for each, before in recorded.upstream.items() if before & choosing]
    return contents, frozenset(behind)


def _living_entries(
    recorded: RecordedCheckpoint,
    operator: OperatorMetadata,
    handle: StateHandle,
    state_name: str,
    table: EncodedTable,
    has_steady_time: bool,
) -> Iterator[tuple[int, list[str]]]:
    """Yield by key group what of a state has not expired."""
    last_expired = None
    if TIMES_OUT in _description(table):
        lifetime = recorded.lifetimes.get((operator.operator_id, state_name))
        if lifetime is None or not has_steady_time:
            return
        last_expired = recorded.taken_ms[handle.path] - lifetime
    for group, entries in _entries(table, _value_text_of(table.kind, last_expired, ordered=True)):
        if entries:
            yield group, entries


def _names_in(recorded: RecordedCheckpoint) -> Mapping[str, str]:
    """Return by id what a report calls each operator."""
    return {each.operator_id: each.uid or each.operator_id for each in recorded.metadata.operators}


def _state_of(
    recorded: RecordedCheckpoint, operator: OperatorMetadata, handle: StateHandle
) -> EncodedOperator | None:
    path = handle.path
    return decode_task_snapshot(_read(recorded, path), path, handle.sha256).get(operator.operator_id)


def _read(recorded: RecordedCheckpoint, path: str) -> bytes:
    """Return a file of the checkpoint. Raises DamagedFile where there is none."""
    data = recorded.files.get(path)
    if data is None:
        raise DamagedFile(path, "the file is gone")
    return data


def _keyed_tables(
    recorded: RecordedCheckpoint, operator: OperatorMetadata, subtask: int, state: EncodedOperator
) -> Mapping[str, EncodedTable]:
    """Return the keyed state of a subtask as tables by key group, out of its database if it is in one."""
    handle = operator.subtasks[subtask].handle
    if state.native is None or handle is None:
        return state.keyed
    # Imported late: only checkpoints of databases need rocksdict.
    from onceproof.engine.state.rocksdb.transfer import export_table, open_part

    low, high = key_group_range(operator.max_parallelism, operator.parallelism, subtask)
    files = {file.name: file for file in handle.files if file.operator_id == operator.operator_id}
    part = NativePart(low, high, handle.path, state.native, files, partial(_read, recorded))
    databases = ModelledDatabases() if recorded.has_models else None
    database = open_part(part, DATABASES, True, databases)
    try:
        groups, most = range(low, high + 1), operator.max_parallelism
        exported = {
            name: export_table(database, name, table, groups, most)
            for name, table in state.native.tables.items()
        }
    finally:
        database.close()
    return {**exported, **state.keyed}


def _entries(table: EncodedTable, value_text: Callable[[Any], str | None]) -> Iterator[tuple[int, list[str]]]:
    """Yield by key group the entries of a table as text.

    Args:
        value_text: returns the text of a value; None leaves the entry out.
    """
    for group, encoded in table.groups.items():
        if table.kind == RAW_KIND:
            # Only the function knows what its raw bytes mean, so they are compared as they are.
            yield group, [encoded.hex()]
            continue
        texts = [(_key_text(entry), value_text(value)) for entry, value in table.pairs(group)]
        yield group, [f"[{entry}, {value}]" for entry, value in texts if value is not None]


def _value_text_of(kind: str, last_expired: int | None, ordered: bool) -> Callable[[Any], str | None]:
    """Return what gives the text of a value of a kind of state; of parts that have expired there is none.

    Args:
        last_expired: what was accessed then or before has expired; None: nothing expires.
    """

    def is_living(held: Any) -> bool:
        return last_expired is None or held[1] > last_expired

    def map_text(value: Any) -> str | None:
        pairs = [f"{_key_text(key)}: {_text(held, ordered)}" for key, held in value if is_living(held)]
        return f"{{{', '.join(sorted(pairs))}}}" if pairs else None

    def list_text(value: Any) -> str | None:
        elements = [held for held in value if is_living(held)]
        return _text(elements, ordered) if elements else None

    def value_text(value: Any) -> str | None:
        return _text(value, ordered) if is_living(value) else None

    return {MAP: map_text, LIST: list_text}.get(kind, value_text)


def _records_in_flight(
    recorded: RecordedCheckpoint, handle: StateHandle, names: Mapping[str, str]
) -> Iterator[tuple[tuple[str, str, int], Counter[str]]]:
    """Yield by channel the records that were under way, with their places."""
    assert handle.channels is not None
    path = handle.path
    try:
        channels = decode_channels(_read(recorded, path), handle.channels, path, allow_pickle=False)
    except PickleRefused:
        # Copies of an object may print differently, so only the number of opaque ones is compared.
        channels = {channel: [(None, None)] * count for channel, count in handle.channels.channels}
    for channel, records in channels.items():
        sender = f"{names.get(channel.source, channel.source)} {channel.sender}"
        what = (
            f"records in flight from {sender} to subtask {channel.receiver}, {channel.side} {channel.number}"
        )
        texts = [f"{place}: {value!r} at {timestamp}" for place, (value, timestamp) in enumerate(records)]
        yield (names.get(channel.target, channel.target), what, EVERY_SUBTASK), Counter(texts)


def _description(table: EncodedTable) -> str:
    return msgspec.json.encode(table.value_type, enc_hook=repr).decode()


def _as_one(copies: list[Counter[str]], subtasks: int) -> Counter[str]:
    """Return what all subtasks have; of an entry that some lack it says so."""
    holders = Counter(entry for copy in copies for entry in copy)
    return Counter(
        entry if count == subtasks else f"{entry} in {count} of {subtasks} subtasks"
        for entry, count in holders.items()
    )


def _in_processing_time(state_name: str) -> bool:
    return state_name.startswith(PROCESSING_TIMERS)


def _element_text(encoded: bytes) -> str:
    """Return an element of operator state as text; raw bytes may be no message of the encoder's."""
    try:
        return _text(msgspec.msgpack.decode(encoded), True)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return encoded.hex()


def _key_text(value: Any) -> str:
    """Return a key as text that is the same for keys which are equal in a dict."""
    if isinstance(value, list | tuple):
        return f"[{', '.join([_key_text(each) for each in value])}]"
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return _text(value, True)


def _text(value: Any, ordered: bool) -> str:
    """Return a value as text that is equal where values are."""
    if isinstance(value, msgspec.msgpack.Ext):
        return f"{value.code}:{bytes(value.data).hex()}"
    if isinstance(value, list | tuple):
        parts = [_text(each, ordered) for each in value]
        return f"[{', '.join(parts if ordered else sorted(parts))}]"
    return repr(value)
