"""From what the processes of a query told, and what it left, to the history that checkers judge.

The rules this module lives by:

- Batch n is checkpoint n + 1, complete once its offsets are written, and its rows are the transaction
  batch-n, which that checkpoint lists. So it must become visible after that, whole, once, and before the next
  one; a query that is started again goes on from the last batch that was planned, and shows it if need be.
- A sink that writes by key has no transactions, and repeats rows. There a checkpoint is a batch that Spark
  has noted as over: no row that is older may be shown after it.
- A batch by which state was dealt out anew has no transaction: it is a checkpoint at the cut of the last one.
- A batch counts for the attempt in which it was planned, whichever shows it.
- When nobody is alive, between two attempts, a look at the files decides what there is, told or not. It
  does not say who showed it, so rows that nobody told count for the last batch that was planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.process.visible_outputs import read_json_rows
from onceproof.harness.systems.recording.history_builder import Retelling
from onceproof.harness.systems.structured.query_fault_points import WORKER_POINTS
from onceproof.harness.systems.structured.query_output import (
    TABLE,
    batch_ends,
    finished_batches,
    visible_batches,
)
from onceproof.harness.systems.structured.query_rescale import is_repartition

LOOKED: Final = "looked"
QUERY_STOPPED: Final = "query_stopped"
"""The event: the query has ended between two batches, to go on with another number of partitions."""
RESCALE: Final = ("rescale", "restoring")
"""What stands among the faults that are not applicable where Spark cannot deal out a query's state anew."""


def look(spec: Spec) -> dict[str, Any]:
    """Return what can be seen when nobody is alive: batches planned, batches over, rows by batch."""
    checkpoints = Path(spec.checkpoints)
    return {
        "planned": list(batch_ends(checkpoints).items()),
        "over": finished_batches(checkpoints),
        "rows": list(visible_batches(Path(spec.output)).items()),
    }


