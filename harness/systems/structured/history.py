"""Builds the history of a query from the event logs of its processes and from its files.

Rules:

- Batch n is checkpoint n + 1, complete when its offsets are written. Its rows are the transaction batch-n,
  which that checkpoint lists. The transaction must become visible later, as a whole, once, and before the
  next one. A restarted query continues with the last planned batch, and makes it visible if necessary.
- A sink that writes by key has no transactions and repeats rows. There a checkpoint is a batch in Spark's
  commit log, and no older row may become visible after it.
- A batch that repartitions the state has no transaction; it is a checkpoint at the cut of the batch before.
- A batch belongs to the attempt that planned it, whichever attempt makes it visible.
- Between two attempts, when no process lives, the files decide what is visible. They do not show the writer,
  so rows without an event count for the last planned batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.systems.kit.run_history import NO_FILES, RunHistory
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.structured.output import (
    TABLE,
    batch_ends,
    finished_batches,
    visible_batches,
)
from onceproof.harness.systems.structured.points import WORKER_POINTS
from onceproof.harness.systems.structured.queries.query_answer import Answer
from onceproof.harness.systems.structured.rescale import is_repartition

LOOKED: Final = "looked"
ANSWERED: Final = "answered"
"""The event: the driver says what the query of a user should have written."""
QUERY_STOPPED: Final = "query_stopped"
"""The event: the query has stopped between two batches, in order to restart with other partitions."""
RESCALE: Final = ("rescale", "restoring")
"""The entry in the statistics of inapplicable faults if Spark cannot repartition the state of a query."""


def look(spec: Spec) -> dict[str, Any]:
    """Return the planned batches, the committed batches and the visible rows by batch, read from the files.

    Called when no process of the query is alive.
    """
    checkpoints = Path(spec.checkpoints)
    return {
        "planned": list(batch_ends(checkpoints).items()),
        "over": finished_batches(checkpoints),
        "rows": list(visible_batches(Path(spec.output)).items()),
    }


class StructuredHistory:
    """Turns the events of one driver after another into one history."""

    def __init__(
        self,
        spec: Spec,
        lengths: Mapping[str, int],
        table_keys: int,
        keep: Callable[[Answer], None] | None = None,
    ) -> None:
        self.run = RunHistory(spec.faults, lengths, spec.parallelism)
        self._spec = spec
        self._table_keys = table_keys
        self._keep = keep
        self._planned_in: dict[int, str] = {}
        """The attempt that planned each batch."""
        self._ends: dict[int, dict[str, int]] = {}
        self._shown: Counter[Row] = Counter()
        """The visible rows according to the events so far."""
        self._batches: set[int] = set()
        """The visible batches."""

    # The events of a process.

    def add_process_log(self, events: list[dict[str, Any]]) -> None:
        """Add the event log of a driver, and what the files say, once it and all its children are dead."""
        self.run.log_begins()
        for event in events:
            self.run.next_step()
            self.add_event(event)
        self.run.next_step()
        self._take_look(look(self._spec))

    def add_event(self, event: dict[str, Any]) -> None:
        """Add one event of a driver."""
        match event["kind"]:
            case event_log.PROCESS_STARTED:
                # The files that it finds were added at the death of the process before it.
                pass
            case "batch_planned":
                if event["cut"] is not None:
                    self._plan(event["batch"], event["cut"])
            case "batch_shown":
                self._show(event["batch"], _rows(event["new"]), _rows(event["gone"]), event["at"])
            case "table_written":
                self._write(_rows(event["rows"]), event["at"])
                if event.get("gone"):
                    # A key that no row has any more: the sink has lost what it should have replaced.
                    self.run.history.transaction_hidden(self.run.step, _name(event["batch"]))
            case "looked":
                self._take_look(event)
            case "answered":
                if self._keep is not None:
                    self._keep(msgspec.convert(event["answer"], Answer))
            case "query_stopped":
                self.run.history.job_stopped(self.run.step)
            case "rescale_refused":
                # The query goes on with the partitions that it has.
                left = self.run.history.statistics.not_applicable
                left[RESCALE] = left.get(RESCALE, 0) + 1
            case event_log.ATTEMPT_STARTED:
                attempt = f"{self.run.history.statistics.attempts + 1}.1"
                restored = event["restored"] if not self._table_keys else event["over"] or None
                self.run.attempt_started(attempt, event["parallelism"], restored)
            case event_log.FAULT_STRUCK:
                self._fault_struck(event)
            case _:
                self.run.add_event(event)

    def _fault_struck(self, event: dict[str, Any]) -> None:
        self.run.fault_struck(event)
        fault = self.run.faults[event["number"]]
        if FAULTS[fault.kind].kills_tasks and fault.point in WORKER_POINTS:
            # Spark runs the task again in another worker, and the attempt continues.
            recovery, _, reading = self.run.recovering[-1]
            self.run.record_recovery(recovery, max(self.run.complete, default=None), reading)

    # The history.

    def _plan(self, batch: int, cut: dict[str, int]) -> None:
        if batch in self._planned_in:
            return
        self._planned_in[batch] = self.run.attempt
        self._ends[batch] = cut
        if self._table_keys:
            # Spark plans a batch only after it has committed the one before.
            self._end_batches(batch)
        else:
            self._complete_batch(batch, [] if is_repartition(self._ends, batch) else [_name(batch)])

    def _end_batches(self, before: int) -> None:
        for batch in sorted(self._ends):
            if batch < before and batch + 1 not in self.run.complete:
                self._complete_batch(batch, [])

    def _complete_batch(self, batch: int, transactions: list[str]) -> None:
        # Closing records of a user's query are no input of the scenario.
        cut = {split: end for split, end in self._ends[batch].items() if split in self.run.lengths}
        self.run.checkpoint_completed(batch + 1, cut, transactions)

    def _show(self, batch: int, new: Counter[Row], gone: Counter[Row], at: int | None) -> None:
        """Record that rows of a batch became visible or hidden; an empty batch becomes visible once, too."""
        name = _name(batch)
        if gone:
            # A batch that is shown for the first time and takes away rows replaces those of earlier batches.
            is_replaced = bool(new) and batch not in self._batches
            self.run.history.transaction_hidden(self.run.step, name, is_replaced)
        if new or batch not in self._batches:
            self._batches.add(batch)
            attempt = self._planned_in.get(batch, self.run.attempt)
            self.run.history.transaction_visible(self.run.step, name, 0, attempt, batch, list(new.elements()))
        self._shown += new
        self._shown -= gone
        if new and at is not None:
            self.run.job_came_back(at)

    def _write(self, rows: Counter[Row], at: int | None) -> None:
        run = self.run
        self._shown += rows
        run.history.rows_written(run.step, "sink", run.attempt, self._table_keys, list(rows.elements()))
        if rows and at is not None:
            run.job_came_back(at)

    # The files.

    def _take_look(self, seen: dict[str, Any]) -> None:
        planned: dict[int, dict[str, int]] = dict(seen["planned"])
        by_batch = {batch: _rows(rows) for batch, rows in seen["rows"]}
        for batch, cut in sorted(planned.items()):
            self._plan(batch, cut)
            if batch in by_batch and batch not in self._batches:
                self.run.next_step()
                self._show(batch, by_batch[batch], Counter(), None)
        seen_rows: Counter[Row] = Counter()
        for rows in by_batch.values():
            seen_rows += rows
        if self._table_keys:
            self._take_look_at_table(seen_rows, seen["over"])
        elif seen_rows != self._shown:
            self.run.next_step()
            self._show(max(planned, default=0), seen_rows - self._shown, self._shown - seen_rows, None)

    def _take_look_at_table(self, rows: Counter[Row], over: list[int]) -> None:
        """Record the new rows of a table, which shows only the last row of each key."""
        new = Counter({row: count for row, count in rows.items() if row not in self._shown})
        if new:
            self._write(new, None)
        keys = self._table_keys
        if {row[:keys] for row in self._shown} - {row[:keys] for row in rows}:
            self.run.history.transaction_hidden(self.run.step, _name(max(self._ends, default=0)))
        self._end_batches(max(over, default=-1) + 1)

    # The end of the run.

    def at_rest(self, checkpoints: Path, neighbour: Mapping[str, bytes] = NO_FILES) -> None:
        """Report unpublished files of the harness's sinks as leaks; other hidden files belong to Spark."""
        for path in sorted(Path(self._spec.output).glob(".*.jsonl")):
            if path.name.startswith((".batch-", f".{TABLE}")):
                self.run.history.leak(self.run.step, "open transaction", path.name)
        self.run.history.statistics.steps = self.run.step


def _name(batch: int) -> str:
    return f"batch-{batch}"


def _rows(rows: Any) -> Counter[Row]:
    """Return rows from an event log or from files as a multiset of tuples."""
    return Counter(map(as_tuple, rows))
