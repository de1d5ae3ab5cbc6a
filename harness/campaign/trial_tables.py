"""Trials as Arrow tables, which executors write to Parquet files.

The rules this module lives by:

- One row is one scenario with all data for its judgement: the outcome in its own columns, the input records
  and the committed rows as lists of structs. So a repeated task replaces whole scenarios, and no join is
  needed.
- Each column is built by one call: a call for each value would cost as much as the simulation.
- A value that does not fit record_schema is an error of the family. A row that does not fit row_schema is a
  wrong row, which an engine with a bug may commit: it is stored as text and counts as a difference.
- This module needs no JVM: the driver sends the schemas as Arrow schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import pyarrow as pa

from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.outcome import Outcome, to_line
from onceproof.harness.model.family import Declared, Family, FamilyError, Records, options_of
from onceproof.harness.model.family_places import in_spark
from onceproof.harness.model.history import History, Row, rows_at_end
from onceproof.harness.model.scenario import Parameter, Scenario

_PARAMETERS: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
_COUNTS: Final = pa.map_(pa.string(), pa.int64())
_TIMES: Final = pa.map_(pa.string(), pa.float64())

# The fields of Outcome, in their order: a Parquet file can be turned into outcomes.jsonl and back.
OUTCOME_COLUMNS: Final[dict[str, Any]] = {
    "family": pa.string(),
    "generator_version": pa.int64(),
    "seed": pa.int64(),
    "passed": pa.bool_(),
    "signature": pa.list_(pa.string()),
    "violations": pa.list_(pa.list_(pa.string())),
    "trace_hash": pa.string(),
    "steps": pa.int64(),
    "attempts": pa.int64(),
    "checkpoints": pa.int64(),
    "kills": pa.int64(),
    "rescales": pa.int64(),
    "records": pa.int64(),
    "records_replayed": pa.int64(),
    "recovery_steps": pa.int64(),
    "milliseconds": pa.float64(),
    "coverage": _COUNTS,
    "planned": _COUNTS,
    "not_applicable": _COUNTS,
    "points": _COUNTS,
    "timers_before_end": pa.int64(),
    "timers_at_end": pa.int64(),
    "situations": pa.list_(pa.string()),
    "notes": pa.list_(pa.string()),
    "watched": _COUNTS,
    "recovery_seconds": pa.list_(pa.float64()),
    "waited_milliseconds": pa.float64(),
    "phase_milliseconds": _TIMES,
}
_MAPS: Final = frozenset(name for name, kind in OUTCOME_COLUMNS.items() if kind in (_COUNTS, _TIMES))

_MISFITS: Final = (pa.ArrowException, TypeError, OverflowError, ValueError)

JUDGEMENT_COLUMNS: Final[dict[str, Any]] = {
    # Whether the job finished: if not, missing rows are not lost.
    "finished": pa.bool_(),
    # Whether rows differ for the Python oracle; null for at-least-once, which the Spark oracle does not
    # judge.
    "rows_differ": pa.bool_(),
    # The committed rows that do not fit row_schema, as repr().
    "unfit": pa.list_(pa.string()),
}

OUTCOME_NAMES: Final = ("scenario_id", *OUTCOME_COLUMNS)
COLUMNS_OF_A_FAMILY: Final = frozenset(("input", "committed"))
"""Those whose type differs by family."""


@dataclass(frozen=True, slots=True)
class TriedScenario:
    """A scenario with its outcome and its committed rows."""

    number: int
    """The scenario's number in the campaign, counted from 0."""
    scenario: Scenario
    outcome: Outcome
    committed: Sequence[Row]
    finished: bool
    is_judged: bool = True
    """Whether the query judges it."""

    @classmethod
    def of(cls, number: int, scenario: Scenario, outcome: Outcome, history: History) -> TriedScenario:
        """Return the trial of a run; its committed rows are those that are visible at the end."""
        return cls(number, scenario, outcome, rows_at_end(history), history.has_finished)

    def for_query(self, family: Family) -> TriedScenario:
        """Return the trial as a query judges it.

        A query knows nothing of watermarks and restores. Where the checkers have found that rows are right
        although late records came again, it gets the rows that these records give in one firing. A table
        whose job has not finished may show earlier rows of a key: it gets none of those. Where there is no
        query, and so no schema, values and rows are kept as text.
        """
        scenario = self.scenario
        if (query := in_spark(family)) is not family:
            return self._for_statements(family, query)
        if not family.oracle_sql:
            return self._as_text()
        if _rows_differ(self.outcome):
            return self
        options = options_of(family)
        if options.table_keys and not self.finished:
            return replace(self, committed=())
        if options.late is None or not scenario.is_exactly_once:
            return self
        declared = Declared(self.committed, True, scenario.parameters)
        return replace(self, committed=family.expected(scenario.records, declared))

    def _as_text(self) -> TriedScenario:
        records = {
            split: tuple([(timestamp, repr(value)) for timestamp, value in own])
            for split, own in self.scenario.records.items()
        }
        return self._with(records, [(repr(row),) for row in self.committed])

    def _for_statements(self, family: Family, query: Family) -> TriedScenario:
        """Return the trial of a script of Flink SQL as its statements in Spark SQL judge it."""
        if not query.oracle_sql:
            return self._as_text()
        script: Any = family
        given = script.for_spark(self.scenario.records, self.committed, _rows_differ(self.outcome))
        if given is None:
            return replace(self._with({}, ()), is_judged=False)
        return self._with(*given)

    def _with(self, records: Records, rows: Sequence[Row]) -> TriedScenario:
        scenario = msgspec.structs.replace(self.scenario, records=dict(records))
        return replace(self, scenario=scenario, committed=rows)


