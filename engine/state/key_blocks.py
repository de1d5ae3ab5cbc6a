"""The keys of a table in blocks, which sort its entries into key groups for a snapshot.

The rules this module lives by:

- A block is a stretch of a table in the table's own order. It is checked, sorted and encoded before the next
  one is read, so its objects stay in the processor's cache. With a million entries, whole columns took 1.6
  times as long.
- A block remembers its sorted and encoded keys. A dict keeps its order while nothing is removed, so the next
  snapshot finds most blocks as they were, and neither checks, hashes nor encodes their keys again.
- After a removal the blocks behind it differ. Their keys are sorted again, but their groups are known.
- What a cache holds is replaced, never changed: snapshots of one backend may be encoded in several threads.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from onceproof.engine.key_groups import key_groups_of
from onceproof.engine.key_identity import Distinct, value_of
from onceproof.engine.types import TypeInformation
from onceproof.engine.types.information import ENCODE
from onceproof.engine.types.wrapped import nullable

SMALLEST_BLOCK: Final = 8192
ENTRIES_OF_A_RUN: Final = 64
"""A block has so many entries for each key group, because every run costs about a microsecond."""
_POSITIONS: Final = tuple(range(SMALLEST_BLOCK))
"""The integers that the runs of all blocks share."""


class Run(msgspec.Struct, frozen=True):
    """The entries of one key group within a block: their positions, and their encoded keys."""

    group: int
    positions: list[int]
    keys: msgspec.Raw


class KeyBlock(msgspec.Struct, frozen=True):
    """The identities of the keys in a stretch of a table, and the key group of each.

    ``runs`` are the same keys sorted; None: a restore has read them, and no snapshot has sorted them yet.
    """

    identities: list[Any]
    groups: Sequence[int]
    runs: list[Run] | None


class KeyGroupCache:
    """The blocks of each table of a backend, as the last snapshot or the restore left them."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: dict[str, list[KeyBlock]] = {}

    def learn(self, name: str, identities: list[Any], groups: Sequence[int], max_parallelism: int) -> None:
        """Take the keys of a table that a restore has read, in their order, and the key group of each."""
        size = block_size(max_parallelism)
        self.blocks[name] = [
            KeyBlock(identities[start : start + size], groups[start : start + size], None)
            for start in range(0, len(identities), size)
        ]


class KeySorter:
    """Sorts the keys of one table, block after block; ``blocks`` are those so far."""

    __slots__ = ("_earlier", "_key_type", "_known", "_looked_up", "_max_parallelism", "blocks")

    def __init__(self, earlier: list[KeyBlock], key_type: TypeInformation, max_parallelism: int) -> None:
        self._earlier = earlier
        self._key_type = key_type
        self._max_parallelism = max_parallelism
        self._known: dict[Any, int] = {}
        """The groups of the keys in one earlier block."""
        self._looked_up = 0
        """The number of earlier blocks that need not be looked at again."""
        self.blocks: list[KeyBlock] = []

    def next_runs(self, identities: list[Any]) -> list[Run]:
        """Return the runs of the next block, which has these keys.

        Raises what tells that a value is no key of the declared type.
        """
        number = len(self.blocks)
        block = self._earlier[number] if number < len(self._earlier) else None
        if block is None or block.identities != identities:
            block = KeyBlock(identities, array("H", self._groups(identities)), None)
        runs = block.runs
        if runs is None:
            runs = self._runs(identities, block.groups)
            block = KeyBlock(identities, block.groups, runs)
        self.blocks.append(block)
        return runs

    def _runs(self, identities: list[Any], groups: Sequence[int]) -> list[Run]:
        keys = identities
        if Distinct in set(map(type, identities)):
            keys = [value_of(identity) for identity in identities]
        # Of the keys under any type, one may be None.
        pack = nullable(self._key_type).prepare(keys)
        if pack is not None:
            keys = [pack(key) for key in keys]
        by_group: dict[int, list[int]] = {}
        positions = _POSITIONS if len(keys) <= SMALLEST_BLOCK else range(len(keys))
        for group, position in zip(groups, positions, strict=False):
            try:
                by_group[group].append(position)
            except KeyError:
                by_group[group] = [position]
        return [
            Run(group, own, msgspec.Raw(ENCODE(list(map(keys.__getitem__, own)))))
            for group, own in sorted(by_group.items())
        ]

    def _groups(self, identities: list[Any]) -> list[int]:
        """Return the key groups of keys, computing those that are not known.

        What is left after a removal has its order still, so its keys are looked up in one earlier block after
        the other: small dicts, which the processor's cache holds.
        """
        groups: list[Any] = list(map(self._known.get, identities))
        self._looked_up = max(self._looked_up, len(self.blocks))
        while None in groups and self._looked_up < len(self._earlier):
            block = self._earlier[self._looked_up]
            self._looked_up += 1
            known = self._known = dict(zip(block.identities, block.groups, strict=True))
            groups = [
                known.get(key) if group is None else group
                for key, group in zip(identities, groups, strict=True)
            ]
        if None not in groups:
            return groups
        unknown = [key for key, group in zip(identities, groups, strict=True) if group is None]
        computed = iter(key_groups_of(unknown, self._max_parallelism, self._key_type))
        return [next(computed) if group is None else group for group in groups]


def block_size(max_parallelism: int) -> int:
    """Return the number of entries in a block."""
    return max(SMALLEST_BLOCK, ENTRIES_OF_A_RUN * max_parallelism)


def blocks_of(
    entries: dict[Any, Any], namespaced: bool, max_parallelism: int
) -> Iterator[tuple[list[Any], list[Any] | None, list[Any]]]:
    """Yield the keys, the namespaces if there are any, and the values of a table, block by block."""
    size = block_size(max_parallelism)
    left, values = iter(entries), iter(entries.values())
    while found := list(islice(left, size)):
        held = list(islice(values, size))
        if namespaced:
            yield [entry[0] for entry in found], [entry[1] for entry in found], held
        else:
            yield found, None, held
