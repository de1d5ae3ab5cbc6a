"""The rows of a family whose run declares what it chose, and whose records may be late.

Rules:

- A late row reaches ``expected`` only if it is that of a record that may be late; as many equal ones as there
  are such records. The others are left out, so the checkers report them and miss what they stand for.
- A record without a watermark strategy, such as that of a table, is never late. Each record that is asked for
  alone comes with all of these.
- A late row is that of a record if ``expected`` returns it for the records of its split up to this one and
  not up to the one before, or for this record alone. Where ``expected`` returns each late row that is given,
  if the row has all cells of the record.
- If the expected rows differ from the visible ones, `firings.py` says which differences are legitimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec.structs import replace

from onceproof.harness.checkers.arrivals import Arrival, Line, arrivals_of, line_of, only
from onceproof.harness.checkers.firings import Firings, Run
from onceproof.harness.model.family import Declared, FamilyOptions, Records, Rows
from onceproof.harness.model.family_places import judged_by
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    FAULT_FIRED,
    JOB_UPGRADED,
    Cut,
    Event,
    History,
    Row,
)
from onceproof.harness.model.scenario import BEHIND_RESTORE, InputRecord, Scenario
from onceproof.harness.model.watermarks import NO_WATERMARK, Timed, strategies_of
from onceproof.reports.notes import UNDECIDED

if TYPE_CHECKING:
    from onceproof.harness.model.family import Family


class SupportsExpected(Protocol):
    """The part of a family that an oracle needs."""

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return the rows that the job should commit for the records."""


