"""How fast a program on trial is, and how long a run of it waits for what has not come.

Rules:

- Each run takes the times of its program. Those of the control run are the measures by which the others wait.
- The control run itself knows no times yet. It gives a program that does something more time than one that
  does nothing, and settles when the program has been quiet for longer than ever before.
- A run is quiet since the last thing that the program may answer with rows: a record, a row, a start, the end
  of a pause, a strike.
- Rows that are missing are late when they have not come by the pauses between rows, and by the time of a
  start that has shown none. The first trial with late rows waits the whole time for them and shows whether
  any come (a lease may have to end first). If none do, later trials end when their rows are late.
- A start that has not used the processor time of the first row yet is given more time as long as it works:
  the machine may be busier than it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from onceproof.harness.model.program_file import ProgramFile
from onceproof.harness.model.program_measures import Measured, is_busy

_TIMES_OF_A_LATE_START: Final = 10.0
_TIMES_TO_FIRST_ROW: Final = 3.0
_SECONDS_BETWEEN_ASKING: Final = 0.05
"""For the processor time of a program, which takes some itself."""

# What the control run waits.
_SECONDS_TO_FIRST_ROW: Final = 60.0
"""For a program that does nothing: it may wait for others by itself."""
_SECONDS_TO_NEXT_ROW: Final = 20.0
_TIMES_TO_NEXT_ROW: Final = 5.0
_SECONDS_TO_UNKNOWN_ROW: Final = 3.0
_SECONDS_TO_UNKNOWN_ROW_OF_SERVERS: Final = 15.0
_TIMES_TO_UNKNOWN_ROW: Final = 3.0
_SECONDS_TO_SETTLE: Final = 0.5
_SECONDS_TO_STOP: Final = 60.0
_TIMES_OF_WORK: Final = 5.0
"""How much longer a program is waited for that works."""


@dataclass(slots=True)
class LateRows:
    """What the trials of a program have shown of missing rows that are late."""

    came: bool = False
    """Whether some have come."""
    waited: bool = False
    """Whether the whole time was waited for some in vain."""

    @property
    def never_come(self) -> bool:
        """Whether such rows need not be waited for."""
        return self.waited and not self.came


@dataclass(slots=True)
class Pace:
    """The times of one run. All are those of the monotonic clock."""

    file: ProgramFile
    measured: Measured | None
    """By the control run; None: this is the control run."""
    ask_work: Callable[[], float]
    """Returns how much processor time the living processes of the program have used."""
    read_at: Callable[[], float]
    """Returns until when the output has been read: what a reader has not shown yet may be there."""
    late_rows: LateRows = field(default_factory=LateRows)
    """Of all trials of the program."""
    begun: float = field(default_factory=time.monotonic)
    started: float = 0.0
    """The last start."""
    changed: float = 0.0
    """When something happened last that the program may answer with rows."""
    _asked: float = 0.0
    """The same, without rows themselves."""
    starts: int = 0
    _origin: float = 0.0
    """When the last start was ready; the start itself if the program does not say so."""
    _origin_work: float = 0.0
    """The processor time that it had used then."""
    _first_row_seconds: float | None = None
    """From the start to the first row, then from its origin, then the processor time of both."""
    _answer_seconds: float = 0.0
    _work_seconds: float = 0.0
    _answer_work_seconds: float = 0.0
    _given: list[float] = field(default_factory=list)
    _looks: list[float] = field(default_factory=list)
    """When new rows were found."""
    _rows: int = 0
    _stop_seconds: float = 0.0
    phase_seconds: dict[str, float] = field(default_factory=lambda: {"start": 0.0, "feed": 0.0, "wait": 0.0})
    _spent_at: float = field(default_factory=time.monotonic)
    _printed: float = 0.0
    _is_late: bool = False
    """Whether missing rows have not come when they were expected."""
    _work: tuple[float, float] = (0.0, 0.0)
    """When the processor time was asked for, and what it was."""

    def start(self) -> None:
        """Note that the program starts."""
        self.started = self.changed = self._asked = self._origin = time.monotonic()
        self._origin_work = 0.0
        self.starts += 1

    def ready(self) -> None:
        """Note that it is ready for records."""
        self.changed = self._asked = time.monotonic()
        if self.file.ready:
            self._origin, self._origin_work = self.changed, self.ask_work()

    def give(self) -> None:
        """Note that a record is given."""
        self.changed = self._asked = time.monotonic()
        self._given.append(self.changed)

    def may_give(self, now: float) -> bool:
        """Return whether a program that is up can take the next record: the last one was a while ago."""
        if self._given and now < self._given[-1] + self.file.pace_ms / 1000:
            return False
        # A program that does not say when it is ready has had as long as its first row took.
        if self.measured is None or self.file.ready:
            return True
        return now - self.started >= self.measured.first_row_seconds

    def look(self, new: int) -> None:
        """Note that a look has found new rows, or others gone."""
        self.changed = time.monotonic()
        if not new:
            return
        self.late_rows.came |= self._is_late
        self._is_late = False
        self._rows += new
        self._looks.append(self.changed)
        if self._first_row_seconds is None:
            self._first_row_seconds = self.changed - self.started
            self._answer_seconds = self.changed - self._origin
            # A program that is over by now has no processor time that could be asked for.
            self._work_seconds = self.ask_work()
            self._answer_work_seconds = max(0.0, self._work_seconds - self._origin_work)

    def print(self) -> None:
        """Note that the program has printed a line."""
        self._printed = time.monotonic()

    def strike(self) -> None:
        """Note that something has been done to the program."""
        self.changed = self._asked = time.monotonic()

    def spend(self, is_ready: bool, is_all_given: bool) -> None:
        """Count the time since the last call for the phase in which the run is."""
        is_up = is_ready and (bool(self.file.ready) or self._first_row_seconds is not None)
        phase = "start" if not is_up else "wait" if is_all_given else "feed"
        now = time.monotonic()
        self.phase_seconds[phase] += now - self._spent_at
        self._spent_at = now

    def stop(self, asked: float) -> None:
        """Note that the program has ended that was asked to at a time."""
        self._stop_seconds = max(self._stop_seconds, time.monotonic() - asked)

    @property
    def stop_seconds(self) -> float:
        """After which a program that was asked to end is killed."""
        return _SECONDS_TO_STOP if self.measured is None else self.measured.stop_seconds_at_most

    def is_settled(self) -> bool:
        """Return whether a complete output has had its time to become more than complete."""
        quiet = self.quiet_for()
        own = self.measure()
        if self.measured is None:
            return quiet > max(_SECONDS_TO_SETTLE, own.settle_seconds, own.answer_seconds / 2)
        if quiet <= self.measured.settle_seconds:
            return False
        usual = self.measured
        if self._first_row_seconds is None:
            # Before any row it is slow rather than silent: faults that wait for rows are to meet some.
            if quiet <= _TIMES_TO_FIRST_ROW * (usual.first_row_seconds + usual.settle_seconds):
                return False
        else:
            # The machine may be busier than it was, and caches warmer.
            usual = replace(
                usual,
                ready_seconds=own.ready_seconds,
                first_row_seconds=own.first_row_seconds,
                answer_work_seconds=min(
                    usual.answer_work_seconds, own.answer_work_seconds or usual.answer_work_seconds
                ),
            )
        return usual.has_had_time(time.monotonic() - self._origin, lambda: self._worked() - self._origin_work)

    def is_late(self) -> bool:
        """Return whether missing rows are late, once such rows have been waited for in vain."""
        if not self._is_late and self._is_past_its_time():
            self._is_late = True
        return self._is_late and self.late_rows.never_come

    def is_quiet(self, *, are_missing: bool) -> bool:
        """Return whether nothing has happened for so long that nothing more is expected.

        ``are_missing``: rows are known to be missing; else it is not known which ones are to come.
        """
        now = time.monotonic()
        quiet, limit = self.quiet_for(), self._quiet_limit(are_missing)
        if quiet <= limit:
            return False
        self.late_rows.waited |= self._is_late
        seconds = now - self.started
        if self.measured is not None:
            late = quiet <= _TIMES_OF_A_LATE_START * limit
            return not (late and self.measured.is_on_its_way(seconds, self._worked()))
        if quiet > _TIMES_OF_WORK * limit:
            return True
        return now - self._printed > limit and not is_busy(seconds, self._worked())

    def _is_past_its_time(self) -> bool:
        """Return whether the program has shown no row for longer than its pauses and its start take."""
        usual = self.measured
        if usual is None or self.file.done.quiet_seconds is not None:
            return False
        looks = [each for each in self._looks if each >= self.started]
        pause = max([later - earlier for earlier, later in pairwise(looks)], default=0.0)
        has_answered = bool(looks) and looks[-1] >= self._asked
        limit = usual.seconds_to_be_late(self.file.servers, pause, has_answered=has_answered)
        if self.quiet_for() <= limit:
            return False
        return bool(looks) or not usual.is_on_its_way(time.monotonic() - self.started, self._worked())

    def quiet_for(self) -> float:
        """Return for how many seconds nothing has happened, as far as the output has been read."""
        return self.read_at() - self.changed

    def is_out_of_time(self) -> bool:
        """Return whether the run has lasted too long, whatever happens in it."""
        limit = self.file.done.most_seconds
        if limit is None:
            if self.measured is None:
                return False
            limit = self.measured.seconds_of_run(self.starts)
        return time.monotonic() - self.begun > limit

    def measure(self, marks: tuple[str, ...] = ()) -> Measured:
        """Return the measures of the run so far, in which some marks of transactions were passed."""
        now = time.monotonic()
        first = self._first_row_seconds
        after = self._looks[0] if self._looks else now
        latency = 0.0
        looks = iter(self._looks)
        look = next(looks, None)
        for given in self._given:
            while look is not None and look < given:
                look = next(looks, None)
            if look is not None:
                latency = max(latency, look - max(given, after))
        return Measured(
            ready_seconds=0.0 if first is None else first - self._answer_seconds,
            first_row_seconds=now - self.started if first is None else first,
            latency_seconds=latency,
            pause_seconds=max([later - earlier for earlier, later in pairwise(self._looks)], default=0.0),
            work_seconds=self._work_seconds,
            answer_work_seconds=self._answer_work_seconds,
            stop_seconds=self._stop_seconds,
            seconds=now - self.begun,
            records=len(self._given),
            rows=self._rows,
            marks=marks,
        )

    def _quiet_limit(self, are_missing: bool) -> float:
        done = self.file.done
        if self.measured is not None:
            learned = self.measured.quiet_seconds(self.file.servers, are_missing=are_missing)
            if done.when == "exit":
                learned += self.measured.stop_seconds_at_most
            return done.quiet_seconds or learned
        first = self._first_row_seconds
        if first is None:
            limit = _SECONDS_TO_FIRST_ROW
        elif are_missing:
            limit = done.quiet_seconds or max(_SECONDS_TO_NEXT_ROW, _TIMES_TO_NEXT_ROW * first)
        else:
            has_servers = bool(self.file.servers)
            least = _SECONDS_TO_UNKNOWN_ROW_OF_SERVERS if has_servers else _SECONDS_TO_UNKNOWN_ROW
            limit = done.quiet_seconds or max(least, _TIMES_TO_UNKNOWN_ROW * first)
        return min(limit, done.most_seconds or limit)

    def _worked(self) -> float:
        now = time.monotonic()
        if now - self._work[0] > _SECONDS_BETWEEN_ASKING:
            self._work = (now, self.ask_work())
        return self._work[1]
