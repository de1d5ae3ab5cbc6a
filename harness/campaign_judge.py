"""The judgement on a wave of trials: whether both oracles say the same of each scenario.

The rules this module lives by:

- A scenario's rows differ for Spark if one is there too often, or if one is missing though the job finished,
  or if one was committed that row_schema has no place for. The checker exactly_once says the same in Python.
- Where the two say otherwise, ``expected`` and ``oracle_sql`` of the family do not mean the same, or one of
  the two comparisons is broken. Nobody can tell from outside, so it is told with both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import LongType, StructField, StructType

from engine.runtime.spark_session import SPARK_ERRORS, one_line
from harness.campaign_tables import TrialTables
from harness.family import NOTHING_DECLARED, Family, FamilyError
from harness.history import Row
from harness.oracle_spark import SCENARIO, Evidence, SparkOracle, difference_of, record_schema_of
from harness.trial import scenario_of

SEEDS_LOOKED_AT: Final = 5

_VERDICT_COLUMNS: Final = ("seed", "finished", "rows_differ", "unfit")


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A scenario that the two oracles judge differently."""

    family: str
    number: int
    seed: int
    python_differs: bool
    """What the checker says with the Python oracle; Spark SQL says the opposite."""
    missing: int
    surplus: int
    sample: tuple[tuple[Row, int], ...]
    """Rows that do not balance for Spark SQL: how often one is missing, below zero how often too many."""

    def __str__(self) -> str:
        scenario = f"{self.family}, seed {self.seed}"
        if self.python_differs:
            return f"{scenario}: rows differ for Python, and none for Spark SQL"
        rows = ", ".join(_balance_text(row, balance) for row, balance in self.sample)
        return f"{scenario}: rows differ for Spark SQL, and none for Python: {rows or 'some fit no schema'}"


def _balance_text(row: Row, balance: int) -> str:
    times = f" {abs(balance)} times" if abs(balance) > 1 else ""
    return f"{row} is {'missing' if balance > 0 else 'too many'}{times}"


@dataclass(frozen=True, slots=True)
class Trials:
    """What was simulated of one family."""

    family: Family
    table: DataFrame
    """As harness.campaign_tables describes it."""


def check_judgeable(session: SparkSession, family: Family, tables: TrialTables) -> None:
    """Raise FamilyError for what would spoil every judgement: looked for once, before thousands have run."""
    for seed in range(SEEDS_LOOKED_AT):
        scenario = scenario_of(family, seed)
        try:
            rows = family.expected(scenario.records, NOTHING_DECLARED)
        except Exception:
            # Told with its line when a scenario is run.
            rows = ()
        tables.check(scenario, rows)
    columns = StructType([StructField(SCENARIO, LongType()), *record_schema_of(family)])
    nothing = session.createDataFrame([], columns)
    SparkOracle(session).expected(family, nothing)


def disagreements(session: SparkSession, all_trials: Sequence[Trials]) -> list[Disagreement]:
    """Judge all families by their SQL in one job; return the scenarios that Python judged differently."""
    if not all_trials:
        return []
    oracle = SparkOracle(session)
    tables = [_disagreeing(oracle, trials) for trials in all_trials]
    try:
        found = reduce(DataFrame.unionAll, tables).collect()
    except SPARK_ERRORS as error:
        names = ", ".join(trials.family.name for trials in all_trials)
        raise FamilyError(f"oracle_sql of family {names}: {one_line(error)}") from None
    told = []
    for row in found:
        difference = None if row["missing"] is None else difference_of(row)
        told.append(
            Disagreement(
                row["family"],
                row[SCENARIO],
                row["seed"],
                row["rows_differ"],
                difference.missing if difference else 0,
                difference.surplus if difference else 0,
                difference.sample if difference else (),
            )
        )
    return sorted(told, key=lambda each: each.number)


def _disagreeing(oracle: SparkOracle, trials: Trials) -> DataFrame:
    """Return the scenarios of one family on which the oracles do not agree."""
    dealt = Evidence.dealt(trials.table, _VERDICT_COLUMNS)
    differing = oracle.differing(Evidence.of_dealt(trials.family, dealt)).drop("family")
    joined = dealt.select(SCENARIO, *_VERDICT_COLUMNS).join(differing, SCENARIO, "left")
    differs = "size(unfit) > 0 OR coalesce(surplus > 0 OR (finished AND missing > 0), false)"
    return joined.where(f"rows_differ <> ({differs})").select(
        sql.lit(trials.family.name).alias("family"),
        SCENARIO,
        "seed",
        "rows_differ",
        "missing",
        "surplus",
        "sample",
    )