class DeclaredRows:
    """Computes the rows that follow from a scenario and from what its run declares."""

    __slots__ = (
        "_arrivals",
        "_due_of",
        "_family",
        "_has_strategies",
        "_is_upgraded",
        "_options",
        "_scenario",
        "_set_by_ms",
        "_strategies",
    )

    def __init__(self, family: SupportsExpected, scenario: Scenario, options: FamilyOptions) -> None:
        self._family = family
        self._scenario = scenario
        self._options = options
        self._set_by_ms = sum(fault.delay for fault in scenario.faults if FAULTS[fault.kind].turns_clock)
        self._is_upgraded = any(operation.upgrades for operation in scenario.asked)
        self._due_of = None if options.due is None else cache(self._due)
        self._strategies: tuple[Timed, ...] | None = None
        self._has_strategies = False
        self._arrivals: dict[object, list[Arrival]] = {}
        """By a line of attempts."""

    def rows(
        self, records: Records, visible: Rows, history: History | None, checkpoint: int | None, is_whole: bool
    ) -> Counter[Row]:
        """Return the expected rows: the visible ones as far as a correct run may have them.

        Args:
            records: the input, or its part before a cut.
            visible: what the run declares.
            history: the run; None if only the rows are known, which are then compared as they are.
            checkpoint: that of the cut; None for the end of the run.
            is_whole: whether the records are the whole input, and the run has not ended before it.
        """
        declared = visible
        if self._options.late is not None:
            declared = self._possible(records, visible, history, checkpoint)
        rows = Counter(self._family.expected(records, self._of_run(declared, is_whole, history)))
        options = self._options
        if history is None or not self._scenario.is_exactly_once or options.table_keys or options.settles:
            return rows
        counted = Counter(visible)
        if rows == counted:
            return rows
        line = self._line(history, checkpoint)
        arrivals = self._arrivals_in(records, line)
        if not any(each.furthest >= each.timestamp - 1 for each in arrivals):
            return rows
        run = Run(
            records,
            counted,
            line,
            arrivals,
            is_whole,
            _in_flight(history, checkpoint),
        )
        try:
            return self._settled(rows, run, declared, history)
        except Exception:
            if self._options.late is not None:
                raise
            # A family without the option need not have an ``expected`` for parts of its input.
            return rows

    def judge(self, records: Records, visible: Rows, history: History) -> str:
        """Return who says what a run should have committed; "" where that is ``expected`` always."""
        return judged_by(self._family, records, self._of_run(visible, True, history))

    def _due(self, row: Row) -> int | None:
        """Return when a row is due; None for one that ``due`` cannot read: only a wrong job writes it."""
        assert self._options.due is not None
        try:
            return self._options.due(row, self._scenario.records)
        except Exception:
            if row in self._expected(self._scenario.records, (), True):
                raise
            return None

    def _settled(self, rows: Counter[Row], run: Run, declared: Rows, history: History) -> Counter[Row]:
        firings = Firings(
            lambda some: self._expected(some, declared, True), run, self._due_of, self._options.answers
        )
        rows = firings.settled(rows)
        if firings.undecided:
            history.statistics.notes += tuple([f"{UNDECIDED}{group}" for group in firings.undecided])
        return rows

    def _line(self, history: History | None, checkpoint: int | None) -> Line:
        # With at-least-once, a record counts in each attempt that reads it.
        is_known = history is not None and self._scenario.is_exactly_once
        return line_of(history, checkpoint) if history is not None and is_known else None

    def _possible(
        self, records: Records, visible: Rows, history: History | None, checkpoint: int | None
    ) -> Rows:
        """Return the visible rows without those that declare a record late which cannot be."""
        is_late = self._options.is_late
        late = [row for row in visible if is_late(row)]
        if not late:
            return visible
        arrivals = self._arrivals_in(records, self._line(history, checkpoint))
        table = [each for each in arrivals if not each.is_timed]
        of_table = Counter(self._expected(only(table, records), (), True))
        is_trusting = any(is_late(row) for row in self._expected(only(table, records), late, True))
        possible: Counter[Row] = Counter()
        for arrival in arrivals:
            if not arrival.is_timed or arrival.watermark < arrival.timestamp:
                continue
            alone = Counter(self._expected(only([*table, arrival], records), (), True)) - of_table
            rows = late if is_trusting else self._late_rows_of(arrival, records, table, late)
            dues = [] if self._due_of is None else map(self._due_of, alone)
            due = max((each for each in dues if each is not None), default=NO_WATERMARK)
            possible.update(
                {
                    row
                    for row in rows
                    if is_late(row)
                    and not (is_trusting and _lacks(row, arrival))
                    and arrival.watermark >= self._late_at(row, due)
                }
            )
        declared = []
        for row in visible:
            if is_late(row):
                if not possible[row]:
                    continue
                possible[row] -= 1
            declared.append(row)
        return declared

    def _late_rows_of(
        self, arrival: Arrival, records: Records, table: Sequence[Arrival], late: Sequence[Row]
    ) -> Sequence[Row]:
        """Return the late rows that a record adds to those before it in its split, or that it gives alone."""
        rest: dict[str, Sequence[InputRecord]] = {**only(table, records)}
        split = records[arrival.split]
        before = {**rest, arrival.split: split[: arrival.offset]}
        up_to = {**rest, arrival.split: split[: arrival.offset + 1]}
        rows = self._late_among(up_to, late) - self._late_among(before, late)
        return list(rows or self._late_among(only([*table, arrival], records), late))

    def _late_among(self, records: Records, late: Sequence[Row]) -> Counter[Row]:
        return Counter(filter(self._options.is_late, self._expected(records, late, True)))

    def _late_at(self, row: Row, otherwise: int) -> int:
        """Return the watermark from which the record of a late row is late."""
        due = None if self._due_of is None else self._due_of(row)
        return otherwise if due is None else due

    def _arrivals_in(self, records: Records, line: Line) -> list[Arrival]:
        """Return the arrivals of some first records of each split."""
        key = None if line is None else tuple([(each.name, *sorted(each.start.items())) for each in line])
        if key not in self._arrivals:
            self._arrivals[key] = self._all_arrivals(line)
        return [each for each in self._arrivals[key] if each.offset < len(records[each.split])]

    def _all_arrivals(self, line: Line) -> list[Arrival]:
        scenario = self._scenario
        if not self._has_strategies:
            self._has_strategies = True
            self._strategies = strategies_of(
                cast("Family", self._family), scenario.parameters, scenario.records
            )
        if self._strategies is None and self._options.late is None:
            return []
        return arrivals_of(scenario.records, self._strategies, line)

    def _expected(self, records: Records, declared: Sequence[Row], is_whole: bool) -> Rows:
        return self._family.expected(records, self._of_run(declared, is_whole, None))

    def _of_run(self, declared: Rows, is_whole: bool, history: History | None) -> Declared:
        upgraded_at = self._upgraded_at(history)
        scenario = None if upgraded_at is None else self._scenario
        restores = _restores_in(history) if is_whole and history is not None else (False, False)
        return Declared(
            declared,
            is_whole,
            self._scenario.parameters,
            self._set_by_ms,
            *restores,
            self._rested_at(history) if is_whole and history is not None else None,
            upgraded_at,
            scenario,
            self._scenario.starts_at_ms,
        )

    def _rested_at(self, history: History) -> Cut | None:
        """Return the cut of the state at which the job rested; None: it did not, or time passed elsewhere."""
        clocks = [each for each in self._scenario.faults if FAULTS[each.kind].turns_clock]
        if len(clocks) != 1 or replace(clocks[0], delay=0) != BEHIND_RESTORE:
            return None
        return _cut_of_rest(history.events)

    def _upgraded_at(self, history: History | None) -> Cut | None:
        """Return at which cut the new version of the job began; None: it has not."""
        # It is asked for at each checkpoint, and few scenarios upgrade the job.
        events = history.events if history is not None and self._is_upgraded else ()
        return next((payload["cut"] for _, kind, _, payload in events if kind == JOB_UPGRADED), None)


