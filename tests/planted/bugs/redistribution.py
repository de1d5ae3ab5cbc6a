"""Mutants of state redistribution: state goes to the wrong subtask or name, or comes back incomplete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from onceproof.engine.checkpoint import redistribution
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.stored import SPLIT_DISTRIBUTE, UNION, EncodedTable
from onceproof.engine.state.timers import EVENT_TIMERS, PROCESSING_TIMERS
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="merged-subtasks-lose-timers",
    breaks="exactly_once",
    summary="a subtask that takes over key groups of several others has the timers of the first one only",
)
def merged_subtasks_lose_timers(reached: Reached) -> Iterator[None]:
    """It shows only after a rescale to a lower parallelism."""
    sound = redistribution._merge

    def first_only(path: str, name: str, one: EncodedTable, other: EncodedTable) -> EncodedTable:
        if not name.startswith((EVENT_TIMERS, PROCESSING_TIMERS)):
            return sound(path, name, one, other)
        if other.groups:
            reached()
        return one

    with replaced(redistribution, "_merge", first_only):
        yield


@mutant(
    id="split-loses-the-remainder",
    breaks="exactly_once",
    summary="operator state is cut into chunks of equal length, and the remainder is lost",
)
def split_loses_the_remainder(reached: Reached) -> Iterator[None]:
    """It shows only at another parallelism; otherwise the state is not cut."""
    sound = redistribution.split

    def without_remainder(
        name: str, counts: Sequence[tuple[int, int]], dealt: list[dict[str, Any]], start: int
    ) -> int:
        odd = sum(count for _, count in counts) % len(dealt)
        if odd:
            reached()
        kept = []
        for place, count in reversed(counts):
            dropped = min(odd, count)
            odd -= dropped
            kept.append((place, count - dropped))
        return sound(name, kept[::-1], dealt, start)

    with replaced(redistribution, "split", without_remainder):
        yield


@mutant(
    id="split-state-as-union",
    breaks="exactly_once",
    summary="after a rescale every subtask gets all elements of a list state, as if it were a union",
)
def split_state_as_union(reached: Reached) -> Iterator[None]:
    """Each element is restored once by each subtask."""
    sound = redistribution.deal_out

    def in_full(
        states: Iterable[tuple[str, str, Sequence[tuple[int, int]]]],
        subtasks: Sequence[int],
        old_parallelism: int,
        new_parallelism: int,
    ) -> list[dict[str, Any]]:
        if old_parallelism == new_parallelism:
            return sound(states, subtasks, old_parallelism, new_parallelism)
        as_union = []
        for name, mode, counts in states:
            if new_parallelism > 1 and any(count for _, count in counts):
                reached()
            as_union.append((name, UNION if mode == SPLIT_DISTRIBUTE else mode, counts))
        dealt: list[dict[str, Any]] = sound(as_union, subtasks, old_parallelism, new_parallelism)
        return [
            {
                name: (SPLIT_DISTRIBUTE if mode == UNION else mode, taken)
                for name, (mode, taken) in share.items()
            }
            for share in dealt
        ]

    with replaced(redistribution, "deal_out", in_full):
        yield


@mutant(
    id="state-under-another-name",
    breaks="exactly_once",
    summary="each of an operator's states of one type is restored with the content of the next",
)
def state_under_another_name(reached: Reached) -> Iterator[None]:
    """It happens if states are matched by position instead of by name."""

    def rotated(restored: dict[str, EncodedTable]) -> dict[str, EncodedTable]:
        alike: dict[str, list[str]] = {}
        for name in sorted(restored):
            alike.setdefault(repr(restored[name].described()), []).append(name)
        found = dict(restored)
        for names in alike.values():
            for name, other in zip(names, names[1:] + names[:1], strict=True):
                if restored[name].groups != restored[other].groups:
                    reached()
                    found[name] = restored[other]
        return found

    with _restored_as(rotated):
        yield


@mutant(
    id="last-access-forgotten",
    breaks="exactly_once",
    summary="values with a time to live are restored without the time of their last access",
)
def last_access_forgotten(reached: Reached) -> Iterator[None]:
    """They expire as soon as they are restored."""

    def at_no_time(restored: dict[str, EncodedTable]) -> dict[str, EncodedTable]:
        found = dict(restored)
        for name, table in restored.items():
            if isinstance(table.value_type, list) and table.value_type[:1] == ["TTL"]:
                groups = {}
                for group, encoded in table.groups.items():
                    reached()
                    blocks = [
                        (*entries, [(held[0], 0) for held in values])
                        for *entries, values in msgspec.msgpack.decode(encoded)
                    ]
                    groups[group] = msgspec.msgpack.encode(blocks)
                found[name] = msgspec.structs.replace(table, groups=groups)
        return found

    with _restored_as(at_no_time):
        yield


@mutant(
    id="trigger-count-not-stored",
    breaks="exactly_once",
    summary="a snapshot has the contents of count windows, but not the number of records counted",
)
def trigger_count_not_stored(reached: Reached) -> Iterator[None]:
    """After a restore a window fires later than it should."""
    sound = HashMapStateBackend.snapshot

    def without_counts(self: HashMapStateBackend, *arguments: Any) -> Any:
        taken = sound(self, *arguments)
        kept = []
        for table in taken.tables:
            if table.name == "count" and table.namespace_type is not None:
                if table.entries:
                    reached()
            else:
                kept.append(table)
        taken.tables = kept
        return taken

    with replaced(HashMapStateBackend, "snapshot", without_counts):
        yield


def _restored_as(change: Any) -> Any:
    """Apply ``change`` to the stored tables before heap backends restore them."""
    sound = HashMapStateBackend.restore

    def changed(self: HashMapStateBackend, *arguments: Any, **options: Any) -> None:
        sound(self, *arguments, **options)
        self._restored = change(self._restored)

    return replaced(HashMapStateBackend, "restore", changed)
