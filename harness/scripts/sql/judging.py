"""What a run of a script should leave: said of each sink by DuckDB, else by the job's runs without faults.

Rules:

- The table of a sink is that of the statements in batch (`batch.py`); where these have no exact translation,
  that of the run without faults. Rows may be late or not (`late_rows.py`), so several tables may be right.
- Where the two differ without any fault, the statements mean something else to DuckDB, as where rows tie, or
  the job's logic is wrong: the run without faults judges.
- Where a run differs from them and runs without faults differ among themselves, the records do not determine
  the table, and it is not judged. They do determine it where the statements have the same table over the rows
  in the opposite order, and a run without faults has it too: then the others show that the job is wrong.
- Where a change may be late, and this matters to a sink, the order of arrival decides about its rows: runs
  without faults may agree by chance.
- Runs without faults start at the same time of the clock: rows may depend on it.
- A changelog must be sound where that of the calm run is.
- State may be gone once more time has passed than it lives for: then nothing is judged, unless it is known
  that all of it is gone (`expiry.py`).
- A sink does not keep the others from being judged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from onceproof.engine.table.plans import Plan
from onceproof.engine.table.values import Row
from onceproof.harness.model.family import Declared, Records, Rows
from onceproof.harness.model.split_names import source_of
from onceproof.harness.scripts.calm_runs import MINUTE_MS, CalmRuns, key_of
from onceproof.harness.scripts.sql import sink_tables
from onceproof.harness.scripts.sql.changelog import RowCounts, corrected, is_right
from onceproof.harness.scripts.sql.drawn_rows import RowDrawer, rows_left
from onceproof.harness.scripts.sql.expiry import begun_anew, forgets_after_ms, parts_of
from onceproof.harness.scripts.sql.late_rows import MaybeLate
from onceproof.harness.scripts.sql.repeats import adds_up, missing_rows
from onceproof.harness.scripts.sql.sql_ends import SinkTable
from onceproof.reports.notes import NO_JUDGE
from onceproof.reports.text import counted

if TYPE_CHECKING:
    from onceproof.harness.scripts.sql.batch import Batch

BY_DUCKDB: Final = "DuckDB"
BY_RUNS: Final = "its own runs without faults"
_MOST_KEPT: Final = 500

Possible: TypeAlias = Mapping[str, Sequence[RowCounts]]
"""By sink, the tables of which each is right; none: the statements in batch do not say."""


class Judgement(NamedTuple):
    """What a run should have committed."""

    rows: Rows
    by: str
    """Who says so; NO_JUDGE, and why, if the rows are those of the run."""


class _Case(NamedTuple):
    """A run that is judged."""

    records: Records
    declared: Declared
    changes: sink_tables.Changes
    possible: Possible
    calm: sink_tables.Changes
    of_calm: sink_tables.Tables


class Judge:
    """Judges the runs of a script's job.

    Args:
        plan: the job's.
        sinks: its sinks.
        drawers: what draws the rows of its sources, by table.
        looked_up: rows that never change, by table.
        batch: its statements; None: they have no translation.
        calm: its runs without faults.
        lives_ms: for how long state lives; 0: it never expires.
        repeats: whether records come again after a restore.
    """

    def __init__(
        self,
        plan: Plan,
        sinks: sink_tables.Sinks,
        drawers: Mapping[str, RowDrawer],
        looked_up: Mapping[str, Sequence[Row]],
        batch: Batch | None,
        calm: CalmRuns,
        *,
        lives_ms: int,
        repeats: bool,
    ) -> None:
        self._plan, self._sinks, self._drawers, self._looked_up = plan, sinks, drawers, looked_up
        self._batch, self._calm = batch, calm
        self._lives_ms, self._repeats = lives_ms, repeats
        self._answers: dict[tuple[object, ...], Possible] = {}

    def may_expire(self, declared: Declared) -> bool:
        """Return whether state may be gone in a run: it takes less than a minute if no clock is set."""
        return bool(self._lives_ms and declared.sets_clocks) and (
            declared.set_by_ms + MINUTE_MS >= self._lives_ms
        )

    def judgement(self, records: Records, declared: Declared) -> Judgement:
        """Return what a run should have committed."""
        rows = declared.rows
        if self.may_expire(declared):
            anew = self._begun_anew(records, declared)
            if anew is None:
                return Judgement(rows, f"{NO_JUDGE}a clock was set, and state has a time to live")
            return Judgement(self._corrected(rows, anew), BY_DUCKDB)
        if self.rows_at_end(records) is None:
            return Judgement(rows, f"{NO_JUDGE}no table has its changes")
        possible, changes = self.tables(records), sink_tables.by_sink(self._sinks, rows)
        doubtful = {
            name: end
            for name, end in self._sinks.items()
            if not any(is_right(end.sink, changes[name], table) for table in possible[name])
        }
        if not doubtful:
            return Judgement(rows, BY_DUCKDB)
        calm = self._calm.rows(records, declared.starts_at_ms)
        if calm is None:
            return Judgement(rows, f"{NO_JUDGE}its run without faults fails")
        of_calm = sink_tables.final_tables(self._sinks, calm)
        if self._repeats and declared.has_restored:
            return self._repeated(rows, changes, possible, of_calm)
        calm_changes = sink_tables.by_sink(self._sinks, calm.elements())
        case = _Case(records, declared, changes, possible, calm_changes, of_calm)
        parts = {
            name: self._of_sink(name, end, case)
            if name in doubtful
            else Judgement([*map(end.sink.written, changes[name])], BY_DUCKDB)
            for name, end in self._sinks.items()
        }
        return Judgement([row for part in parts.values() for row in part.rows], _judges(parts))

    def _of_sink(self, name: str, end: SinkTable, case: _Case) -> Judgement:
        own, declared, possible = case.changes[name], case.declared, case.possible[name]
        rows, calm = [*map(end.sink.written, own)], case.of_calm[name]
        late = self.maybe_late(case.records)[name]
        by = BY_DUCKDB if calm in possible else BY_RUNS
        if late is None:
            return Judgement(rows, f"{NO_JUDGE}rows may be late")
        if by == BY_RUNS and is_right(end.sink, own, calm):
            return Judgement(rows, by)
        if name in self._with_late_changes(case.records):
            return Judgement(rows, f"{NO_JUDGE}changes may be late")
        if late and declared.has_restored and (declared.has_in_flight or not self._keeps_late(name)):
            return Judgement(rows, f"{NO_JUDGE}a restore may have let late rows in")
        judged = Judgement(sink_tables.corrected_in(end, own, case.calm[name]), by)
        if by == BY_DUCKDB and self._is_free_of_order(case.records, name, late, possible):
            return judged
        right = possible if by == BY_DUCKDB else (calm,)
        over_time = declared.sets_clocks and not self._lives_ms
        variants = self._calm.variants(case.records, over_time=over_time, starts_at_ms=declared.starts_at_ms)
        if any(sink_tables.final_tables({name: end}, run)[name] not in right for run in variants):
            return Judgement(rows, f"{NO_JUDGE}its runs without faults differ")
        return judged

    def _repeated(
        self, rows: Rows, changes: sink_tables.Changes, possible: Possible, of_calm: sink_tables.Tables
    ) -> Judgement:
        """Judge a run whose records may have come twice: by key, as far as that changes no table."""
        if adding := adds_up(self._plan):
            return Judgement(rows, f"{NO_JUDGE}records may have come twice, and {adding} counts them")
        lacked: list[Row] = []
        for name, end in self._sinks.items():
            right = possible[name] or (of_calm[name],)
            missing: list[list[Row]] = [[*missing_rows(end.sink, changes[name], table)] for table in right]
            lacked += map(end.sink.written, sorted(missing, key=len)[0])
        return Judgement([*rows, *lacked], BY_DUCKDB if self._batch is not None else BY_RUNS)

    def _begun_anew(self, records: Records, declared: Declared) -> sink_tables.Tables | None:
        """Return the tables of a job that has forgotten all at a restore; None: that is not known."""
        cut, forgets_ms = declared.rested_at, forgets_after_ms(self._plan)
        are_changing = any(each.table.is_changing for each in self._drawers.values())
        if cut is None or not 0 < forgets_ms <= declared.set_by_ms or are_changing or self._batch is None:
            return None
        if self._lives_ms <= MINUTE_MS or declared.has_in_flight:
            return None
        parts = [self.tables(each) for each in parts_of(records, cut)]
        if not all(len(tables) == 1 for part in parts for tables in part.values()):
            return None
        return {
            name: begun_anew(end.sink, *[part[name][0] for part in parts])
            for name, end in self._sinks.items()
        }

    def _corrected(self, rows: Rows, tables: sink_tables.Tables) -> list[Row]:
        """Return the changes that should be there for some tables."""
        changes = sink_tables.by_sink(self._sinks, rows)
        return [
            row
            for name, end in self._sinks.items()
            for row in map(end.sink.written, corrected(end.sink, changes[name], tables[name], is_sound=True))
        ]

    def _keeps_late(self, sink: str) -> bool:
        """Return whether rows of a sink that were late before a restore are late after it."""
        kinds = [drawer.lateness.get(sink) for drawer in self._drawers.values()]
        return all(each.is_kept for each in kinds if each is not None)

    def _with_late_changes(self, records: Records) -> set[str]:
        """Return the sinks to which it matters that some change of a table may be late."""
        late: set[str] = set()
        for split, own in records.items():
            drawer = self._drawers[source_of(split)]
            mark = drawer.mark()
            for _, value in own if drawer.may_be_late else ():
                row = drawer.table.change_of(value)[1]
                if mark.behind(row) is not None:
                    late |= drawer.mattering_to
                mark.take(row)
        return late

    def _is_free_of_order(
        self, records: Records, name: str, late: Sequence[MaybeLate], possible: Sequence[RowCounts]
    ) -> bool:
        """Return whether the statements in batch have the same tables over rows in the opposite order."""
        rows = self.rows_at_end(records)
        if self._batch is None or rows is None or any(each.may_be_late for each in self._drawers.values()):
            return False
        backwards = self._batch.tables(rows, late, [name], is_backwards=True)
        return backwards is not None and [tables.get(name) for tables in backwards] == [*possible]

    # The tables that should be there.

    def tables(self, records: Records) -> Possible:
        """Return by sink the tables that it may hold, by the statements in batch.

        There are several where rows may be late or not, and none where the statements do not say.
        """
        key = key_of(records)
        if key not in self._answers:
            if len(self._answers) >= _MOST_KEPT:
                self._answers.clear()
            self._answers[key] = self._computed(records)
        return self._answers[key]

    def _computed(self, records: Records) -> Possible:
        found: dict[str, Sequence[RowCounts]] = dict.fromkeys(self._sinks, ())
        rows = self.rows_at_end(records)
        if rows is None or self._batch is None:
            return found
        together: dict[tuple[MaybeLate, ...], list[str]] = {}
        for name, own in self.maybe_late(records).items():
            if own is not None:
                together.setdefault(tuple(own), []).append(name)
        for late, names in together.items():
            tables = self._batch.tables(rows, late, names) or ()
            found |= {name: [each[name] for each in tables if name in each] for name in names}
        return found

    def maybe_late(self, records: Records) -> dict[str, list[MaybeLate] | None]:
        """Return by sink which of the rows of tables may be late; None: this is not known."""
        found: dict[str, list[MaybeLate] | None] = {name: [] for name in self._sinks}
        places = dict.fromkeys(self._drawers, 0)
        for split, own in records.items():
            drawer = self._drawers[source_of(split)]
            if not drawer.lateness:
                continue
            name, mark = drawer.table.name, drawer.mark()
            for _, value in own:
                row = drawer.table.change_of(value)[1]
                if (behind := mark.behind(row)) is not None:
                    for sink, lateness in drawer.lateness.items():
                        late = found[sink]
                        if lateness is None:
                            found[sink] = None
                        elif late is not None and (ends := lateness.ends(*behind)):
                            late.append(MaybeLate(name, places[name], tuple(ends)))
                mark.take(row)
                places[name] += 1
        return found

    def rows_at_end(self, records: Records) -> dict[str, list[Row]] | None:
        """Return the rows that the changes leave in each source; None where no table has such changes.

        That happens where a record has been left out to make a scenario smaller.
        """
        found: dict[str, list[Row]] = {name: list(own) for name, own in self._looked_up.items()}
        found |= {name: [] for name in self._drawers}
        for split, own in records.items():
            table = self._drawers[source_of(split)].table
            changes = [table.change_of(value) for _, value in own]
            rows = rows_left(changes, table.mode, table.end.primary_key)
            if rows is None:
                return None
            found[table.name] += rows
        return found

    def difference(self, workloads: Collection[Records]) -> str:
        """Return how the statements in batch and runs without faults differ; "": they do not."""
        if self._batch is None:
            return ""
        differ, first, no_tables = 0, "", 0
        for records in workloads:
            calm = self._calm.rows(records)
            if calm is None or self.rows_at_end(records) is None:
                continue
            possible, of_calm = self.tables(records), sink_tables.final_tables(self._sinks, calm)
            is_late = self.maybe_late(records)
            no_tables += any(not own and is_late[name] is not None for name, own in possible.items())
            wrong = {name: own[0] for name, own in possible.items() if own and of_calm[name] not in own}
            if wrong:
                differ += 1
                first = first or sink_tables.first_difference(wrong, of_calm)
        said = []
        if differ:
            said.append(f"differ from the job's own run without faults in {differ}: {first}")
        if no_tables:
            said.append(f"cannot be executed by DuckDB in {no_tables}")
        if not said:
            return ""
        return (
            f"of {len(workloads)} workloads, the statements in batch {' and '.join(said)}; a scenario of that"
            " kind is judged by its own run without faults"
        )


def _judges(parts: Mapping[str, Judgement]) -> str:
    """Return who says what a run should have committed, by sink."""
    reasons = [each.by for each in parts.values() if each.by.startswith(NO_JUDGE)]
    if len(reasons) == len(parts):
        return reasons[0]
    by = BY_RUNS if any(each.by == BY_RUNS for each in parts.values()) else BY_DUCKDB
    return f"{by} but for {counted(len(reasons), 'table')}" if reasons else by
