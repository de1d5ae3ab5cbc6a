"""The oracle of a campaign: one Spark job finds all scenarios that Python and Spark SQL judge differently.

The rules this module lives by:

- One job judges all scenarios of all families. An expected row counts +1 and a committed row -1; grouped by
  scenario and all columns, a sum other than zero is a difference. One job for each scenario would take a
  thousand times as long.
- Python's verdict is a column of the trials. It is compared where the rows are counted: a job returns one row
  for each family, with the number of its scenarios and those that the two oracles judge differently.
- A scenario in mode at-least-once is counted, but not judged: the SQL does not know which rows may repeat.
- With thirty families, planning dominates the time of the job. So each family is one query in one SQL text,
  and, unless there are few families, one task without a shuffle. With few scenarios for each family the
  queries are interpreted, because compiling them would take longer.
- Rows are compared by grouping, not by a join, because grouping treats null as equal to null.
- The tables that a query names stand in front of it, so a temporary view of the same name in the session of a
  user is neither read nor replaced. Our own views have unlikely names, and are dropped with the judgement.
- A family's query is written by the user. An error in it is reported in one line that names the family.
- This module does not depend on the system that ran the scenarios: records and rows are tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, cast
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from onceproof.engine.runtime.spark_session import SPARK_ERRORS, one_line
from onceproof.harness.model.family import Family, FamilyError, options_of
from onceproof.harness.model.history import Row

VIEW: Final = "records"
DECLARED_VIEW: Final = "declared"
PARAMETERS_VIEW: Final = "parameters"
"""What the family drew beside the records: scenario_id, name and value, both texts."""
SCENARIO: Final = "scenario_id"
SAMPLE_ROWS: Final = 5
INPUT_COLUMNS: Final = (SCENARIO, "input", "parameters", "rows_differ")
OUTPUT_COLUMNS: Final = (SCENARIO, "committed", "rows_differ", "finished", "unfit")
"""The columns of a table of trials (see onceproof.harness.campaign.trial_tables) that this module reads."""

_RECORD_COLUMNS: Final[dict[str, DataType]] = {
    "split": StringType(),
    "offset": LongType(),
    "timestamp": LongType(),
}
# Families choose the names of their columns, so these names must be unlikely.
_BALANCE: Final = "onceproof_balance"
_VERDICT: Final = "onceproof_verdict"
_VIEW: Final = "onceproof_table"

SCENARIOS_WORTH_COMPILING: Final = 500
"""Scenarios of one family. Compiling a query takes 0.25 s and saves 0.5 ms for each scenario."""
FAMILIES_PER_CORE: Final = 2
"""From this number on, one task for each family keeps all cores busy."""

_SETTINGS: Final[dict[str, str]] = {
    # Adaptive planning would run each stage as a job of its own.
    "spark.sql.adaptive.enabled": "false",
    # A broadcast is a job of its own, and both sides of a join are in one task already.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Inferring constraints takes long here and saves nothing.
    "spark.sql.constraintPropagation.enabled": "false",
    # Formatting the plan of thirty families takes seconds, and it is never displayed.
    "spark.sql.ui.explainMode": "simple",
}
_INTERPRETED_SETTINGS: Final[dict[str, str]] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


_ONE_TASK_PER_FAMILY_SETTINGS: Final[dict[str, str]] = {
    "spark.sql.shuffle.partitions": "1",
    # Otherwise the union would put all single-task families into the same task.
    "spark.sql.unionOutputPartitioning": "false",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A scenario whose committed rows differ from the expected rows."""

    family: str
    scenario: int
    missing: int
    """How many expected rows are missing, repetitions counted."""
    surplus: int
    """How many committed rows are too many, repetitions counted."""
    sample: tuple[tuple[Row, int], ...]
    """Up to SAMPLE_ROWS differing rows, each with its expected minus its committed count."""
    python_differs: bool = False
    """Whether the rows differ for the Python oracle."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What one job has found of a family."""

    scenarios: int
    """How many it has read, those in mode at-least-once among them."""
    compared: int
    """How many of them have a verdict of Python's."""
    disagreements: tuple[Difference, ...]
    """The scenarios whose rows differ for one oracle and not for the other, by number."""


@dataclass(frozen=True, slots=True)
class FamilyTrials:
    """The trials of one family that are to be judged."""

    family: Family
    inputs: DataFrame
    """The columns of INPUT_COLUMNS, a row for each scenario."""
    outputs: DataFrame
    """The columns of OUTPUT_COLUMNS. It is read apart, because Spark reads a table for each use of it."""
    scenarios: int
    """About how many rows both have; decides only how the job is planned."""

    @classmethod
    def of(cls, family: Family, trials: DataFrame, scenarios: int) -> FamilyTrials:
        """Return the trials of a table with all columns."""
        return cls(family, trials.select(*INPUT_COLUMNS), trials.select(*OUTPUT_COLUMNS), scenarios)


