"""The comparison of both oracles: Python and Spark SQL must find the same scenarios with wrong rows.

Rules:

- For Spark, a scenario's rows differ if a row is committed too often, if a row is missing although the job
  finished, or if a committed row does not fit row_schema. The checker exactly_once is the same rule in
  Python.
- At-least-once is judged in Python alone (mode), because the SQL does not know which rows may repeat.
- What is judged is what was written: each file is compared with the digest that its task acknowledged when it
  is read, and the scenarios are counted where they are judged.
- If the two disagree, the family's ``expected`` and ``oracle_sql`` differ in meaning, or one comparison has a
  bug. The campaign reports both results and does not decide which is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from onceproof.harness.campaign.file_stores import FileStore
from onceproof.harness.campaign.jobs import original_error
from onceproof.harness.campaign.trial_files import TrialsLost, WrittenFile, verified_table
from onceproof.harness.campaign.trial_tables import TrialTables, TriedScenario
from onceproof.harness.checkers.oracle_spark import (
    INPUT_COLUMNS,
    OUTPUT_COLUMNS,
    SAMPLE_ROWS,
    SCENARIO,
    Difference,
    FamilyTrials,
    SparkOracle,
    arrow_schemas_of,
    record_schema_of,
)
from onceproof.harness.checkers.outcome import outcome_of
from onceproof.harness.model.family import Declared, Family, FamilyError
from onceproof.harness.model.family_places import in_spark
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
        tables = TrialTables(family.name, *arrow_schemas_of(in_spark(family)))
        check_judgeable(session, family, tables)
        trials = list(_trials(family, seed, scenarios))
        table = session.createDataFrame(pa.Table.from_batches([tables.batch(trials)]))
        [judged] = judge(session, [Trials(family, table.select, len(trials))])
    except FamilyError as error:
        return FamilyMistake("oracle_sql", f"{error}")
    if not judged.disagreements:
        return None
    found = judged.disagreements[0]
    return FamilyMistake("oracle_sql", f"oracle_sql and expected() disagree, so one is wrong: {found}")


def _trials(family: Family, seed: int, scenarios: int) -> Iterator[TriedScenario]:
    for number in range(scenarios):
        scenario = undisturbed(scenario_of(family, scenario_seed(seed, family.name, number)))
        trial = try_scenario(family, scenario, twice=False, continued=False)
        outcome = outcome_of(trial.scenario, trial.history, trial.verdict)
        yield TriedScenario.of(number, trial.scenario, outcome, trial.history).for_query(family)


CHECKED_SEEDS: Final = 5


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A scenario that the two oracles judge differently."""

    difference: Difference
    """The difference that Spark SQL found; with 0 missing and 0 surplus rows if it found none."""
    seed: int | None
    unfit: tuple[str, ...]
    """The committed rows that do not fit row_schema, as text."""

    def __str__(self) -> str:
        scenario = f"{self.difference.family}, seed {self.seed}"
        if self.difference.python_differs:
            return f"{scenario}: rows differ for Python, but not for Spark SQL"
        rows = [_balance_text(row, balance) for row, balance in self.difference.sample]
        rows += [f"{row} does not fit row_schema" for row in self.unfit[:SAMPLE_ROWS]]
        return f"{scenario}: rows differ for Spark SQL, but not for Python: {', '.join(rows)}"


def _balance_text(row: Row, balance: int) -> str:
    times = f" {abs(balance)} times" if abs(balance) > 1 else ""
    return f"{row} is {'missing' if balance > 0 else 'too many'}{times}"


@dataclass(frozen=True, slots=True)
class Trials:
    """The trials of one family."""

    family: Family
    select: Callable[[list[str]], DataFrame]
    """Returns a table of them with some columns."""
    scenarios: int


def check_judgeable(session: SparkSession, family: Family, tables: TrialTables) -> None:
    """Check once before a campaign that a family's rows, schemas and query fit together.

    Raises:
        FamilyError: a row, a schema or the query is wrong.
    """
    query = in_spark(family)
    # What Spark gets of a script is made of its rows for that purpose.
    for seed in range(CHECKED_SEEDS if query is family else 0):
        scenario = scenario_of(family, seed)
        try:
            rows = family.expected(scenario.records, Declared(parameters=scenario.parameters))
        except Exception:
            # The run of a scenario reports this error with its line.
            rows = ()
        tables.check(scenario, rows)
    columns = StructType([StructField(SCENARIO, LongType()), *record_schema_of(query)])
    nothing = session.createDataFrame([], columns)
    SparkOracle(session).expected(query, nothing)


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
    columns: Sequence[str],
) -> DataFrame:
    """Return some columns of some files of one family's trials; each file is verified whenever it is read.

    A job over it raises TrialsLost if a file is gone or is not the one that was written.
    """
    judged = pa.schema([tables.schema.field(name) for name in columns])
    # One task reads a few files: a start of each would cost more than the reading.
    tasks = min(len(files), 2 * session.sparkContext.defaultParallelism)
    indexes = session.range(0, len(files), 1, tasks)
    return indexes.mapInArrow(_ReadTrials(folder, tuple(files), judged), from_arrow_schema(judged))


@dataclass(frozen=True, slots=True)
class JudgedFamily:
    """What Spark SQL has found of one family."""

    scenarios: int
    """How many scenarios it has read."""
    compared: int
    """How many of them have been compared with Python's verdict."""
    disagreements: tuple[Disagreement, ...]


def judge(session: SparkSession, all_trials: Sequence[Trials]) -> list[JudgedFamily]:
    """Judge all families by their SQL in one job; a family without SQL is only counted.

    Raises:
        FamilyError: a family's query or schema is wrong.
        TrialsLost: a file is gone or is not the one that was written.
    """
    try:
        found = SparkOracle(session).judge(
            [
                FamilyTrials(
                    in_spark(each.family),
                    each.select(list(INPUT_COLUMNS)),
                    each.select(list(OUTPUT_COLUMNS)),
                    each.scenarios,
                )
                for each in all_trials
            ]
        )
    except FamilyError as error:
        # What the trials lack is no mistake of the family's SQL.
        if isinstance(error.__context__, PythonException):
            lost = original_error(error.__context__)
            if isinstance(lost, TrialsLost):
                raise lost from None
        raise
    return [
        JudgedFamily(judged.scenarios, judged.compared, _disagreements(trials, judged.disagreements))
        for trials, judged in zip(all_trials, found, strict=True)
    ]


def _disagreements(trials: Trials, differences: Sequence[Difference]) -> tuple[Disagreement, ...]:
    """Return what is shown of scenarios that both oracles judge differently; there are few, or none."""
    if not differences:
        return ()
    table = trials.select([SCENARIO, "seed", "unfit"])
    those = table.where(table[SCENARIO].isin([each.scenario for each in differences]))
    rows = {row[SCENARIO]: row for row in those.collect()}
    return tuple(
        [
            Disagreement(each, rows[each.scenario]["seed"], tuple(rows[each.scenario]["unfit"]))
            for each in differences
        ]
    )


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judgement as a job: the files of each family."""

    families: Sequence[tuple[Family, TrialTables, FileStore, Sequence[WrittenFile]]]
    tasks: int = 1

    def run(self, session: SparkSession) -> list[JudgedFamily]:
        """Judge the trials in the files."""
        trials = [
            Trials(
                family, partial(table_in, session, tables, folder, files), sum(file.rows for file in files)
            )
            for family, tables, folder, files in self.families
        ]
        return judge(session, trials)
