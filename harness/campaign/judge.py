"""The comparison of both oracles: Python and Spark SQL must find the same scenarios with wrong rows.

Rules:

- For Spark, a scenario's rows differ if a row is committed too often, if a row is missing although the job
  finished, or if a committed row does not fit row_schema. The checker exactly_once is the same rule in
  Python.
- At-least-once is judged in Python alone (mode), because the SQL does not know which rows may repeat.
- What is judged is what was written: each file is compared with the digest that its task acknowledged when it
  is read, and the rows are counted where they are judged.
- If the two disagree, the family's ``expected`` and ``oracle_sql`` differ in meaning, or one comparison has a
  bug. The campaign reports both results and does not decide which is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from onceproof.engine.runtime.spark_session import SPARK_ERRORS
from onceproof.harness.campaign.file_stores import FileStore
from onceproof.harness.campaign.jobs import original_error
from onceproof.harness.campaign.trial_store import TrialsLost, WrittenFile, verified_table
from onceproof.harness.campaign.trial_tables import (
    JUDGEMENT_COLUMNS,
    VERDICTS,
    TrialTables,
    TriedScenario,
    verdicts,
)
from onceproof.harness.checkers.oracle_spark import (
    SAMPLE_ROWS,
    SCENARIO,
    TRIAL_COLUMNS,
    Difference,
    FamilyTrials,
    SparkOracle,
    arrow_schemas_of,
    record_schema_of,
)
from onceproof.harness.checkers.outcome import outcome_of
from onceproof.harness.model.family import Declared, Family, FamilyError
from onceproof.harness.model.history import Row
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.trials.family_mistakes import FamilyMistake
from onceproof.harness.trials.faultless_runs import undisturbed
from onceproof.harness.trials.trial import scenario_of, try_scenario


def sql_mistake_of(session: SparkSession, family: Family, seed: int, scenarios: int) -> FamilyMistake | None:
    """Return the mistake in a family's schemas or SQL that the first scenarios of a run show.

    Args:
        session: the Spark session that runs ``oracle_sql``.
        seed: the seed of the run.
    """
    try:
        tables = TrialTables(family.name, *arrow_schemas_of(family))
        check_judgeable(session, family, tables)
        trials = list(_trials(family, seed, scenarios))
        batch = tables.batch(trials)
        table = session.createDataFrame(pa.Table.from_batches([batch]))
        judged = pa.Table.from_batches([verdicts(trials, batch)], VERDICTS)
        found = disagreements(session, [Trials(family, table, judged)])
    except FamilyError as error:
        return FamilyMistake("oracle_sql", f"{error}")
    if not found:
        return None
    return FamilyMistake("oracle_sql", f"oracle_sql and expected() disagree, so one is wrong: {found[0]}")


def _trials(family: Family, seed: int, scenarios: int) -> Iterator[TriedScenario]:
    for number in range(scenarios):
        scenario = undisturbed(scenario_of(family, scenario_seed(seed, family.name, number)))
        trial = try_scenario(family, scenario, twice=False, continued=False)
        outcome = outcome_of(trial.scenario, trial.history, trial.verdict)
        yield TriedScenario.of(number, trial.scenario, outcome, trial.history).for_query(family)


CHECKED_SEEDS: Final = 5
JUDGED_BY_PYTHON: Final = ("scenario_id", "seed", *JUDGEMENT_COLUMNS)
"""The columns of Python's judgement, which are compared with that of Spark SQL."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A scenario that the two oracles judge differently."""

    difference: Difference
    """The difference that Spark SQL found; with 0 missing and 0 surplus rows if it found none."""
    seed: int | None
    python_differs: bool
    """Whether the rows differ for the Python oracle; Spark SQL found the opposite."""
    unfit: tuple[str, ...]
    """The committed rows that do not fit row_schema, as text."""

    def __str__(self) -> str:
        scenario = f"{self.difference.family}, seed {self.seed}"
        if self.python_differs:
            return f"{scenario}: rows differ for Python, but not for Spark SQL"
        rows = [_balance_text(row, balance) for row, balance in self.difference.sample]
        rows += [f"{row} does not fit row_schema" for row in self.unfit[:SAMPLE_ROWS]]
        return f"{scenario}: rows differ for Spark SQL, but not for Python: {', '.join(rows)}"


def _balance_text(row: Row, balance: int) -> str:
    times = f" {abs(balance)} times" if abs(balance) > 1 else ""
    return f"{row} is {'missing' if balance > 0 else 'too many'}{times}"


@dataclass(frozen=True, slots=True)
class Trials:
    """The trials of one family, and Python's judgement of them."""

    family: Family
    table: DataFrame
    """The trials, with the columns of TrialTables.schema."""
    verdicts: pa.Table
    """Python's judgement of the same scenarios, with the columns of JUDGED_BY_PYTHON."""