class SparkOracle:
    """Runs the ``oracle_sql`` of families in a Spark session."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def expected(
        self,
        family: Family,
        records: DataFrame,
        committed: DataFrame | None = None,
        parameters: DataFrame | None = None,
    ) -> DataFrame:
        """Return the rows that a family's query expects for some records.

        Args:
            records: scenario_id and the columns of the family's ``record_schema``.
            committed: scenario_id and the committed rows, from which a family that ``declares`` reads the
                choices of its run; None for no rows.
            parameters: scenario_id, name and value of what the family drew beside the records; None for
                nothing.

        Returns:
            Scenario_id and the columns of the family's ``row_schema``.

        Raises:
            FamilyError: the query or a schema is wrong.
        """
        if parameters is None:
            parameters = self.session.createDataFrame([], f"{SCENARIO} BIGINT, name STRING, value STRING")
        tables = {VIEW: records, PARAMETERS_VIEW: parameters}
        if options_of(family).declares:
            if committed is None:
                columns_of = [StructField(SCENARIO, LongType()), *row_schema_of(family)]
                committed = self.session.createDataFrame([], StructType(columns_of))
            tables[DECLARED_VIEW] = committed
        columns = [sql.col(SCENARIO).cast(LongType())]
        columns += [
            sql.col(_quoted(field.name)).cast(field.dataType) for field in row_schema_of(family).fields
        ]
        with _views(self.session, list(tables.values())) as views:
            named = ", ".join(
                f"{name} AS (SELECT * FROM {view})" for name, view in zip(tables, views, strict=True)
            )
            try:
                # Spark resolves the views here, and not when the result is computed.
                return self.session.sql(f"WITH {named} SELECT * FROM (\n{_query_text(family)}\n)").select(
                    columns
                )
            except SPARK_ERRORS as error:
                said = one_line(self._clearer(error, family))
                raise FamilyError(f"oracle_sql of family {family.name}: {said}") from None

    def _clearer(self, error: Exception, family: Family) -> Exception:
        """Return the syntax error of a query by itself, if it has one: with our brackets it names these."""
        try:
            self.session.sql(f"EXPLAIN {_query_text(family)}")
        except SPARK_ERRORS as alone:
            return alone
        return error

    def judge(self, families: Sequence[FamilyTrials]) -> list[Judged]:
        """Judge all trials in one job, and compare with Python's verdicts.

        Returns:
            What was found of each family, in their order.

        Raises:
            FamilyError: a family's query or schema is wrong.
        """
        cores = self.session.sparkContext.defaultParallelism
        many = len(families) >= FAMILIES_PER_CORE * cores
        settings = dict(_SETTINGS)
        settings |= _ONE_TASK_PER_FAMILY_SETTINGS if many else {"spark.sql.shuffle.partitions": str(cores)}
        if sum(each.scenarios for each in families) < SCENARIOS_WORTH_COMPILING * len(families):
            settings |= _INTERPRETED_SETTINGS
        judged = [Judged(0, 0, ())] * len(families)
        if not families:
            return judged
        with _configured(self.session, settings):
            try:
                found = self._judged(families, 1 if many else cores).collect()
            except SPARK_ERRORS as error:
                first, *others = [each.family.name for each in families]
                whose = f"family {first}" + (f" and {len(others)} others" if others else "")
                raise FamilyError(f"oracle_sql of {whose}: {one_line(error)}") from None
        for row in found:
            family = families[row["place"]].family
            differing = sorted(
                [_difference(family, each) for each in row["differing"]], key=lambda each: each.scenario
            )
            judged[row["place"]] = Judged(row["scenarios"], row["compared"], tuple(differing))
        return judged

    def _judged(self, families: Sequence[FamilyTrials], tasks: int) -> DataFrame:
        """Return a row for each family: place, scenarios, and the differing scenarios as structs.

        Args:
            tasks: the number of tasks for each family; ``place`` is the index into ``families``.
        """
        # Trials are partitioned here, where they are few rows, so that later steps need no shuffle.
        partitioned = [
            table.coalesce(1) if tasks == 1 else table.repartition(tasks, SCENARIO)
            for each in families
            for table in (each.inputs, each.outputs)
        ]
        with ExitStack() as stack:
            views = stack.enter_context(_views(self.session, partitioned))
            # What is analysed is not analysed again. In one text all families would go through as many rounds
            # of all rules as the one that needs the most.
            queries = [
                self._analysed(each, _query(place, each.family, tasks, *views[2 * place : 2 * place + 2]))
                for place, each in enumerate(families)
            ]
            # One SQL text: a chain of union() calls would be analysed again at each call.
            tables = stack.enter_context(_views(self.session, queries))
            all_queries = " UNION ALL ".join(f"SELECT * FROM {table}" for table in tables)
            # Spark sends the plan of all families to every task, so there are no more tasks than cores.
            return (
                self.session.sql(all_queries)
                .coalesce(self.session.sparkContext.defaultParallelism)
                .groupBy("place")
                .agg(
                    sql.expr("count(*) AS scenarios"),
                    sql.expr(f"count_if(verdict & {_JUDGED} > 0) AS compared"),
                    sql.expr(f"collect_list({_DIFFERING}) AS differing"),
                )
            )

    def _analysed(self, trials: FamilyTrials, query: str) -> DataFrame:
        """Return the query that judges a family. Raises FamilyError where its own query is wrong."""
        try:
            return self.session.sql(query)
        except SPARK_ERRORS as error:
            # The family's own query, without ours around it, gives a clearer message.
            self.expected(
                trials.family,
                trials.inputs.selectExpr(SCENARIO, "inline(input)"),
                trials.outputs.selectExpr(SCENARIO, "inline(committed)"),
                trials.inputs.selectExpr(SCENARIO, "inline(parameters)"),
            )
            raise FamilyError(f"oracle_sql of family {trials.family.name}: {one_line(error)}") from None


# Python's verdict of a scenario as a number, because Spark finds the maximum of numbers without sorting. It
# is never 0: rows with 0 and without a difference are left out.
_FINISHED, _DIFFERS, _JUDGED, _UNFIT, _READ = 1, 2, 4, 8, 16
_VERDICT_OF_TRIAL: Final = (
    f"{_READ} + if(finished, {_FINISHED}, 0) + if(rows_differ, {_DIFFERS}, 0)"
    f" + if(rows_differ IS NULL, 0, {_JUDGED}) + if(size(unfit) > 0, {_UNFIT}, 0)"
)
_DIFFERING: Final = f"""
CASE WHEN verdict & {_JUDGED} > 0 AND (verdict & {_DIFFERS} > 0) <>
  (surplus > 0 OR (missing > 0 AND verdict & {_FINISHED} > 0) OR verdict & {_UNFIT} > 0)
