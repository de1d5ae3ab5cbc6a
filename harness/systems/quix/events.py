"""The events that the workers of an application under trial log, and the names that they share.

It imports nothing of Quix Streams: the workers write the events, the builder of the history reads them.
"""

from __future__ import annotations

from typing import Final

WORKERS_STARTED: Final = "workers_started"
"""An attempt: workers are started, all of them or those that had died; ``parallelism`` live now."""
RECORD_READ: Final = "record_read"
"""A worker is about to process a record of the input: ``split``, ``offset``."""
RESUMED: Final = "resumed"
"""A worker got the committed offsets of partitions that it has been assigned."""
COMMITTING: Final = "committing"
"""A worker is about to commit the ``offsets`` of a checkpoint, and the rows of its ``transaction``."""
COMMITTED: Final = "committed"
"""The commit of a ``transaction`` was answered."""

TRANSACTION: Final = "transaction"
"""The header of a message with the name of the checkpoint in which it was sent."""
ROWS: Final = "rows"
"""The sink: the name of its topic is made of it."""


def worker_name(index: int) -> str:
    """Return the name of a worker process."""
    return f"worker-{index}"


def transaction_name(attempt: int, index: int, number: int) -> str:
    """Return the name of a checkpoint: the attempt and the worker that began it, and its number there."""
    return f"{attempt}.{index}.{number}"


def writer_of(transaction: str) -> tuple[int, int]:
    """Return the worker of a checkpoint, and its number there; (0, 0) for what is no name of one."""
    parts = transaction.split(".")
    if len(parts) == 3 and all(part.isdecimal() for part in parts):
        return int(parts[1]), int(parts[2])
    return 0, 0


def repartition_prefix(group: str) -> str:
    """Return what the names of the topics begin with by which a group changes the keys of records."""
    return f"repartition__{group}--"


def changelog_prefix(group: str) -> str:
    """Return what the names of the topics begin with that hold the states of a group."""
    return f"changelog__{group}--"
