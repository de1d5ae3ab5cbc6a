"""Sinks for targets that keep one value for each key: writing it again changes nothing.

The rules this module lives by:

- The sink has no state and needs no transaction: after a restore the same keys get the same values again. So
  keys and values must follow from the input alone, not from a clock or from the order of arrival.
- What waits in the buffer is written before a snapshot is taken. Otherwise a checkpoint could be complete,
  and a restore go on behind it, without what only the buffer had.
- A reader may see values come back for a moment that later ones had replaced, while a restored job repeats
  itself. In the end each key has the value that the whole input gives it.
- The values of a key must all come to one subtask, in order: key the stream by it before the sink.
- Of several values for a key only the last one is written, in the order in which keys came first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any

from onceproof.engine.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    SinkFunction,
)
from onceproof.engine.protocol_points import PRE_COMMITTED

BUFFERED_KEYS = 500


class UpsertSinkFunction(SinkFunction, CheckpointedFunction):
    """Implement ``key_of`` and ``upsert``."""

    def __init__(self, buffered_keys: int = BUFFERED_KEYS) -> None:
        if buffered_keys < 1:
            raise ValueError(f"{buffered_keys} keys to buffer: at least 1 is needed")
        self._buffered_keys = buffered_keys
        self._buffer: dict[Hashable, Any] = {}

    @abstractmethod
    def key_of(self, value: Any) -> Hashable:
        """What the target tells values apart by."""

    @abstractmethod
    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write values by their keys, durably, in the order given; those that are there are replaced."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """There is no state to take up."""

    def invoke(self, value: Any, context: Any) -> None:
        """Take one value."""
        self._buffer[self.key_of(value)] = value
        if len(self._buffer) >= self._buffered_keys:
            self._flush()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Write what waits."""
        self._flush()
        self.get_runtime_context().probe(PRE_COMMITTED, context.get_checkpoint_id())

    def finish(self) -> None:
        """The input has ended: write what waits."""
        self._flush()

    def _flush(self) -> None:
        if self._buffer:
            self.upsert(self._buffer)
            self._buffer = {}
