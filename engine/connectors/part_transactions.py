"""The transaction of a file sink, as a checkpoint lists it: the names of its part files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from onceproof.engine.connectors.buckets import bucket_mistake
from onceproof.engine.connectors.part_files import FileSinkBroken

OPEN = -1
"""The length of a transaction that is not pre-committed yet."""

Transaction = list[Any]
"""[visible name, bytes or OPEN, base path, hidden name]; a list, because pre-commit sets the length.

One with further files has a list of them behind, each of that form, with its bucket behind if the sink has
buckets. Checkpoints of version 0.2.0 list [name, length]: in the base path, and without a mark."""
FURTHER: Final = 4
"""The place of the further files in a transaction, and of the bucket in one of these."""


def parts_of(transaction: Transaction) -> Iterator[Transaction]:
    """Give the part files of a transaction. Raises FileSinkBroken for what no file sink has listed."""
    yield transaction
    if len(transaction) > FURTHER:
        further = transaction[FURTHER]
        if len(transaction) > FURTHER + 1 or not isinstance(further, list):
            raise FileSinkBroken(f"transaction {transaction[0]!r} has no list of files: it is not ours")
        for part in further:
            if not isinstance(part, list) or len(part) not in (FURTHER, FURTHER + 1):
                raise FileSinkBroken(f"transaction {transaction[0]!r} has no file {part!r}: it is not ours")
            if (mistake := bucket_mistake(bucket_of(part))) is not None:
                raise FileSinkBroken(
                    f"transaction {transaction[0]!r} has a file in the bucket {part[FURTHER]!r}, which"
                    f" {mistake}: it is not ours"
                )
            yield part


def bucket_of(part: Transaction) -> Any:
    """Return the bucket of a part file; that of a whole transaction's own file is the base path."""
    return part[FURTHER] if len(part) > FURTHER and not isinstance(part[FURTHER], list) else ""
