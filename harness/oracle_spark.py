"""The oracle of a whole campaign: one Spark job says which scenarios committed other rows than they should.

The rules this module lives by:

- One job judges all scenarios of all families. A row that should be there counts +1, a row that was committed
  -1; grouped by scenario and all columns, a sum that is not zero is a difference. A job for each scenario
  would take a thousand times as long.
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
from functools import reduce
from typing import Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from engine.runtime.spark_session import SPARK_ERRORS, one_line
from harness.family import Family, FamilyError, declares
from harness.history import Row

VIEW: Final = "records"
DECLARED_VIEW: Final = "declared"
SCENARIO: Final = "scenario_id"
SAMPLE_ROWS: Final = 5

_RECORD_COLUMNS: Final[dict[str, DataType]] = {
    "split": StringType(),
    "offset": LongType(),
    "timestamp": LongType(),
}
_ADAPTIVE: Final = "spark.sql.adaptive.enabled"
# A family may call its own columns as it likes, so ours must be unlikely.
_BALANCE: Final = "onceproof_balance"


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
    """What is to be judged of one family.

    ``records`` has the columns scenario_id, split, offset, timestamp and those of the family's
    record_schema; ``committed`` has scenario_id and those of its row_schema.
    """

    family: Family
    records: DataFrame
    committed: DataFrame

    @classmethod
    def of(cls, family: Family, trials: DataFrame) -> Evidence:
        """Take the evidence out of a table of trials, as harness.campaign.tables makes it.

        Whole trials are dealt out by scenario first, while they are few rows: so every later step finds the
        records and rows of a scenario in one place, and moves nothing.
        """
        partitions = int(trials.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
        dealt = trials.select(SCENARIO, "input", "committed").repartition(partitions, SCENARIO)
        records = dealt.selectExpr(SCENARIO, "inline(input)")
        return cls(family, records, dealt.selectExpr(SCENARIO, "inline(committed)"))


class SparkOracle:
    """Asks the families' queries."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def expected(self, family: Family, records: DataFrame, committed: DataFrame | None = None) -> DataFrame:
        """Return the rows that the records should give, as scenario_id and the columns of row_schema.

        ``committed`` is what a family that ``declares`` is told of what its run chose; None is nothing.
        """
        records.createOrReplaceTempView(VIEW)
        if declares(family):
            if committed is None:
                columns_of = [StructField(SCENARIO, LongType()), *row_schema_of(family)]
                committed = self.session.createDataFrame([], StructType(columns_of))
            committed.createOrReplaceTempView(DECLARED_VIEW)
        columns = [sql.col(SCENARIO).cast(LongType())]
        columns += [
            sql.col(_quoted(field.name)).cast(field.dataType) for field in row_schema_of(family).fields
        ]
        try:
            # A query that stands inside another must not end in a semicolon.
            return self.session.sql(family.oracle_sql.strip().rstrip(";")).select(columns)
        except SPARK_ERRORS as error:
            raise FamilyError(f"oracle_sql of family {family.name}: {one_line(error)}") from None

    def differing(self, evidence: Evidence) -> DataFrame:
        """Return family, scenario_id, missing, surplus and sample, a row for each scenario that differs."""
        expected = self.expected(evidence.family, evidence.records, evidence.committed).withColumn(
            _BALANCE, sql.lit(1)
        )
        columns = [_quoted(name) for name in expected.columns[:-1]]
        committed = evidence.committed.select(*columns, sql.lit(-1).alias(_BALANCE))
        balances = expected.unionAll(committed).groupBy(*columns).agg(sql.sum(_BALANCE).alias(_BALANCE))
        # As JSON, rows of all families fit into one table. Nulls would be left out of it.
        row = sql.to_json(sql.struct(*columns[1:]), {"ignoreNullFields": "false"})
        unbalanced = balances.where(f"{_BALANCE} <> 0").select(
            sql.col(SCENARIO),
            sql.struct(row.alias("row"), sql.col(_BALANCE).alias("balance")).alias("unbalanced"),
        )
        balance = "unbalanced.balance"
        return unbalanced.groupBy(sql.lit(evidence.family.name).alias("family"), SCENARIO).agg(
            sql.expr(f"sum(greatest({balance}, 0))").alias("missing"),
            sql.expr(f"sum(greatest(-{balance}, 0))").alias("surplus"),
            sql.expr(f"slice(array_sort(collect_list(unbalanced)), 1, {SAMPLE_ROWS})").alias("sample"),
        )

    def differences(self, all_evidence: Sequence[Evidence]) -> list[Difference]:
        """Return the scenarios that differ, of all families in one job."""
        if not all_evidence:
            return []
        tables = [self.differing(evidence) for evidence in all_evidence]
        try:
            with _as_one_job(self.session):
                found = reduce(DataFrame.unionAll, tables).collect()
        except SPARK_ERRORS as error:
            names = ", ".join(evidence.family.name for evidence in all_evidence)
            raise FamilyError(f"oracle_sql of family {names}: {one_line(error)}") from None
        return sorted(map(_difference, found), key=lambda each: (each.family, each.scenario))


@contextmanager
def _as_one_job(session: SparkSession) -> Iterator[None]:
    """Let Spark plan a query once: planning anew after each stage would make a job of each."""
    before = session.conf.get(_ADAPTIVE)
    session.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        session.conf.set(_ADAPTIVE, before or "true")


def _difference(found: SparkRow) -> Difference:
    sample = tuple((tuple(json.loads(each["row"]).values()), each["balance"]) for each in found["sample"])
    return Difference(found["family"], found[SCENARIO], found["missing"], found["surplus"], sample)


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