@dataclass(frozen=True, slots=True)
class TrialTables:
    """Converts the trials of one family to Arrow batches."""

    family: str
    record_schema: pa.Schema
    """split, offset, timestamp, and the columns of the family's record_schema."""
    row_schema: pa.Schema
    """The columns of the family's row_schema."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of a table of trials."""
        fields = [("scenario_id", pa.int64()), *OUTCOME_COLUMNS.items(), *JUDGEMENT_COLUMNS.items()]
        fields += [
            ("input", pa.list_(pa.struct(list(self.record_schema)))),
            ("committed", pa.list_(pa.struct(list(self.row_schema)))),
            ("parameters", _PARAMETERS),
        ]
        return pa.schema(fields)

    def batch(self, trials: Sequence[TriedScenario]) -> pa.RecordBatch:
        """Return trials as one batch."""
        outcomes = [trial.outcome for trial in trials]
        columns: list[Any] = [pa.array([trial.number for trial in trials], pa.int64())]
        for name, kind in OUTCOME_COLUMNS.items():
            values = [getattr(outcome, name) for outcome in outcomes]
            if name in _MAPS:
                columns.append(_maps(values))
            else:
                columns.append(pa.array(values, kind))
        committed, unfit = self._committed([trial.committed for trial in trials])
        columns.append(pa.array([trial.finished for trial in trials], pa.bool_()))
        differ = [
            _rows_differ(trial.outcome) if trial.scenario.is_exactly_once and trial.is_judged else None
            for trial in trials
        ]
        columns.append(pa.array(differ, pa.bool_()))
        columns.append(pa.array(unfit, JUDGEMENT_COLUMNS["unfit"]))
        columns.append(self._input([trial.scenario for trial in trials]))
        columns.append(committed)
        columns.append(pa.array([_texts(trial.scenario.parameters) for trial in trials], _PARAMETERS))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def check(self, scenario: Scenario, rows: Sequence[Row]) -> None:
        """Raise FamilyError if a scenario's records or expected rows do not fit the family's schemas."""
        self._input([scenario])
        for row in rows:
            if not self._fits(row):
                raise FamilyError(
                    f"family {self.family}: expected() returns {row!r}, which does not fit row_schema"
                )

    def _input(self, scenarios: Sequence[Scenario]) -> pa.Array:
        """Return each scenario's records as a list of structs."""
        width = len(self.record_schema) - 3
        rows: list[tuple[Any, ...]] = []
        offsets = [0]
        for scenario in scenarios:
            for split, records in scenario.records.items():
                for offset, (timestamp, value) in enumerate(records):
                    fields = value if type(value) is tuple else (value,)
                    if len(fields) != width:
                        raise FamilyError(
                            f"family {self.family}: record_schema names {width} columns, a value is {value!r}"
                        )
                    rows.append((split, offset, timestamp, *fields))
            offsets.append(len(rows))
        try:
            return _lists(offsets, rows, self.record_schema)
        except _MISFITS as error:
            raise FamilyError(
                f"family {self.family}: a value does not fit record_schema: {_one_line(error)}"
            ) from None

    def _committed(self, committed: Sequence[Sequence[Row]]) -> tuple[pa.Array, list[list[str]]]:
        """Return each scenario's rows as a list of structs, and as text the rows that do not fit."""
        unfit: list[list[str]] = [[] for _ in committed]
        try:
            return self._lists_of_rows(committed), unfit
        except _MISFITS:
            pass
        fitting: list[list[Row]] = []
        for rows, texts in zip(committed, unfit, strict=True):
            fitting.append([])
            for row in rows:
                if self._fits(row):
                    fitting[-1].append(row)
                else:
                    texts.append(repr(row))
        return self._lists_of_rows(fitting), unfit

    def _fits(self, row: Row) -> bool:
        try:
            self._lists_of_rows([[row]])
        except _MISFITS:
            return False
        return True

    def _lists_of_rows(self, committed: Iterable[Sequence[Row]]) -> pa.Array:
        rows: list[Row] = []
        offsets = [0]
        for some in committed:
            rows += some
            offsets.append(len(rows))
        return _lists(offsets, rows, self.row_schema)


def lines_in(table: pa.Table) -> list[bytes]:
    """Return the lines of outcomes.jsonl for the trials in a file."""
    outcomes = table.select(list(OUTCOME_COLUMNS)).to_pylist()
    for outcome in outcomes:
        outcome.update({name: dict(outcome[name]) for name in _MAPS})
    return [to_line(msgspec.convert(each, Outcome)) for each in outcomes]


def _rows_differ(outcome: Outcome) -> bool:
    return any(violation[0] == ExactlyOnce.property for violation in outcome.violations)


def _lists(offsets: Sequence[int], rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Array:
    """Return an array of lists of structs, from all rows and the offsets at which the lists begin."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    if len(columns) != len(schema) or not all(type(row) is tuple for row in rows):
        raise ValueError(f"rows are tuples of {len(schema)} columns")
    arrays = [_array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    structs = pa.StructArray.from_arrays(arrays, fields=list(schema))
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), structs, type=pa.list_(pa.struct(list(schema)))
    )


def _array(column: Sequence[Any], kind: Any) -> pa.Array:
    # Arrow would silently cut off a fraction.
    if pa.types.is_integer(kind) and float in set(map(type, column)):
        raise ValueError("a float where the schema has integers")
    return pa.array(column, kind)


def _maps(counts: Sequence[dict[str, int]]) -> pa.Array:
    keys: list[str] = []
    values: list[int] = []
    offsets = [0]
    for each in counts:
        keys += each
        values += each.values()
        offsets.append(len(keys))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys, pa.string()), pa.array(values, pa.int64())
    )


def _texts(parameters: Mapping[str, Parameter]) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in parameters.items()]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
