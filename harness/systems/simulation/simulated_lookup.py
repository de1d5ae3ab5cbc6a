"""Lookups in a table of the simulated database.

The rules this module lives by:

- The rows never change, so a lookup that is made again finds the same.
- Answers take some time, by their key, so that they overtake each other. For some keys the database is away
  at first: the lookup fails a few times, in every attempt anew. What fails and how long an answer takes
  follows from the key alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final
from zlib import crc32

from onceproof.engine.connectors.jdbc.database_errors import DatabaseUnavailable
from onceproof.engine.functions import Function, RuntimeContext
from onceproof.harness.systems.simulation.prepared_transactions import PLACE

FAILURES: Final = 3
"""How often a lookup fails that fails at first."""
LONGEST_ANSWER_MS: Final = 12


class SimulatedLookup(Function):
    """Finds rows by their first column."""

    def __init__(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._name = name
        self._rows = {row[0]: row for row in rows}
        self._failures: Counter[Any] = Counter()

    def open(self, runtime_context: RuntimeContext) -> None:
        self._failures = Counter()

    async def row_of(self, key: Any) -> tuple[Any, ...] | None:
        """Return the row with a key, or None. Raises DatabaseUnavailable, and may be asked again."""
        # Few families look up, and asyncio takes a tenth of the start of a process.
        from asyncio import sleep

        number = crc32(repr(key).encode())
        await sleep(number % (LONGEST_ANSWER_MS + 1) / 1000)
        if number % 3 == 0 and self._failures[key] < FAILURES:
            self._failures[key] += 1
            raise DatabaseUnavailable(f"lookup in table {self._name!r} of {PLACE}: it is away for a moment")
        return self._rows.get(key)
