"""The oracle of a whole campaign: one Spark job says which scenarios committed other rows than they should.

The rules this module lives by:

- One job judges all scenarios of all families. A row that should be there counts +1, a row that was committed
  -1; grouped by scenario and all columns, a sum that is not zero is a difference. A job for each scenario
  would take a thousand times as long.
- A job over thirty families costs what its planning costs, not what its rows do. So each family's judgement
  is one query in one text, and a family's trials come into one task, where nothing need be moved, unless
  there are few families. Where each has few scenarios they are judged by interpreting: compiling would take
  longer.
- Grouping takes null for equal to null, which a join does not: rows may hold nulls.
- A family's query is the user's text. What is wrong with it is said in one line that names the family, before
  a campaign has run for an hour.
- Nothing here knows how the rows came about: records and rows are tables, whoever ran the scenarios.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, cast

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
SCENARIO: Final = "scenario_id"
SAMPLE_ROWS: Final = 5
EVIDENCE_COLUMNS: Final = (SCENARIO, "input", "committed")
"""What is needed of trials, as onceproof.harness.campaign.tables describes them."""

_RECORD_COLUMNS: Final[dict[str, DataType]] = {
    "split": StringType(),
    "offset": LongType(),
    "timestamp": LongType(),
}
# A family may call its own columns as it likes, so ours must be unlikely.
_BALANCE: Final = "onceproof_balance"
_TRIALS: Final = "onceproof_trials"

SCENARIOS_WORTH_COMPILING: Final = 500
"""Of each family. Compiling a query takes a quarter of a second, and saves half a millisecond a scenario."""
FAMILIES_PER_CORE: Final = 2
"""With so many families, one task for each keeps all cores busy."""

_JUDGING: Final[dict[str, str]] = {
    # Planning anew after each stage would make a job of each.
    "spark.sql.adaptive.enabled": "false",
    # A broadcast is a job of its own; all that is joined stands in one task already.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # What follows from conditions is looked for at length, and saves nothing here.
    "spark.sql.constraintPropagation.enabled": "false",
    # Nobody looks at the plan; as a text of thirty families it takes seconds.
    "spark.sql.ui.explainMode": "simple",
}
_INTERPRETING: Final[dict[str, str]] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_IN_ONE_TASK_EACH: Final[dict[str, str]] = {
    "spark.sql.shuffle.partitions": "1",
    # Families that each stand in one task would all be put into the same one.
    "spark.sql.unionOutputPartitioning": "false",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A scenario that committed other rows than it should."""

    family: str
    scenario: int
    missing: int
    """Rows that should be there, counted as often as they are missing."""
    surplus: int
    """Rows that are there too often."""
    sample: tuple[tuple[Row, int], ...]
    """Some of the rows with their balance: how often a row is missing, below zero how often too many."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is to be judged of one family."""

    family: Family
    trials: DataFrame
    """The columns of EVIDENCE_COLUMNS."""
    scenarios: int
    """About how many there are; what is the fastest way depends on it, and nothing else."""

    @classmethod
    def of(cls, family: Family, trials: DataFrame, scenarios: int = 0) -> Evidence:
        """Take the evidence out of a table of trials."""
        return cls(family, trials.select(*EVIDENCE_COLUMNS), scenarios)


class SparkOracle:
    """Asks the families' queries."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def expected(self, family: Family, records: DataFrame, committed: DataFrame | None = None) -> DataFrame:
        """Return the rows that the records should give, as scenario_id and the columns of row_schema.

        ``committed`` is what a family that ``declares`` is told of what its run chose; None is nothing.
        """
        records.createOrReplaceTempView(VIEW)
        if options_of(family).declares:
            if committed is None:
                columns_of = [StructField(SCENARIO, LongType()), *row_schema_of(family)]
                committed = self.session.createDataFrame([], StructType(columns_of))
            committed.createOrReplaceTempView(DECLARED_VIEW)
        columns = [sql.col(SCENARIO).cast(LongType())]
        columns += [
            sql.col(_quoted(field.name)).cast(field.dataType) for field in row_schema_of(family).fields
        ]
        try:
            return self.session.sql(_bare(family)).select(columns)
        except SPARK_ERRORS as error:
            raise FamilyError(f"oracle_sql of family {family.name}: {one_line(error)}") from None

    def differences(self, all_evidence: Sequence[Evidence]) -> list[Difference]:
        """Return the scenarios that differ, of all families in one job."""
        if not all_evidence:
            return []
        cores = self.session.sparkContext.defaultParallelism
        many = len(all_evidence) >= FAMILIES_PER_CORE * cores
        scenarios = sum(evidence.scenarios for evidence in all_evidence)
        settings = dict(_JUDGING)
        if scenarios < SCENARIOS_WORTH_COMPILING * len(all_evidence):
            settings |= _INTERPRETING
        settings |= _IN_ONE_TASK_EACH if many else {"spark.sql.shuffle.partitions": str(cores)}
        with _configured(self.session, settings):
            try:
                every = self._differing(all_evidence, 1 if many else cores)
                # Every task is sent the plan of all families: few of them, however many families there are.
                found = every.coalesce(cores).collect()
            except SPARK_ERRORS as error:
                names = ", ".join(evidence.family.name for evidence in all_evidence)
                raise FamilyError(f"oracle_sql of family {names}: {one_line(error)}") from None
        differences = [_difference(all_evidence[row["place"]].family, row) for row in found]
        return sorted(differences, key=lambda each: (each.family, each.scenario))

    def _differing(self, all_evidence: Sequence[Evidence], tasks: int) -> DataFrame:
        """Return place, scenario_id, missing, surplus and sample, a row for each scenario that differs."""
        all_dealt, queries = [], []
        for place, evidence in enumerate(all_evidence):
            trials = evidence.trials
            # Whole trials are dealt out by scenario while they are few rows: later steps move nothing.
            dealt = trials.coalesce(1) if tasks == 1 else trials.repartition(tasks, SCENARIO)
            dealt.createOrReplaceTempView(f"{_TRIALS}_{place}")
            all_dealt.append(dealt)
            queries.append(_query(place, evidence.family, tasks))
        try:
            # One text, not one after another joined to all before it, each time looked through whole.
            return self.session.sql(" UNION ALL ".join(f"SELECT * FROM ({query})" for query in queries))
        except SPARK_ERRORS:
            for evidence, dealt, query in zip(all_evidence, all_dealt, queries, strict=True):
                self._check(evidence.family, dealt, query)
            raise

    def _check(self, family: Family, dealt: DataFrame, query: str) -> None:
        """Raise FamilyError where a family's query is what is wrong with the query over all."""
        try:
            self.session.sql(query)
        except SPARK_ERRORS as error:
            # By itself the family's own may be told better.
            records, committed = (
                dealt.selectExpr(SCENARIO, f"inline({name})") for name in EVIDENCE_COLUMNS[1:]
            )
            self.expected(family, records, committed)
            raise FamilyError(f"oracle_sql of family {family.name}: {one_line(error)}") from None


