"""What may be read of a table that a sink writes by key: replayed rows, none that a checkpoint has passed.

Such a sink has no transactions: what it writes can be read at once, before any checkpoint is complete, and a
restored job writes some of it again. To write a row again is no duplicate. What does hold, and is checked at
every write and at every completion:

- unknown version: a row is written that the input gives its key at no time.
- behind the cut: a checkpoint is complete, and a key shows an older row than the input before its cut gives,
  or none. The sink must have written what it buffered before its snapshot, and a job that is restored from a
  checkpoint repeats only what comes after it. Records in flight have not come to the sink yet, so by as many
  rows a key may be behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.harness.checkers.base import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import Cut, Row

UNKNOWN_VERSION = "unknown version"
BEHIND_THE_CUT = "behind the cut"


class Tables:
    """A table as a reader finds it at one moment of a history, and how far it must have come."""

    __slots__ = ("_keys", "_least", "_oracle", "_places", "_property", "_shown", "_violations")

    def __init__(self, name: str, oracle: Oracle, violations: list[Violation]) -> None:
        self._property = name
        self._oracle = oracle
        self._keys = oracle.table_keys
        self._violations = violations
        self._places: dict[Row, int] = {
            row: place for rows in oracle.versions_at(None).values() for place, row in enumerate(rows)
        }
        """By row, which of its key's rows it is."""
        self._shown: dict[Row, int] = {}
        """By key, which of its rows it shows."""
        self._least: dict[Row, int] = {}
        """By key, which of its rows it must show at least."""

    def written(self, step: int, task: str, rows: Sequence[Row]) -> None:
        """Rows have been written."""
        for row in rows:
            key = row[: self._keys]
            place = self._places.get(row)
            if place is None:
                self._violate(UNKNOWN_VERSION, f"{task}, step {step}", step, [row])
                continue
            self._shown[key] = place
            if place < self._least.get(key, -1):
                self._violate(BEHIND_THE_CUT, f"{task}, step {step}", step, [row])

    def completed(self, step: int, checkpoint: int, cut: Cut, in_flight: int) -> None:
        """A checkpoint is complete: nobody repeats what is before its cut."""
        behind = []
        for key, rows in self._oracle.versions_at(cut).items():
            least = max(self._least.get(key, -1), len(rows) - 1 - in_flight)
            self._least[key] = least
            if self._shown.get(key, -1) < least:
                behind.append(rows[-1])
        if behind:
            self._violate(BEHIND_THE_CUT, f"checkpoint {checkpoint}, step {step}", step, behind)

    def _violate(self, anomaly: str, where: str, step: int, rows: Sequence[Row]) -> None:
        witness = {"step": step, "rows": [list(row) for row in rows[:WITNESS_ROWS]], "count": len(rows)}
        self._violations.append(Violation(self._property, anomaly, where, witness))