class StructuredRetelling(Retelling):
    """Turns the events of one driver after another into one history."""

    def __init__(self, spec: Spec, lengths: Mapping[str, int], table_keys: int) -> None:
        super().__init__(
            spec.faults, lengths, Path(spec.output), spec.suffix, read_json_rows, spec.parallelism
        )
        self._spec = spec
        self._table_keys = table_keys
        self._planned_in: dict[int, str] = {}
        """By batch, the attempt in which it was planned."""
        self._ends: dict[int, dict[str, int]] = {}
        self._shown: Counter[Row] = Counter()
        """All rows that can be read, as far as was told."""
        self._batches: set[int] = set()
        """Those that are visible."""
        self._attempts = 0

    # The events of a process.

    def _process_started(self, event: dict[str, Any]) -> None:
        """A driver finds nothing that the look at the death of the one before it has not found."""

    def _attempt_started(self, event: dict[str, Any]) -> None:
        self._attempts += 1
        restored = event["restored"] if not self._table_keys else event["over"] or None
        super()._attempt_started({**event, "attempt": f"{self._attempts}.1", "restored": restored})

    def _batch_planned(self, event: dict[str, Any]) -> None:
        if event["cut"] is not None:
            self._plan(event["batch"], event["cut"])

    def _batch_shown(self, event: dict[str, Any]) -> None:
        self._show(event["batch"], _rows(event["new"]), _rows(event["gone"]), event["at"])

    def _table_written(self, event: dict[str, Any]) -> None:
        self._write(_rows(event["rows"]), event["at"])

    def _looked(self, event: dict[str, Any]) -> None:
        self._take_look(event)

    def _query_stopped(self, event: dict[str, Any]) -> None:
        self.history.job_stopped(self._step)

    def _rescale_refused(self, event: dict[str, Any]) -> None:
        """The query goes on with the partitions that it has."""
        left = self.history.statistics.not_applicable
        left[RESCALE] = left.get(RESCALE, 0) + 1

    def _fault_struck(self, event: dict[str, Any]) -> None:
        super()._fault_struck(event)
        fault = self._faults[event["number"]]
        if fault.kind in ("kill_task", "kill_all") and fault.point in WORKER_POINTS:
            # Spark gives its work to another worker, and the attempt goes on.
            recovery, _, reading = self._waiting[-1]
            self.goes_on(recovery, max(self._complete, default=None), reading)

    # What it means.

    def _plan(self, batch: int, cut: dict[str, int]) -> None:
        if batch in self._planned_in:
            return
        self._planned_in[batch] = self._attempt
        self._ends[batch] = cut
        if self._table_keys:
            # The one before it is over, or this one could not have been planned.
            self._end_batches(batch)
        else:
            self._complete_batch(batch, [] if is_repartition(self._ends, batch) else [_name(batch)])

    def _end_batches(self, before: int) -> None:
        for batch in sorted(self._ends):
            if batch < before and batch + 1 not in self._complete:
                self._complete_batch(batch, [])

    def _complete_batch(self, batch: int, transactions: list[str]) -> None:
        self._complete[batch + 1] = self._ends[batch]
        attempt = self._attempt
        self.history.checkpoint_completed(
            self._step, batch + 1, attempt, self._ends[batch], transactions, (attempt,)
        )

    def _show(self, batch: int, new: Counter[Row], gone: Counter[Row], at: int | None) -> None:
        """Rows of a batch can be read; a batch without any becomes visible as well, once."""
        name = _name(batch)
        if gone:
            self.history.transaction_hidden(self._step, name)
        if new or batch not in self._batches:
            self._batches.add(batch)
            attempt = self._planned_in.get(batch, self._attempt)
            self.history.transaction_visible(self._step, name, 0, attempt, batch, list(new.elements()))
        self._shown += new
        self._shown -= gone
        if new and at is not None:
            self._job_came_back(at)

    def _write(self, rows: Counter[Row], at: int | None) -> None:
        self._shown += rows
        self.history.rows_written(self._step, "sink", self._attempt, self._table_keys, list(rows.elements()))
        if rows and at is not None:
            self._job_came_back(at)

    # The files.

    def _look_outside(self) -> None:
        """At the death of a process."""
        self._step += 1
        self._take_look(look(self._spec))

    def _take_look(self, seen: dict[str, Any]) -> None:
        planned: dict[int, dict[str, int]] = dict(seen["planned"])
        by_batch = {batch: _rows(rows) for batch, rows in seen["rows"]}
        for batch, cut in sorted(planned.items()):
            self._plan(batch, cut)
            if batch in by_batch and batch not in self._batches:
                self._step += 1
                self._show(batch, by_batch[batch], Counter(), None)
        seen_rows: Counter[Row] = Counter()
        for rows in by_batch.values():
            seen_rows += rows
        if self._table_keys:
            self._take_look_at_table(seen_rows, seen["over"])
        elif seen_rows != self._shown:
            self._step += 1
            self._show(max(planned, default=0), seen_rows - self._shown, self._shown - seen_rows, None)

    def _take_look_at_table(self, rows: Counter[Row], over: list[int]) -> None:
        """Of a table only the last row of each key is there to be seen."""
        new = Counter({row: count for row, count in rows.items() if row not in self._shown})
        if new:
            self._write(new, None)
        self._end_batches(max(over, default=-1) + 1)

    # The end.

    def at_rest(self, checkpoints: Path) -> None:
        """Look for what the sinks of the harness leave behind; what a user's or Spark's hides is its own."""
        for path in sorted(self._output.glob(".*.jsonl")):
            if path.name.startswith((".batch-", f".{TABLE}")):
                self.history.leak(self._step, "open transaction", path.name)
        self.history.statistics.steps = self._step


def _name(batch: int) -> str:
    return f"batch-{batch}"


def _rows(rows: Any) -> Counter[Row]:
    """Rows as the log has them, or as they are."""
    return Counter(map(as_tuple, rows))