def _query(place: int, family: Family, tasks: int) -> str:
    """Return the query for the scenarios of a family that differ, over the view of its trials."""
    trials = f"{_TRIALS}_{place}"
    fields = row_schema_of(family).fields
    names = ", ".join(_quoted(field.name) for field in fields)
    cast_fields = ", ".join(f"CAST({_quoted(field.name)} AS {_type_text(field)})" for field in fields)
    committed = f"SELECT {SCENARIO}, inline(committed) FROM {trials}"
    declared = f", {DECLARED_VIEW} AS ({committed})" if options_of(family).declares else ""
    # Rows that should be there and rows that are come from the same task, which Spark does not see by itself.
    hint = "/*+ COALESCE(1) */" if tasks == 1 else ""
    # Only where the columns are named anew (everything) does Spark see that both sides are dealt out alike,
    # and leaves them where they are. As JSON, rows of all families fit into one table; nulls would be left
    # out of it, and only of the few that differ is it worth making.
    return f"""
WITH {VIEW} AS (SELECT {SCENARIO}, inline(input) FROM {trials}){declared}
SELECT {place} AS place, {SCENARIO},
       sum(greatest({_BALANCE}, 0)) AS missing, sum(greatest(-{_BALANCE}, 0)) AS surplus,
       slice(array_sort(collect_list(struct(
         to_json(struct({names}), map('ignoreNullFields', 'false')) AS row, {_BALANCE} AS balance
       ))), 1, {SAMPLE_ROWS}) AS sample
FROM (
  SELECT {SCENARIO}, {names}, sum({_BALANCE}) AS {_BALANCE}
  FROM (
    SELECT {hint} * FROM (
      SELECT {SCENARIO}, {names}, -1 AS {_BALANCE} FROM ({committed})
      UNION ALL
      SELECT CAST({SCENARIO} AS BIGINT), {cast_fields}, 1 FROM (
{_bare(family)}
      )
    ) AS everything({SCENARIO}, {names}, {_BALANCE})
  ) AS counted
  GROUP BY {SCENARIO}, {names}
  HAVING sum(counted.{_BALANCE}) <> 0
)
GROUP BY {SCENARIO}
"""


def _bare(family: Family) -> str:
    """Return a family's query; one that stands inside another must not end in a semicolon."""
    return family.oracle_sql.strip().rstrip(";")


def _type_text(field: StructField) -> str:
    """Return a column's type as SQL writes it."""
    return StructType([StructField("a", field.dataType)]).toDDL().split(" ", 1)[1]


@contextmanager
def _configured(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings of a session for a while."""
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
    return Difference(family.name, found[SCENARIO], found["missing"], found["surplus"], sample)


def arrow_schemas_of(family: Family) -> tuple[pa.Schema, pa.Schema]:
    """Return the columns of records and of rows as Arrow names them, for whoever has no JVM."""
    return to_arrow_schema(record_schema_of(family)), to_arrow_schema(row_schema_of(family))


def record_schema_of(family: Family) -> StructType:
    """Return the columns of the view ``records``, but for scenario_id."""
    own = _parsed(family.record_schema, f"record_schema of family {family.name}", _RECORD_COLUMNS)
    return StructType([StructField(name, kind) for name, kind in _RECORD_COLUMNS.items()] + own.fields)


def row_schema_of(family: Family) -> StructType:
    """Return the columns of a family's rows."""
    return _parsed(family.row_schema, f"row_schema of family {family.name}", {})


def _parsed(ddl: str, where: str, taken: Mapping[str, DataType]) -> StructType:
    """Return a schema from its DDL; FamilyError says where one is wrong."""
    try:
        schema = cast(StructType, StructType.fromDDL(ddl))
    except SPARK_ERRORS as error:
        raise FamilyError(f"{where}: {ddl!r} is no Spark DDL: {one_line(error)}") from None
    names = [SCENARIO, *taken]
    for name in schema.names:
        if name.lower() in names:
            raise FamilyError(f"{where}: a column named {name!r} is there already: choose another name")
        names.append(name.lower())
    return schema


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
