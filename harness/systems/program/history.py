"""Builds the history of a program from what the harness does to it and sees of it.

Rules:

- The order of events is the order in which the harness saw them; the number of an event is its step.
- Rows are seen, not committed: a look at the output says which rows are there or gone since the last look.
- A recovery begins with a kill and ends with the next new row.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import LOOK, History, Recovery, Row, Stand
from onceproof.harness.model.program_ends import OF_TRANSACTIONS
from onceproof.harness.model.run_record import RunRecord
from onceproof.harness.model.scenario import ANY_TASK, Fault, InputRecord

Left: TypeAlias = tuple[str, str, bool]
"""The kind and the name of what is left behind, and whether that is a leak."""
StandOf: TypeAlias = Callable[[int, int], Sequence[Stand]]

PROCESS: Final = "process"
OUTPUT: Final = "output"
_OF_ALL: Final = frozenset(
    [kind for kind, row in FAULTS.items() if row.strikes in ("process", "pause") or row.victims == "all"]
)
"""The kinds of faults that strike all processes of a program at once."""


@dataclass(slots=True)
class ProgramHistory:
    """The history of one trial. ``table_keys``: by how many columns the program replaces rows, or 0."""

    table_keys: int
    history: History = field(default_factory=History)
    parallelism: int = 1
    """Of the start that runs, or ran last."""
    starts: int = 0
    shown: Counter[Row] = field(default_factory=Counter)
    """The rows that are visible."""
    _looks: int = 0
    """Those that found a change."""
    _all_looks: int = 0
    _recovering: list[tuple[Recovery, float]] = field(default_factory=list)
    _record: RunRecord = field(default_factory=RunRecord)
    _step: int = 0

    @property
    def was_struck(self) -> bool:
        """Whether a fault has struck."""
        return bool(self.history.statistics.coverage)

    @property
    def is_undisturbed(self) -> bool:
        """Whether nothing has been done to the first start of the program."""
        return self.starts == 1 and not self.was_struck

    @property
    def was_struck_as_a_whole(self) -> bool:
        """Whether all that has struck were kills and pauses of all its processes, which leave no session."""
        return all(kind in _OF_ALL for kind, _ in self.history.statistics.coverage)

    @property
    def transaction_marks(self) -> tuple[str, ...]:
        """The marks of transactions that were passed."""
        return tuple([mark for mark in OF_TRANSACTIONS if mark in self.history.statistics.points])

    def started(self, by_supervisor: bool, restored: int | None = None) -> None:
        """Add a start.

        ``by_supervisor``: the program had ended by itself. ``restored`` is the checkpoint from which it goes
        on, as far as that is known.
        """
        self.starts += 1
        self.history.attempt_started(
            self._next_step(),
            str(self.starts),
            self.parallelism,
            restored,
            outside=True,
            by_supervisor=by_supervisor,
        )
        self.history.statistics.attempts += 1
        for recovery, _ in self._recovering:
            recovery.parallelism_after = self.parallelism

    def checkpoint_completed(self, checkpoint: int, cut: Mapping[str, int]) -> None:
        """Add that a checkpoint of the program is complete."""
        start = str(self.starts)
        self.history.checkpoint_completed(self._next_step(), checkpoint, start, dict(cut), (), outside=True)

    def ended(self, cause: str) -> None:
        """Add that the program has ended by itself."""
        step = self._next_step()
        self.history.task_failed(step, PROCESS, str(self.starts), cause, injected=self.was_struck)

    def passed(self, name: str, times: int) -> None:
        """Count passes of a point or mark."""
        points = self.history.statistics.points
        points[name] = points.get(name, 0) + times

    def looked(self, rows: Sequence[Row], stand: StandOf | None = None) -> Counter[Row] | None:
        """Add what a look at the output has found; return the new rows, None if nothing has changed.

        ``stand`` returns for the number of this look where its rows stand; None: their order does not count.
        """
        keys = self.table_keys
        self._all_looks += 1
        seen = Counter({row[:keys]: row for row in rows}.values()) if keys else Counter(rows)
        if seen == self.shown:
            return None
        new, gone = seen - self.shown, self.shown - seen
        self._looks += 1
        step = self._next_step()
        place, start = f"{LOOK}{self._looks}", str(self.starts)
        if keys:
            if {row[:keys] for row in gone} - {row[:keys] for row in new}:
                self.history.transaction_hidden(step, place)
            self.history.rows_written(step, OUTPUT, start, keys, list(new.elements()))
        else:
            if gone:
                self.history.rows_gone(step, place, list(gone.elements()))
            if new:
                found = _last_of(rows, new)
                stands = [] if stand is None else stand(self._all_looks, len(rows))
                own = [stands[at] for at in found] if stands else ()
                self.history.rows_found(step, place, start, [rows[at] for at in found], own)
        self.shown = seen
        if new:
            now = time.monotonic()
            for recovery, died in self._recovering:
                recovery.seconds = now - died
            self._recovering.clear()
        return new

    def fault_fired(self, fault: Fault, task: str, given: int) -> None:
        """Add a strike, when so many records had been given."""
        step, statistics = self._next_step(), self.history.statistics
        point = fault.mark or fault.point
        self.history.fault_fired(
            step, fault.kind, point, task, fault.means, outside=True, server=fault.server
        )
        statistics.count_strike(fault.kind, fault.point, fault.means)
        if FAULTS[fault.kind].is_kill:
            recovery = Recovery(fault.kind, point, task, self.parallelism, given)
            statistics.recoveries.append(recovery)
            self._recovering.append((recovery, time.monotonic()))
        if FAULTS[fault.kind].is_kill and task == ANY_TASK:
            self.history.task_failed(step, PROCESS, str(self.starts), "killed", injected=True)

    def not_applicable(self, fault: Fault) -> None:
        """Count a fault that found nothing to strike."""
        left = self.history.statistics.not_applicable
        left[fault.kind, fault.point] = left.get((fault.kind, fault.point), 0) + 1

    def stopped(self) -> None:
        """Add that the program was ended in order, to be started again."""
        self.history.job_stopped(self._next_step(), outside=True)

    def finished(self) -> None:
        """Add that the trial is over, with all that the program has to show."""
        self.history.job_finished(self._next_step())

    def failed(self, cause: str) -> None:
        """Add that the program has failed for good."""
        self.history.job_failed(self._step, cause)

    def part_dead(self, part: str) -> None:
        """Add that a part was killed alone and does not run again."""
        self.history.part_dead(self._next_step(), part)

    def out_of_time(self) -> None:
        """Add that the trial has lasted too long."""
        self.history.budget_exhausted(self._next_step())

    def given(self, split: str, record: InputRecord) -> None:
        """Note when a record was given."""
        self._record.given.append((time.time(), split, record))

    def printed(self, of: str, line: str) -> None:
        """Note when a line was seen that the program has printed."""
        self._record.add_line(time.time(), of, line)

    def at_rest(
        self, left_behind: Sequence[Left], phase_seconds: Mapping[str, float], folder: Path
    ) -> History:
        """Add what is left, the times of the phases and the files of the folder, and return the history."""
        self._record.add_files(folder)
        self.history.record = self._record
        for kind, name, is_leak in left_behind:
            if is_leak:
                self.history.leak(self._step, kind, name)
            else:
                self.history.logged(self._step, f"{kind}: {name}")
        self.history.statistics.steps = self._step
        statistics = self.history.statistics
        statistics.phase_milliseconds = {phase: each * 1000 for phase, each in phase_seconds.items()}
        statistics.milliseconds = sum(statistics.phase_milliseconds.values())
        return self.history

    def _next_step(self) -> int:
        self._step += 1
        self._record.times.append(time.time())
        return self._step


def _last_of(rows: Sequence[Row], new: Counter[Row]) -> list[int]:
    """Return the places of new rows among all: of equal rows, those that stand last."""
    left = Counter(new)
    found = []
    for place in reversed(range(len(rows))):
        if left[rows[place]] > 0:
            left[rows[place]] -= 1
            found.append(place)
    return found[::-1]