THEN struct({SCENARIO}, missing, surplus, sample, verdict & {_DIFFERS} > 0 AS python_differs) END
"""
"""The scenario, if the two oracles judge it differently; null, which is not collected, if they agree."""


def _query(place: int, family: Family, tasks: int, inputs: str, outputs: str) -> str:
    """Return the SQL that judges the scenarios of a family, over the views of its trials.

    Its result has a row for each: place, scenario_id, missing, surplus, sample and verdict.
    """
    if not family.oracle_sql:
        return (
            f"SELECT {place} AS place, {SCENARIO}, 0L AS missing, 0L AS surplus,"
            " CAST(NULL AS ARRAY<STRUCT<row: STRING, balance: BIGINT>>) AS sample, 0 AS verdict"
            f" FROM {outputs}"
        )
    fields = row_schema_of(family).fields
    names = ", ".join(_quoted(field.name) for field in fields)
    cast_fields = ", ".join(f"CAST({_quoted(field.name)} AS {_type_text(field)})" for field in fields)
    of_row = ", ".join(f"row.{_quoted(field.name)}" for field in fields)
    nulls = ", ".join(f"CAST(NULL AS {_type_text(field)}) AS {_quoted(field.name)}" for field in fields)
    judged = "WHERE rows_differ IS NOT NULL"
    declared = f", {PARAMETERS_VIEW} AS (SELECT {SCENARIO}, inline(parameters) FROM {inputs} {judged})"
    if options_of(family).declares:
        declared += f", {DECLARED_VIEW} AS (SELECT {SCENARIO}, inline(committed) FROM {outputs} {judged})"
    # Expected and committed rows are in the same task, which Spark does not infer without the hint.
    hint = "/*+ COALESCE(1) */" if tasks == 1 else ""
    # With the columns renamed (AS everything) Spark sees that both sides are partitioned alike, and does not
    # shuffle. The verdict comes as one more row, because a table is read for each use of it. JSON makes the
    # rows of all families fit one table; it is built for the few differing rows only, and must be asked to
    # keep nulls.
    return f"""
