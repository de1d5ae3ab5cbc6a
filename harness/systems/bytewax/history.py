"""Builds the history of a flow from the event logs of its processes, its recovery store and its output.

Rules:

- Epoch n is checkpoint n. It is complete when the next execution would begin behind it; the store says so
  once all processes are dead. Its cut is what the splits had read when it ended at the source.
- Its transactions are the rows that the snapshots of the sink list in it. So rows that are visible before
  their snapshot are an early commit, and rows that a sink takes away are gone.
- A completion has no event of its own, because Rust writes it. It is put where it can have been at the
  earliest: behind the last snapshot of its epoch. So no sink is accused because an event came late.
- A split counts its epochs by its snapshots, and all workers are in one epoch: none reads a record of the
  next one before the last one is in the store. The positions in the store must be those of the log.
- When all processes are dead, the files decide which rows are visible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.systems.bytewax.output import index_of, is_epoch_file, visible_rows
from onceproof.harness.systems.bytewax.recovery_store import FIRST_EPOCH, StoreContents, read_store
from onceproof.harness.systems.kit.run_history import NO_FILES, RunHistory
from onceproof.harness.systems.process.job_specification import HIDDEN, Spec
from onceproof.harness.systems.recording import event_log

# As source.py and sinks.py name them, which import Bytewax.
SPLIT_RESUMED: Final = "split_resumed"
EPOCH_BEGUN: Final = "epoch_begun"
SPLIT_SNAPSHOT: Final = "split_snapshot"
ROWS_SHOWN: Final = "rows_shown"
ROWS_CUT: Final = "rows_cut"
PART_SNAPSHOT: Final = "part_snapshot"


class BytewaxHistory:
    """Turns the events of one incarnation of a flow after another into one history."""

    def __init__(self, spec: Spec, lengths: Mapping[str, int]) -> None:
        self.run = RunHistory(spec.faults, lengths, spec.parallelism)
        self._output = Path(spec.output)
        self._store = Path(spec.checkpoints)
        self._seen = StoreContents()
        self._positions: dict[str, int] = dict.fromkeys(lengths, 0)
        """By split, how many records its last snapshot covers."""
        self._shown: dict[str, Counter[Row]] = {}
        """By file, the rows that are visible according to the events so far."""
        self._epoch = FIRST_EPOCH
        self._epochs: dict[str, int] = {}
        """By split, the epoch in which it is."""
        self._cuts: dict[int, dict[str, int]] = {}
        """By epoch that is not complete yet, what its splits had read."""
        self._listed_in: dict[int, list[str]] = {}
        """By epoch, the transactions that its snapshots list."""
        self._writers: dict[str, str] = {}
        """By transaction, the attempt that listed it last."""
        self._shown_by: dict[str, str] = {}
        """By visible transaction, the attempt that had listed it then, or showed it unlisted."""

    # The events of an incarnation.

    def add_process_log(self, events: list[dict[str, Any]]) -> None:
        """Add the event logs of an incarnation, once all its processes are dead."""
        self.run.log_begins()
        before, self._seen = self._seen, read_store(self._store)
        self._begin(before)
        last_of = self._last_events(events)
        for number, event in enumerate(events):
            self.run.next_step()
            self.add_event(event)
            self._complete_epochs(before.resumes_at, last_of.get(number, 0))
        self._complete_epochs(before.resumes_at, self._seen.resumes_at - 1)
        self._check_positions()
        self._look_outside()

    def _begin(self, before: StoreContents) -> None:
        """Add the attempt, with the checkpoint from which Bytewax says that it has begun."""
        is_new = self._seen.executions > before.executions
        epoch = self._seen.began_at if is_new else before.resumes_at
        run = self.run
        run.next_step()
        attempt = f"{run.history.statistics.attempts + 1}.1"
        run.attempt_started(attempt, run.next_parallelism, epoch - 1 if epoch > FIRST_EPOCH else None)
        self._epoch = epoch
        self._epochs = dict.fromkeys(self.run.lengths, epoch)
        # What a dead attempt has logged of epochs that are not complete is done again.
        self._cuts.clear()
        self._listed_in.clear()

    def _last_events(self, events: list[dict[str, Any]]) -> dict[int, int]:
        """Return by its number each event that is the last one of an epoch, and that epoch."""
        epochs = dict(self._epochs)
        current, last = self._epoch, {}
        for number, event in enumerate(events):
            match event["kind"]:
                case "epoch_begun":
                    current = max(current, epochs[event["split"]])
                    last[current] = number
                case "split_snapshot":
                    last[epochs[event["split"]]] = number
                    epochs[event["split"]] += 1
                case "part_snapshot":
                    last[current] = number
        return {number: epoch for epoch, number in last.items()}

    def _complete_epochs(self, begin: int, end: int) -> None:
        """Add the completion of the epochs up to ``end`` that the store has."""
        for epoch in range(begin, min(end, self._seen.resumes_at - 1) + 1):
            if epoch not in self.run.complete:
                cut = {**self._cut_before(epoch), **self._cuts.get(epoch, {})}
                self.run.checkpoint_completed(epoch, cut, self._listed_in.pop(epoch, []))

    def _cut_before(self, epoch: int) -> dict[str, int]:
        return self.run.complete.get(epoch - 1, dict.fromkeys(self.run.lengths, 0))

    def add_event(self, event: dict[str, Any]) -> None:
        """Add one event of a worker process."""
        match event["kind"]:
            case "split_resumed":
                self._positions[event["split"]] = event["position"]
            case "epoch_begun":
                self._epoch = max(self._epoch, self._epochs[event["split"]])
            case "split_snapshot":
                split = event["split"]
                self._cuts.setdefault(self._epochs[split], {})[split] = event["position"]
                self._epochs[split] += 1
            case "rows_shown":
                self._rows_shown(event)
            case "rows_cut":
                self._rows_cut(event["file"], Counter(map(as_tuple, event["rows"])))
            case "part_snapshot":
                for name in event["listed"]:
                    self._writers[name] = self.run.attempt
                self._listed_in.setdefault(self._epoch, []).extend(event["listed"])
            case event_log.TASK_FAILED:
                self.run.task_failed(event, self.run.attempt)
                self.run.cause_of_death = event["cause"]
            case event_log.FAULT_STRUCK:
                self.run.fault_struck(event)
                # A sink that fails ends the flow as well.
                self.run.death_was_planned = True
            case _:
                self.run.add_event(event)

    # The rows.

    def _rows_shown(self, event: dict[str, Any]) -> None:
        name, rows = event["name"], [as_tuple(row) for row in event["rows"]]
        file = name if is_epoch_file(name) else event["part"]
        self._show(name, file, event["number"], rows, event["at"])

    def _show(self, name: str, file: str, number: int, rows: list[Row], at: int | None) -> None:
        self._shown.setdefault(file, Counter()).update(rows)
        writer = self._shown_by.setdefault(name, self._writers.get(name, self.run.attempt))
        self.run.history.transaction_visible(self.run.step, name, index_of(file), writer, number, rows)
        if at is not None:
            self.run.job_commits_again(at)
            self.run.job_came_back(at)

    def _rows_cut(self, file: str, rows: Counter[Row]) -> None:
        # A process can die between showing rows and logging that.
        unlogged = rows - self._shown.get(file, Counter())
        if unlogged:
            self._show(
                f"{file} unlogged {self.run.step}", file, self.run.step, list(unlogged.elements()), None
            )
            self.run.next_step()
        self._shown[file] -= rows
        self.run.history.rows_gone(self.run.step, file, list(rows.elements()))

    def _look_outside(self) -> None:
        """Read the files, when no process lives."""
        seen = visible_rows(self._output)
        for file in {**self._shown, **seen}:
            rows, shown = seen.get(file, Counter()), self._shown.get(file, Counter())
            if rows - shown:
                self.run.next_step()
                name = file if is_epoch_file(file) else f"{file} unlogged {self.run.step}"
                self._show(name, file, self.run.step, list((rows - shown).elements()), None)
            if shown - rows:
                self.run.next_step()
                self.run.history.rows_gone(self.run.step, file, list((shown - rows).elements()))
            self._shown[file] = rows

    def _check_positions(self) -> None:
        """Compare the cut of the last complete epoch with the positions in the store."""
        complete = self.run.complete.get(self._seen.resumes_at - 1)
        if complete is None:
            return
        stored = {**dict.fromkeys(self.run.lengths, 0), **self._seen.positions}
        if stored != complete:
            text = f"the store has the positions {stored}, and the source was asked at {complete}"
            self.run.error("recovery store", "OtherPositions", "snapshot", text)

    # The end.

    def at_rest(self, checkpoints: Path, neighbour: Mapping[str, bytes] = NO_FILES) -> None:
        """Report rows that no reader will see, and half lines."""
        for path in sorted(self._output.iterdir()):
            if path.name in neighbour:
                continue
            if path.name.startswith(HIDDEN):
                self.run.history.leak(self.run.step, "open transaction", path.name)
            elif not path.read_bytes().endswith(b"\n") and path.stat().st_size:
                self.run.history.leak(self.run.step, "half row", path.name)
        self.run.history.statistics.steps = self.run.step
