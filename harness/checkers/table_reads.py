"""consistent_cut for sinks that write by key: a key never falls behind the latest completed checkpoint.

Such a sink has no transactions. Its rows are readable at once, before any checkpoint completes, and a
restored job writes some of them again; a repeated write is no duplicate. These anomalies are checked at every
write and at every completed checkpoint:

- unknown version: the sink writes a row that no prefix of the input gives this key.
- behind the cut: a checkpoint is complete, and a key shows an older row than the input before the cut gives,
  or no row. The sink must flush its buffer before its snapshot, and a job restored from a checkpoint repeats
  only rows from after it. Records in flight have not reached the sink, so a key may be behind by that number
  of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.harness.checkers.checker import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import Cut, Row

UNKNOWN_VERSION = "unknown version"
BEHIND_THE_CUT = "behind the cut"


class TableReads:
    """The table's content after each event of a history, and the oldest version that each key may show.

    A version is the position of a row in the sequence of rows that its key takes.
    """

    __slots__ = ("_key_columns", "_least", "_oracle", "_property", "_shown", "_versions", "_violations")

    def __init__(self, name: str, oracle: Oracle, violations: list[Violation]) -> None:
        self._property = name
        self._oracle = oracle
        self._key_columns = oracle.table_keys
        self._violations = violations
        self._versions: dict[Row, int] = {
            row: version for rows in oracle.versions_at(None).values() for version, row in enumerate(rows)
        }
        """By row, its version."""
        self._shown: dict[Row, int] = {}
        """By key, the version that the table shows."""
        self._least: dict[Row, int] = {}
        """By key, the oldest version that the table may show."""

    def rows_written(self, step: int, task: str, rows: Sequence[Row]) -> None:
        """Check the rows that a sink subtask wrote."""
        for row in rows:
            key = row[: self._key_columns]
            version = self._versions.get(row)
            if version is None:
                self._violate(UNKNOWN_VERSION, f"{task}, step {step}", step, [row])
                continue
            self._shown[key] = version
            if version < self._least.get(key, -1):
                self._violate(BEHIND_THE_CUT, f"{task}, step {step}", step, [row])

    def checkpoint_completed(self, step: int, checkpoint: int, cut: Cut, in_flight: int) -> None:
        """Check that the table shows what the checkpoint covers; from now on no key may show an older row.

        Args:
            cut: the next offset of each split in the checkpoint.
            in_flight: the number of records that the checkpoint holds in channels.
        """
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
