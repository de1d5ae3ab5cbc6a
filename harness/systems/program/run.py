"""One trial of a program: it is started, fed, struck by faults, started again, and its output is watched.

Rules:

- One loop in one thread gives records, reads what the program prints, looks at its output, strikes and
  restarts. So the order of events is the order in which the harness saw them; an event's number is its step.
- A fault waits for a number of passes of its point (`waiting_faults.py`); one that becomes due while the
  program is down strikes as soon as it runs.
- The last record of each split is held back until the faults have struck and the program runs again: it is
  answered when the program has resumed, and what comes before it in its split has been repeated by then.
- The harness is the program's supervisor: a program that ends by itself is started again. One that does so
  many times in a row, without a new row, has failed for good.
- A trial is over when every expected row is there and the program has had its time to repeat some, or when
  what is missing has not come for a while, or when the program ends as its file says. What its last SIGTERM
  makes it write still counts.
- A program that is stuck before anything was done to it is a problem of its set-up, and no verdict.
- How long is a while follows from the control run (`pace.py`). The control run itself is a trial without
  faults, and is over as soon as the program ends by itself.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from onceproof.harness.model.close_rows import lacks_rows, with_rounding
from onceproof.harness.model.family import NOTHING_DECLARED, options_of
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History, Row, rows_at_end
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_file import MAIN_PROCESS, READ_POINT, SEEN_POINT, STARTED_POINT, filled
from onceproof.harness.model.program_measures import ControlRun, Measured, SetUpProblem
from onceproof.harness.model.program_processes import Process
from onceproof.harness.model.scenario import ANY_TASK, Fault, InputRecord, Operation, Scenario
from onceproof.harness.systems.flink.jobs import JobClusters, JobTrial, JobVersion
from onceproof.harness.systems.program.ends import ProgramEnds
from onceproof.harness.systems.program.history import ProgramHistory
from onceproof.harness.systems.program.hooks import render, run_hook
from onceproof.harness.systems.program.java_classes import keep_new, with_archive
from onceproof.harness.systems.program.marks import MarkWatch, nothing_held, watches
from onceproof.harness.systems.program.own_faults import OwnFaults
from onceproof.harness.systems.program.pace import LateRows, Pace
from onceproof.harness.systems.program.process import (
    SECONDS_BEFORE_RESTART,
    Launched,
    ProgramProcess,
    RunningProgram,
    last_output,
)
from onceproof.harness.systems.program.waiting_faults import WaitingFaults, records_in_turn

MOST_OWN_ENDS: Final = 8
"""How many times in a row a program may end by itself without a new row."""
_SECONDS_BETWEEN_LOOKS: Final = 0.002


@dataclass(slots=True)
class ProgramRun:
    """A trial of a program in a folder of its own."""

    family: ProgramFamily
    scenario: Scenario
    faults: tuple[Fault, ...]
    """Those of the scenario that strike here."""
    ends: ProgramEnds
    folder: Path
    measured: Measured | None
    """By the control run; None: this is the control run."""
    clusters: JobClusters = field(default_factory=JobClusters)
    late_rows: LateRows = field(default_factory=LateRows)
    _job: JobTrial | None = None
    _history: ProgramHistory = field(init=False)
    _process: RunningProgram | None = None
    _restart_at: float | None = 0.0
    """When the program starts next, while it does not run."""
    _by_supervisor: bool = False
    _is_ready: bool = False
    _pace: Pace = field(init=False)
    _paused_until: float | None = None
    _own_ends: int = 0
    _waiting: WaitingFaults = field(init=False)
    _watches: list[MarkWatch] = field(default_factory=list)
    _own: OwnFaults = field(init=False)
    _held_from: int = 0
    """How many records are given before the last ones of their splits, which are held back."""
    _given: int = 0
    _log: Path | None = None
    """What the last start has printed."""
    _expected: Counter[Row] | None = None
    """The rows that make a trial complete; None: they depend on what the program chooses."""
    _lacks_rows: bool = False
    """Whether it is known that some of them are missing. Asked in each turn, it changes with a look only."""
    _is_over: bool = False
    _is_cut_off: bool = False
    """Whether it is over without the end of the program that its file asks for."""
    _missed: str = ""
    """What did not come, as a sentence."""

    def __post_init__(self) -> None:
        self._history = ProgramHistory(self.family.options.table_keys, parallelism=self.scenario.parallelism)
        patience = 0.0 if self.measured is None else self.measured.quiet_seconds((), are_missing=True)
        self._own = OwnFaults(self.family.file, self.folder, str(self.family.path), patience)
        self._waiting = WaitingFaults((*self.faults, *self.scenario.asked))
        rest = self.ends.output.read_at, self.late_rows
        self._pace = Pace(self.family.file, self.measured, self._worked_seconds, *rest)

    def run(self) -> History:
        """Run the trial to its end and return its history. Raises FamilyError, SetUpProblem, ServiceError."""
        file = self.family.file
        if versions := self.family.jobs:
            found = [JobVersion(*version) for version in versions]
            self._job = JobTrial(found, self.clusters, self._history, self.ends.partitions)
        if not options_of(self.family).declares:
            self._expected = Counter(self.family.expected(self.scenario.records, NOTHING_DECLARED))
            self._lacks_rows = self._has_gaps(self._expected)
        self._watches = watches(self._waiting.waits_for, self.folder, self.ends, self.measured is None)
        in_turn, self._held_from = records_in_turn(self.scenario.records)
        records = iter(in_turn)
        following = next(records, None)
        while following is not None and not file.pace_ms:
            self._give(*following)
            following = next(records, None)
        if following is None:
            self.ends.input.all_given()
        try:
            while not self._is_over:
                now = time.monotonic()
                self._start_if_due(now)
                self._read_log()
                may_give = self._is_ready and self._pace.may_give(now)
                if following is not None and may_give and not self._holds_back(now):
                    self._give(*following)
                    following = next(records, None)
                    if following is None:
                        self.ends.input.all_given()
                self._look()
                self._pace.spend(self._is_ready, following is None)
                self._strike_what_is_due(time.monotonic())
                self._see_its_end(following is None)
                if following is None and self._is_done():
                    self._finish()
                elif self._is_out_of_time():
                    self._out_of_time()
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        finally:
            self._own.end()
            if self._process is not None:
                self._process.discard()
            if self._job is not None:
                self._job.close()
            for watch in self._watches:
                watch.close()
        self._pace.spend(self._is_ready, following is None)
        left = self.ends.output.left_behind(has_ended=file.done.when == "exit")
        return self._history.at_rest(left, self._pace.phase_seconds, self.folder)

    def control(self) -> ControlRun:
        """Run the trial as the control run. Raises FamilyError."""
        history = self.run()
        keep_new(self.family)
        is_over = bool(rows_at_end(history)) and not self._lacks_rows and not self._is_cut_off
        missed = "" if is_over else self._missed
        measured = self._pace.measure(self._history.transaction_marks)
        return ControlRun(history, measured, missed, last_output(self._log))

    # The program.

    def _start_if_due(self, now: float) -> None:
        if self._process is not None or self._restart_at is None or now < self._restart_at:
            return
        file = self.family.file
        self._history.started(self._by_supervisor, self._job.checkpoint if self._job else None)
        render(self.family, self.folder, self._values())
        again = self._history.starts > 1
        if again:
            self.ends.leave()
        hooks, name = file.hooks, "before_restart" if again else "before_start"
        self._run_hook(name, hooks.before_restart if again else hooks.before_start)
        delay_s = self.scenario.restart_delay_ms / 1000
        self._process = RunningProgram(file.processes, self._launch, delay_s)
        # A job of Flink has waited for its cluster.
        self._pace.start()
        self._restart_at = None
        self._is_ready = False
        self._by_supervisor = False
        if self._process.stdin is not None:
            self.ends.input.started(self._process.stdin)
        if self._process.is_ready:
            self._becomes_ready()

    def _launch(self, process: Process) -> Launched:
        """Start a process of the program."""
        starts, values = self._history.starts, self._values()
        is_main = process.name == MAIN_PROCESS
        self._log = self.folder / (f"start-{starts}.txt" if is_main else f"start-{starts}-{process.name}.txt")
        if self._job is not None:
            return self._job.start(values, self._log)
        resume = process.resume if starts > 1 else ()
        words = [filled(word, values) for word in (*process.command, *resume)]
        words = with_archive(self.family, process, words, makes=self.measured is None)
        environment = {name: filled(text, values) for name, text in process.environment.items()}
        return ProgramProcess(
            words,
            {**os.environ, **self.ends.environment, **environment},
            self.folder,
            self._log,
            self.ends.output.file_of_start(starts),
            f"{self.family.path}: " + ("program.command" if is_main else f"process {process.name!r}"),
        )

    def _restart(self, process: Process, by_supervisor: bool) -> Launched:
        """Start a process of several again, while the others live."""
        self._history.started(by_supervisor)
        started = self._launch(process)
        self._pace.strike()
        self._pass(STARTED_POINT)
        return started

    def _values(self) -> dict[str, str]:
        return {
            **self.ends.values,
            "parallelism": str(self._history.parallelism),
            "start": str(self._history.starts),
        }

    def _run_hook(self, name: str, command: Sequence[str]) -> None:
        place = f"{self.family.path}: hooks.{name}"
        run_hook(place, command, self.folder, self._values(), self.ends.environment)

    def _becomes_ready(self) -> None:
        self._run_hook("after_ready", self.family.file.hooks.after_ready)
        self._is_ready = True
        self._pace.ready()
        self._pass(STARTED_POINT)

    def _read_log(self) -> None:
        """Read what the program has printed since the last look, and count the marks in it."""
        if self._process is None:
            return
        marks = self.family.file.marks.items()
        for line in self._process.new_lines():
            self._pace.print()
            self._history.printed(f"start {self._history.starts}", line)
            for name in [name for name, pattern in marks if re.search(pattern, line)]:
                self._pass(name)
        if not self._is_ready and self._process.is_ready:
            self._becomes_ready()

    def _see_its_end(self, is_all_given: bool) -> None:
        """Note what has ended by itself, and decide whether the program is done or starts again."""
        if self._process is None:
            return
        for cause in self._process.tend(time.monotonic(), self._restart):
            self._ended(cause)
        if self._is_over or self._process.exit_code is None:
            return
        code, cause = self._process.exit_code, self._process.cause
        # What it has printed and written before its end is looked at before the next start.
        self._read_log()
        self._process.discard()
        self._process = None
        self._look()
        file = self.family.file
        if file.done.when == "exit" and code == 0 and is_all_given:
            self._pace.stop(self._pace.changed)
            self._end()
            return
        self._ended(cause)
        self._by_supervisor = True
        self._restart_at = time.monotonic() + SECONDS_BEFORE_RESTART

    def _ended(self, cause: str) -> None:
        """Note that the program, or a process of it, has ended by itself; it may have failed for good."""
        history = self._history
        history.ended(cause)
        self._own_ends += 1
        has_never_worked = history.is_undisturbed and not history.shown
        if self._own_ends > MOST_OWN_ENDS or has_never_worked or self.measured is None:
            history.failed(cause)
            self._missed = f"the program ended by itself ({cause})"
            self._is_over = self._is_cut_off = True

    # Records.

    def _holds_back(self, now: float) -> bool:
        """Return whether the last records wait for faults, and for the program to run again after them."""
        if self._given < self._held_from or self.measured is None:
            return False
        if self._is_busy():
            return True
        if self._waiting.may_come and self._pace.is_settled():
            self._waiting.hurry(now)
        return self._waiting.may_come

    def _give(self, split: str, record: InputRecord) -> None:
        self.ends.input.give(split, record)
        self._history.given(split, record)
        self._given += 1
        self._pace.give()
        self._pass(READ_POINT)

    # Rows.

    def _look(self) -> None:
        """Look at the output, and note which rows are there or gone since the last look."""
        # Rows first: what the marks of the last look have held up goes on when they are asked.
        rows = self.ends.output.rows()
        for watch in self._watches:
            for name, times in watch.passes().items():
                self._pass(name, times)
        stand = self.ends.output.stand if self.family.comparisons.have_orders else None
        new = None if rows is None else self._history.looked(rows, stand)
        if new is None:
            return
        if self._expected is not None:
            self._lacks_rows = self._has_gaps(self._expected)
        self._pace.look(new.total())
        if new:
            self._own_ends = 0
            self._pass(SEEN_POINT, new.total())

    # Faults.

    def _pass(self, name: str, times: int = 1) -> None:
        """Count passes of a point or mark; what has waited for one of them becomes due."""
        self._history.passed(name, times)
        self._waiting.passed(name, times, time.monotonic())

    def _strike_what_is_due(self, now: float) -> None:
        if self._paused_until is not None and now >= self._paused_until:
            self._paused_until = None
            self._pace.strike()
            if self._process is not None:
                self._process.resume()
        if self._own.has_undone():
            self._pace.strike()
        while (wanted := self._waiting.take_due(now, self._can_strike)) is not None:
            if isinstance(wanted, Fault):
                self._strike(wanted)
            else:
                self._stop()
            self._pace.strike()

    def _can_strike(self, wanted: Fault | Operation) -> bool:
        """Return whether what is to be struck runs; a server can be struck while the program is down."""
        if self._process is None:
            return isinstance(wanted, Fault) and bool(wanted.server)
        return not self._process.is_down(wanted.task)

    def _strike(self, fault: Fault) -> None:
        task = ANY_TASK
        match FAULTS[fault.kind].strikes, FAULTS[fault.kind].victims:
            case "tasks", "passing":
                assert self._process is not None, "only a program that runs has parts"
                part = self._process.kill_one(self.family.file.alone, fault)
                if part is None:
                    self._history.not_applicable(fault)
                    return
                task = part
            case "tasks" | "process", _:
                self._kill(fault)
            case "pause", _:
                self._pause(fault)
            case "own", _:
                self._own.strike(fault, partial(filled, values=self._values()))
                task = fault.name
            case _:
                self.ends.servers[fault.server].strike(fault)
        self._history.fault_fired(fault, task, self._given)

    def _kill(self, fault: Fault) -> None:
        """Kill all processes of the program; it is started again after the restart delay."""
        assert self._process is not None, "only a program that runs is killed"
        self._process.kill()
        self._read_log()
        # What it has still written before its death is its own, not that of the next start.
        self._look()
        self._process = None
        self._paused_until = None
        self._history.parallelism = fault.rescale_to or self._history.parallelism
        self._restart_at = time.monotonic() + self.scenario.restart_delay_ms / 1000

    def _pause(self, fault: Fault) -> None:
        """Stop all processes of the program for a while."""
        assert self._process is not None, "only a program that runs is paused"
        self._process.pause()
        self._paused_until = time.monotonic() + fault.delay / 1000

    def _stop(self) -> None:
        """End the program in order, and start it again."""
        assert self._process is not None, "only a program that runs is stopped"
        self._process.resume()
        self._paused_until = None
        with nothing_held(self._watches):
            self._process.stop(self._pace.stop_seconds)
        self._read_log()
        self._process = None
        self._look()
        self._history.stopped()
        self._restart_at = time.monotonic()

    # The end.

    def _is_done(self) -> bool:
        """Return whether a program that does not end by itself has had its time for all rows."""
        if self.family.file.done.when == "exit" or self._is_busy():
            return False
        if self._expected is not None and not self._lacks_rows:
            # A start that has nothing to repeat is as quiet as one that has not come to it yet.
            return self._pace.is_settled()
        is_late = self._lacks_rows and self._history.was_struck_as_a_whole and self._pace.is_late()
        return is_late or self._pace.is_quiet(are_missing=self._lacks_rows)

    def _is_out_of_time(self) -> bool:
        """Return whether a program that cannot be asked to end has done nothing for too long."""
        is_paused = self._paused_until is not None
        is_waited_for = self.family.file.done.when == "exit" or not self._is_ready
        return not self._is_over and (
            self._pace.is_out_of_time()
            or (is_waited_for and not is_paused and self._pace.is_quiet(are_missing=True))
        )

    def _is_busy(self) -> bool:
        """Return whether the program is down or held up, or is going to be."""
        is_held = self._process is None or not self._is_ready or self._paused_until is not None
        return is_held or self._own.are_striking or self._waiting.are_due

    def _has_gaps(self, expected: Counter[Row]) -> bool:
        """Return whether rows are missing of those that are expected."""
        # Rows that differ by rounding are there, right or not: no others come in their places.
        shown = self._history.shown
        rounded = with_rounding(expected | shown, self.family.comparisons)
        return lacks_rows(expected, shown.elements(), rounded)

    def _worked_seconds(self) -> float:
        return 0.0 if self._process is None else self._process.worked_seconds()

    def _finish(self) -> None:
        """End the program in order, and look once more."""
        self._missed = self._waited()
        assert self._process is not None, "only a program that runs is done"
        self._note_dead_parts(is_cut_off=False)
        asked = time.monotonic()
        with nothing_held(self._watches):
            self._process.stop(self._pace.stop_seconds)
        self._pace.stop(asked)
        self._process = None
        self._end()
        if self._lacks_rows and not self._history.shown:
            self._refuse_set_up()

    def _end(self) -> None:
        self.ends.output.read_to_end()
        self._look()
        self._history.finished()
        self._is_over = True

    def _out_of_time(self) -> None:
        self._missed = self._waited()
        self._note_dead_parts(is_cut_off=True)
        if self._process is not None:
            self._process.kill()
            self._process = None
        # A reader that has never shown anything says why.
        self.ends.output.read_to_end()
        self._look()
        self._history.out_of_time()
        self._is_over = self._is_cut_off = True
        self._refuse_set_up()

    def _refuse_set_up(self) -> None:
        """Raise SetUpProblem where a program is stuck to which nothing has been done yet."""
        if self.measured is not None and self._history.is_undisturbed:
            stuck = self.measured.stuck(self.family.path, self.scenario.seed, self._missed)
            raise SetUpProblem(stuck + last_output(self._log))

    def _note_dead_parts(self, is_cut_off: bool) -> None:
        """Note which parts were killed alone and do not run again, where something is missing."""
        if self._process is not None and (is_cut_off or self._lacks_rows):
            for part in self._process.dead_parts():
                self._history.part_dead(part)

    def _waited(self) -> str:
        """Return what has been waited for, and for how long, as a sentence."""
        if not self._is_ready:
            what = f"the ready line ({' and '.join(map(repr, self.family.file.ready))})"
        elif not self._history.shown:
            what = "the first row"
        elif self._lacks_rows:
            what = "the missing rows"
        else:
            what = "the end of the program"
        return f"{what} did not come in {self._pace.quiet_for():.1f} s"