WITH {VIEW} AS (SELECT {SCENARIO}, inline(input) FROM {inputs} {judged}){declared}
SELECT {place} AS place, {SCENARIO},
       sum(greatest({_BALANCE}, 0)) AS missing, sum(greatest(-{_BALANCE}, 0)) AS surplus,
       slice(array_sort(collect_list(CASE WHEN {_BALANCE} <> 0 THEN struct(
         to_json(struct({names}), map('ignoreNullFields', 'false')) AS row, {_BALANCE} AS balance
       ) END)), 1, {SAMPLE_ROWS}) AS sample,
       max({_VERDICT}) AS verdict
FROM (
  SELECT {SCENARIO}, {names}, sum({_BALANCE}) AS {_BALANCE}, max({_VERDICT}) AS {_VERDICT}
  FROM (
    SELECT {hint} * FROM (
      SELECT {SCENARIO}, inline(concat(
        transform(
          if(rows_differ IS NULL, slice(committed, 1, 0), committed),
          row -> struct({of_row}, -1 AS {_BALANCE}, 0 AS {_VERDICT})
        ),
        array(struct({nulls}, 0 AS {_BALANCE}, {_VERDICT_OF_TRIAL} AS {_VERDICT}))
      )) FROM {outputs}
      UNION ALL
      SELECT CAST({SCENARIO} AS BIGINT), {cast_fields}, 1, 0 FROM (
{_query_text(family)}
      )
    ) AS everything({SCENARIO}, {names}, {_BALANCE}, {_VERDICT})
  ) AS counted
  GROUP BY {SCENARIO}, {names}
  HAVING sum(counted.{_BALANCE}) <> 0 OR max(counted.{_VERDICT}) <> 0
)
GROUP BY {SCENARIO}
"""


def _query_text(family: Family) -> str:
    """Return a family's query without a final semicolon, so that it can stand inside another query."""
    return family.oracle_sql.strip().rstrip(";")


def _type_text(field: StructField) -> str:
    """Return the SQL name of a column's type."""
    return StructType([StructField("a", field.dataType)]).toDDL().split(" ", 1)[1]


@contextmanager
def _views(session: SparkSession, tables: Sequence[DataFrame]) -> Iterator[list[str]]:
    """Give tables names in SQL inside the ``with`` block."""
    names = [f"{_VIEW}_{uuid4().hex}" for _ in tables]
    try:
        for name, table in zip(names, tables, strict=True):
            table.createOrReplaceTempView(name)
        yield names
    finally:
        for name in names:
            session.catalog.dropTempView(name)


@contextmanager
def _configured(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set some settings of a session inside the ``with`` block, and restore them afterwards."""
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, earlier)


def _difference(family: Family, found: SparkRow) -> Difference:
    sample = tuple((tuple(json.loads(each["row"]).values()), each["balance"]) for each in found["sample"])
    return Difference(
        family.name,
        found[SCENARIO],
        found["missing"],
        found["surplus"],
        sample,
        found["python_differs"],
    )


def arrow_schemas_of(family: Family) -> tuple[pa.Schema, pa.Schema]:
    """Return the Arrow schemas of a family's records and rows, for processes without a JVM.

    Those of a family without SQL are kept as text.
    """
    if not family.oracle_sql:
        text = StructField("text", StringType())
        fields = [StructField(name, kind) for name, kind in _RECORD_COLUMNS.items()]
        return to_arrow_schema(StructType([*fields, text])), to_arrow_schema(StructType([text]))
    return to_arrow_schema(record_schema_of(family)), to_arrow_schema(row_schema_of(family))


def record_schema_of(family: Family) -> StructType:
    """Return the columns of the view ``records``, without scenario_id."""
    own = _parsed(family.record_schema, f"record_schema of family {family.name}", _RECORD_COLUMNS)
    return StructType([StructField(name, kind) for name, kind in _RECORD_COLUMNS.items()] + own.fields)


def row_schema_of(family: Family) -> StructType:
    """Return the columns of a family's rows."""
    return _parsed(family.row_schema, f"row_schema of family {family.name}", {})


def _parsed(ddl: str, where: str, taken: Mapping[str, DataType]) -> StructType:
    """Return a schema from its DDL.

    Args:
        where: where the DDL stands, for errors.
        taken: columns that the schema must not use.

    Raises:
        FamilyError: the DDL is wrong, or a column name is taken.
    """
    try:
        schema = cast(StructType, StructType.fromDDL(ddl))
    except SPARK_ERRORS as error:
        raise FamilyError(f"{where}: {ddl!r} is not valid Spark DDL: {one_line(error)}") from None
    names = [SCENARIO, *taken]
    for name in schema.names:
        if name.lower() in names:
            raise FamilyError(f"{where}: the column name {name!r} is already in use: choose another name")
        names.append(name.lower())
    return schema


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