def check_judgeable(session: SparkSession, family: Family, tables: TrialTables) -> None:
    """Check once before a campaign that a family's rows, schemas and query fit together.

    Raises:
        FamilyError: a row, a schema or the query is wrong.
    """
    for seed in range(CHECKED_SEEDS):
        scenario = scenario_of(family, seed)
        try:
            rows = family.expected(scenario.records, Declared(parameters=scenario.parameters))
        except Exception:
            # The run of a scenario reports this error with its line.
            rows = ()
        tables.check(scenario, rows)
    columns = StructType([StructField(SCENARIO, LongType()), *record_schema_of(family)])
    nothing = session.createDataFrame([], columns)
    SparkOracle(session).expected(family, nothing)


@dataclass(frozen=True, slots=True)
class _ReadTrials:
    """The function that mapInArrow calls: it reads files of trials by their indexes, and verifies them."""

    folder: FileStore
    files: tuple[WrittenFile, ...]
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                table = verified_table(self.folder, self.files[index], self.schema.names)
                yield from table.select(self.schema.names).cast(self.schema).to_batches()


def table_in(
    session: SparkSession,
    tables: TrialTables,
    folder: FileStore,
    files: Sequence[WrittenFile],
    columns: Sequence[str] = TRIAL_COLUMNS,
) -> DataFrame:
    """Return some columns of some files of one family's trials; each file is verified whenever it is read.

    A job over it raises TrialsLost if a file is gone or is not the one that was written.
    """
    judged = pa.schema([tables.schema.field(name) for name in columns])
    # One task reads a few files: a start of each would cost more than the reading.
    tasks = min(len(files), 2 * session.sparkContext.defaultParallelism)
    indexes = session.range(0, len(files), 1, tasks)
    return indexes.mapInArrow(_ReadTrials(folder, tuple(files), judged), from_arrow_schema(judged))


def counted_rows(session: SparkSession, tables: Sequence[DataFrame]) -> list[int]:
    """Read tables of trials in one job, and return how many scenarios each has.

    Args:
        tables: with the column scenario_id.

    Raises:
        TrialsLost: a file is gone or is not the one that was written.
        SparkFailed: an error of Spark.
    """
    named: dict[str, Any] = {f"trials_{place}": table for place, table in enumerate(tables)}
    # One SQL text: a chain of union() calls would be analysed again at each call.
    text = " UNION ALL ".join(
        f"SELECT {place} AS place, count(DISTINCT {SCENARIO}) AS scenarios FROM {{{name}}}"
        for place, name in enumerate(named)
    )
    try:
        rows = session.sql(text, **named).collect()
    except SPARK_ERRORS as error:
        raise original_error(error) from None
    counts = [0] * len(tables)
    for row in rows:
        counts[row["place"]] = row["scenarios"]
    return counts


def disagreements(session: SparkSession, all_trials: Sequence[Trials]) -> list[Disagreement]:
    """Judge all families by their SQL in one job.

    Returns:
        The scenarios that Python judged differently, by number.

    Raises:
        FamilyError: a family's query or schema is wrong.
        TrialsLost: a file is gone or is not the one that was written.
    """
    try:
        found = SparkOracle(session).differences(
            [FamilyTrials.of(each.family, each.table, each.verdicts.num_rows) for each in all_trials]
        )
    except FamilyError as error:
        # What the trials lack is no mistake of the family's SQL.
        if isinstance(error.__context__, PythonException):
            lost = original_error(error.__context__)
            if isinstance(lost, TrialsLost):
                raise lost from None
        raise
    differences = {(difference.family, difference.scenario): difference for difference in found}
    disagreeing = []
    for trials in all_trials:
        name = trials.family.name
        for verdict in _with_a_difference(
            trials.verdicts, [each.scenario for each in found if each.family == name]
        ):
            if verdict["rows_differ"] is None:
                continue
            number = verdict["scenario_id"]
            difference = differences.get((name, number), Difference(name, number, 0, 0, ()))
            missing = difference.missing if verdict["finished"] else 0
            differs = bool(difference.surplus or missing or verdict["unfit"])
            if differs is not verdict["rows_differ"]:
                disagreeing.append(
                    Disagreement(difference, verdict["seed"], verdict["rows_differ"], tuple(verdict["unfit"]))
                )
    return sorted(disagreeing, key=lambda each: each.difference.scenario)


def _with_a_difference(verdicts: pa.Table, for_spark: Sequence[int]) -> list[dict[str, Any]]:
    """Return the verdicts of the scenarios whose rows differ for Python or for Spark."""
    for_python = compute.or_(
        compute.fill_null(verdicts["rows_differ"], False),
        compute.greater(compute.list_value_length(verdicts["unfit"]), 0),
    )
    named = compute.is_in(verdicts[SCENARIO], value_set=pa.array(for_spark, pa.int64()))
    rows: list[dict[str, Any]] = (
        verdicts.select(JUDGED_BY_PYTHON).filter(compute.or_(for_python, named)).to_pylist()
    )
    return rows
