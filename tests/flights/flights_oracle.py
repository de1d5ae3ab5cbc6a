"""The oracle of the year of flights: Spark SQL over the CSV files against the rows that a job committed.

The rules this module lives by:

- The query is the family's own, the one that judges drawn scenarios; the files are read by Spark, which
  shares no line with the source of the job. A flight's offset is its place in its file.
- Committed rows are compared as lines of text, as they lie in the part files: a line that was torn, or holds
  anything but a row, is a difference like any other and needs no rule of its own.
- Hidden part files are not committed and are not read; Spark skips them by their names, as any reader does.
- Equal means equal to the row: each line is there as often as it should be.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from onceproof.engine.runtime.spark_session import SPARK_ERRORS, one_line
from onceproof.harness.checkers.oracle_spark import SCENARIO, SparkOracle
from onceproof.harness.model.family import Family
from onceproof.harness.model.history import Row

SAMPLE_LINES: Final = 20
# Names of files that readers skip: part files in progress, and files of Spark itself.
_HIDDEN: Final = (".", "_")


class YearUnreadable(Exception):
    """The files of the year or of its rows cannot be read; the message is one line."""


@dataclass(frozen=True, slots=True)
class YearComparison:
    """How the committed rows of the year differ from those that should be there."""

    expected: int
    committed: int
    missing: int
    """Rows that should be there, counted as often as they are missing."""
    surplus: int
    """Rows that are there too often."""
    sample: tuple[tuple[Row, int], ...]
    """Some rows, as texts, with their balance: how often one is missing, below zero how often too many."""

    @property
    def equal(self) -> bool:
        """Return whether there is no difference at all."""
        return not self.missing and not self.surplus


def compare_year(
    session: SparkSession, family: Family, splits: Sequence[Path], committed: Path
) -> YearComparison:
    """Compare the part files in a folder with the family's query over the files of the year.

    The files have a header; their columns are those of the family's record_schema and ``scheduled``.
    """
    try:
        oracle = SparkOracle(session)
        rows = oracle.expected(family, _records(session, family, splits)).drop(SCENARIO)
        # The text that a CSV writer makes of the same row; none of its fields needs quotes.
        fields = [sql.coalesce(sql.col(f"`{name}`").cast("string"), sql.lit("")) for name in rows.columns]
        lines = rows.select(sql.concat_ws(",", *fields))
        weighed = _weighed(lines, 1)
        if _has_parts(committed):
            weighed = weighed.unionAll(_weighed(session.read.text(str(committed)), -1))
        return _compared(weighed)
    except SPARK_ERRORS as error:
        raise YearUnreadable(one_line(error)) from None


def _records(session: SparkSession, family: Family, splits: Sequence[Path]) -> DataFrame:
    """Return the view ``records`` over files: a split each, named like it."""
    # The last column is the event time; a file with a row that Spark cannot read ends the comparison.
    reader = session.read.schema(f"{family.record_schema}, scheduled BIGINT").option("mode", "FAILFAST")
    place = Window.partitionBy("split").orderBy("block", "place")
    tables = [
        reader.csv(str(path), header=True).select(
            "*",
            sql.lit(path.stem).alias("split"),
            # Within a block of a file, numbers grow with the lines; blocks are read in any order.
            sql.col("_metadata.file_block_start").alias("block"),
            sql.monotonically_increasing_id().alias("place"),
        )
        for path in splits
    ]
    return (
        reduce(DataFrame.unionAll, tables)
        .withColumn("offset", sql.row_number().over(place).cast("bigint") - 1)
        .withColumnRenamed("scheduled", "timestamp")
        .withColumn(SCENARIO, sql.lit(0))
        .drop("block", "place")
    )


def _weighed(lines: DataFrame, weight: int) -> DataFrame:
    return lines.toDF("line").withColumn("weight", sql.lit(weight))


def _has_parts(folder: Path) -> bool:
    try:
        return any(not path.name.startswith(_HIDDEN) for path in folder.iterdir())
    except OSError:
        # Nothing was committed.
        return False


def _compared(weighed: DataFrame) -> YearComparison:
    """Count in one job; look at single rows in a second one only where there is something to see."""
    balances = weighed.groupBy("line").agg(
        sql.sum("weight").alias("balance"),
        sql.count_if(sql.col("weight") > 0).alias("expected"),
        sql.count_if(sql.col("weight") < 0).alias("committed"),
    )
    counts = balances.agg(
        sql.sum("expected").alias("expected"),
        sql.sum("committed").alias("committed"),
        sql.sum(sql.greatest("balance", sql.lit(0))).alias("missing"),
        sql.sum(sql.greatest(-sql.col("balance"), sql.lit(0))).alias("surplus"),
    ).first()
    assert counts is not None
    sample: tuple[tuple[Row, int], ...] = ()
    if counts["missing"] or counts["surplus"]:
        differing = balances.where("balance <> 0").orderBy("line").limit(SAMPLE_LINES).collect()
        sample = tuple((tuple(next(csv.reader([row["line"]]), ())), row["balance"]) for row in differing)
    return YearComparison(
        expected=counts["expected"] or 0,
        committed=counts["committed"] or 0,
        missing=counts["missing"] or 0,
        surplus=counts["surplus"] or 0,
        sample=sample,
    )
