"""Who restores what at another parallelism: key groups and the elements of operator states (semantics 1, 2).

Rules:

- Key group g of G belongs to subtask ``g * parallelism // G``. It is restored there, whole, and nowhere else.
- G is that of the checkpoint.
- Elements of a list state stay where they were at the same parallelism. At another one all subtasks get as
  many; one more goes to as many subtasks as it takes, from behind those that got one of the state before.
- A union list state is restored in full by every subtask; a broadcast state by copies, in turn. At the same
  parallelism each subtask also restores its own, which is equal, where another one has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from onceproof.harness.specifications import Mismatch

SPLIT: Final = "SPLIT_DISTRIBUTE"
UNION: Final = "UNION"
RAW: Final = ""
"""The name of an operator's raw state."""


def restored_mismatch(stored: Any, most: int, found: Sequence[Any]) -> Mismatch | None:
    """Return what is wrong with what the subtasks of an operator restore, or None.

    Args:
        stored: the operator in the metadata of the checkpoint.
        most: its number of key groups in the job that restores it.
        found: what its subtasks restore, in their order. Databases are not looked into.
    """
    indexes = [
        None if each.handle is None else each.handle.index.get(stored.operator_id) for each in stored.subtasks
    ]
    count = len(found)
    keyed = [each for each in indexes if each is not None and not each.is_native]
    groups = {(name, *one) for each in keyed for name, table in each.keyed.items() for one in table.items()}
    if groups and most != stored.max_parallelism:
        return Mismatch(f"{stored.max_parallelism} key groups", str(most))
    for subtask, each in enumerate(found):
        expected = {one for one in groups if one[1] * count // most == subtask}
        restored = {(name, *one) for name, table in each.keyed.items() for one in table.counts.items()}
        if restored != expected:
            return Mismatch(f"key groups {sorted(expected)} in subtask {subtask}", str(sorted(restored)))
    names = {name: mode for each in indexes if each for name, (mode, _) in each.operator.items()}
    start = 0
    for name in sorted(names):
        sizes = [each.operator[name][1] if each and name in each.operator else None for each in indexes]
        # Raw state is dealt out by itself.
        shares, following = _shares(names[name], sizes, count, 0 if name == RAW else start)
        start = start if name == RAW else following
        lengths = [len(each.operator[name].elements) if name in each.operator else 0 for each in found]
        if lengths != shares:
            return Mismatch(f"shares {shares} of the elements of {name!r}", str(lengths))
    return None


def _shares(mode: str, sizes: Sequence[int | None], count: int, start: int) -> tuple[list[int], int]:
    """Return how many elements each of ``count`` subtasks gets, and where the next state begins."""
    held = [each for each in sizes if each is not None]
    if mode == UNION:
        return [sum(held)] * count, start
    stays = count == len(sizes)
    if mode == SPLIT:
        if stays:
            return [each or 0 for each in sizes], start
        each_gets, left_over = divmod(sum(held), count)
        shares = [each_gets + ((subtask - start) % count < left_over) for subtask in range(count)]
        return shares, (start + left_over) % count
    if stays and None not in sizes:
        return held, start
    holders = [subtask for subtask, each in enumerate(sizes) if each is not None]
    copied = [holders[subtask % len(holders)] for subtask in range(count)]
    own = [sizes[subtask] if stays and copied[subtask] != subtask else None for subtask in range(count)]
    return [held[subtask % len(held)] + (own[subtask] or 0) for subtask in range(count)], start