def _cut_of_rest(events: Sequence[Event]) -> Cut | None:
    """Return the cut of the state that had been restored when the clock was set.

    None: it was not set then, or other state from before is restored later.
    """
    cuts: dict[Any, Cut | None] = {}
    before: set[Any] = set()
    restored: Any = None
    for _, kind, subject, payload in events:
        if kind == CHECKPOINT_COMPLETED:
            cuts[subject] = None if payload["in_flight"] else payload["cut"]
        elif kind == ATTEMPT_STARTED:
            if before and payload.get("restored") != restored and payload.get("restored") in before:
                return None
            restored = restored if before else payload.get("restored")
        elif kind == FAULT_FIRED and FAULTS[subject].turns_clock:
            before = {None, *cuts}
    return cuts.get(restored) if before else None


def _lacks(row: Row, arrival: Arrival) -> bool:
    """Return whether a row lacks a cell of a record."""
    value = arrival.value
    return any(cell not in row for cell in (value if isinstance(value, tuple) else (value,)))


def _restores_in(history: History) -> tuple[bool, bool]:
    """Return whether an attempt began with a state from before, and whether with records in flight."""
    has_restored = has_in_flight = False
    in_flight: dict[Any, int] = {}
    for _, kind, subject, payload in history.events:
        if kind == CHECKPOINT_COMPLETED:
            in_flight[subject] = payload["in_flight"]
        elif kind == ATTEMPT_STARTED:
            restored = payload.get("restored")
            if "outside" in payload or restored is not None:
                has_restored = True
                # Of a checkpoint of another run nothing is known.
                has_in_flight = has_in_flight or in_flight.get(restored, 1) > 0
    return has_restored, has_in_flight


def _in_flight(history: History, checkpoint: int | None) -> bool:
    """Return whether a checkpoint holds records in flight."""
    return any(
        payload["in_flight"] > 0
        for _, kind, subject, payload in history.events
        if kind == CHECKPOINT_COMPLETED and subject == checkpoint
    )
