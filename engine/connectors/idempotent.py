"""Idempotent sinks, for targets that keep one value for each key (upsert).

The rules this module lives by:

- The sink has no state and no transaction: after a restore the job writes the same values again. So keys and
  values must depend on the input only, not on a clock or on the order of arrival.
- The buffer is written before a snapshot is taken. Otherwise a checkpoint could complete without its rows.
- While a restored job reprocesses records, a reader may see older values for a moment. In the end each key
  has the value that the whole input gives it.
- All values of a key must reach one subtask, in order: key the stream by it before the sink.
- Of several buffered values of a key only the last one is written, in the order of the keys' first values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any

from onceproof.engine.connectors.sink import FlushedSinkFunction

BUFFERED_KEYS = 500


class UpsertSinkFunction(FlushedSinkFunction):
    """Base of idempotent sinks: implement ``key_of`` and ``upsert`` (ours).

    Args:
        buffered_keys: the number of keys at which the buffer is written.

    Raises:
        ValueError: ``buffered_keys`` is less than 1.
    """

    def __init__(self, buffered_keys: int = BUFFERED_KEYS) -> None:
        if buffered_keys < 1:
            raise ValueError(f"{buffered_keys} keys to buffer: at least 1 is needed")
        self._buffered_keys = buffered_keys
        self._buffer: dict[Hashable, Any] = {}

    @abstractmethod
    def key_of(self, value: Any) -> Hashable:
        """Return the key under which the target keeps a value."""

    @abstractmethod
    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write values durably, in the given order, replacing existing values of their keys.

        Args:
            rows: key -> value.
        """

    def invoke(self, value: Any, context: Any) -> None:
        """Buffer one value."""
        self._buffer[self.key_of(value)] = value
        if len(self._buffer) >= self._buffered_keys:
            self._flush()

    def _flush(self) -> None:
        if self._buffer:
            self.upsert(self._buffer)
            self._buffer = {}
