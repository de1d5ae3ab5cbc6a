"""The judgement on trials: whether both oracles say the same of each scenario.

The rules this module lives by:

- A scenario's rows differ for Spark if one is there too often, or if one is missing though the job finished,
  or if one was committed that row_schema has no place for. The checker exactly_once says the same in Python.
- At-least-once is judged in Python alone (mode): which rows may be there twice the SQL does not say.
- Where the two say otherwise, ``expected`` and ``oracle_sql`` of the family do not mean the same, or one of
  the two comparisons is broken. Nobody can tell from outside, so it is told with both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from onceproof.harness.campaign.tables import JUDGEMENT_COLUMNS, TrialTables
from onceproof.harness.checkers.oracle_spark import (
    SAMPLE_ROWS,
    SCENARIO,
    TRIAL_COLUMNS,
    Difference,
    FamilyTrials,
    SparkOracle,
    record_schema_of,
)
from onceproof.harness.model.family import NOTHING_DECLARED, Family
from onceproof.harness.model.history import Row
from onceproof.harness.trials.trial import scenario_of

SEEDS_LOOKED_AT: Final = 5
JUDGED_BY_PYTHON: Final = ("scenario_id", "seed", *JUDGEMENT_COLUMNS)
"""What is to be compared with the judgement of Spark SQL."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A scenario that the two oracles judge differently."""

    difference: Difference
    """What Spark SQL says; nothing missing and no surplus if that is nothing."""
    seed: int | None
    python_differs: bool
    """What the checker says with the Python oracle; Spark SQL says the opposite."""
    unfit: tuple[str, ...]
    """Rows that row_schema has no place for."""

    def __str__(self) -> str:
        scenario = f"{self.difference.family}, seed {self.seed}"
        if self.python_differs:
            return f"{scenario}: rows differ for Python, and none for Spark SQL"
        rows = [_balance_text(row, balance) for row, balance in self.difference.sample]
        rows += [f"{row} does not fit row_schema" for row in self.unfit[:SAMPLE_ROWS]]
        return f"{scenario}: rows differ for Spark SQL, and none for Python: {', '.join(rows)}"


def _balance_text(row: Row, balance: int) -> str:
    times = f" {abs(balance)} times" if abs(balance) > 1 else ""
    return f"{row} is {'missing' if balance > 0 else 'too many'}{times}"


@dataclass(frozen=True, slots=True)
class Trials:
    """What was simulated of one family."""

    family: Family
    table: DataFrame
    """As onceproof.harness.campaign.tables describes it."""
    verdicts: pa.Table
    """Of the same scenarios, as JUDGED_BY_PYTHON names the columns."""


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


def table_in(session: SparkSession, tables: TrialTables, folders: Sequence[Path]) -> DataFrame:
    """Return what is judged of the trials of one family in folders, as FamilyTrials has it."""
    # With a schema Spark need not look into the files to find one; that of all columns takes a while to make.
    judged = pa.schema([tables.schema.field(name) for name in TRIAL_COLUMNS])
    return session.read.schema(from_arrow_schema(judged)).parquet(*map(str, folders))


def disagreements(session: SparkSession, all_trials: Sequence[Trials]) -> list[Disagreement]:
    """Judge all families by their SQL in one job; return the scenarios that Python judged differently."""
    found = SparkOracle(session).differences(
        [FamilyTrials.of(each.family, each.table, each.verdicts.num_rows) for each in all_trials]
    )
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
    """Return the verdicts on scenarios that either finds fault with: no time goes into the many others."""
    for_python = compute.or_(
        compute.fill_null(verdicts["rows_differ"], False),
        compute.greater(compute.list_value_length(verdicts["unfit"]), 0),
    )
    named = compute.is_in(verdicts[SCENARIO], value_set=pa.array(for_spark, pa.int64()))
    rows: list[dict[str, Any]] = (
        verdicts.select(JUDGED_BY_PYTHON).filter(compute.or_(for_python, named)).to_pylist()
    )
    return rows
