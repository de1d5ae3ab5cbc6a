"""The statements of scripts in Spark SQL: they judge the scenarios of a campaign as Python does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from onceproof.harness.campaign.trial_tables import TrialTables, TriedScenario
from onceproof.harness.checkers.outcome import outcome_of
from onceproof.harness.model.family_places import in_spark
from onceproof.harness.scripts.sql.spark_oracle import SparkStatements, spark_text
from onceproof.harness.scripts.sql.windows import Untranslatable
from onceproof.harness.trials.faultless_runs import undisturbed
from onceproof.harness.trials.trial import scenario_of, try_scenario
from tests.harness.scripts.sql.test_batch import TIMES, batch_of
from tests.harness.scripts.sql.test_sql_family import NAMES, family_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from onceproof.harness.model.family import Family

SCENARIOS = 8
WINDOWS = {
    "hop": "TABLE(HOP(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND, INTERVAL '20' SECOND))",
    "cumulate": "TABLE(CUMULATE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND, INTERVAL '20' SECOND))",
    "session": "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(at), INTERVAL '5' SECOND))",
}


def trials_of(family):
    for seed in range(SCENARIOS):
        scenario = undisturbed(scenario_of(family, seed))
        trial = try_scenario(family, scenario, twice=False, continued=False)
        outcome = outcome_of(trial.scenario, trial.history, trial.verdict)
        yield TriedScenario.of(seed, trial.scenario, outcome, trial.history)


def judged(spark: SparkSession, family, trials):
    from onceproof.harness.campaign.judge import Trials, check_judgeable, judge
    from onceproof.harness.checkers.oracle_spark import arrow_schemas_of

    tables = TrialTables(family.name, *arrow_schemas_of(in_spark(family)))
    check_judgeable(spark, family, tables)
    batch = tables.batch([each.for_query(family) for each in trials])
    table = spark.createDataFrame(pa.Table.from_batches([batch]))
    return judge(spark, [Trials(family, table.select, len(trials))])[0]


@pytest.mark.spark
@pytest.mark.parametrize("name", NAMES)
def test_spark_judges_as_python_does(spark: SparkSession, name: str) -> None:
    family = family_of(name)
    trials = list(trials_of(family))
    found = judged(spark, family, trials)
    assert (found.scenarios, found.compared, found.disagreements) == (SCENARIOS, SCENARIOS, ())
    # The table of one scenario lacks a row, and Python has not seen it.
    place = next(place for place, each in enumerate(trials) if each.committed)
    query = trials[place].for_query(family)
    trials[place] = Shown(query.number, query.scenario, query.outcome, query.committed[1:], True)
    (wrong,) = judged(spark, family, trials).disagreements
    assert wrong.seed == query.outcome.seed


class Shown(TriedScenario):
    """A trial as the query gets it."""

    def for_query(self, family: Family) -> TriedScenario:
        return self


@pytest.mark.spark
@pytest.mark.parametrize("window", WINDOWS)
def test_windows_are_the_same_in_spark(spark: SparkSession, window: str) -> None:
    query = f"SELECT k, SUM(v) FROM {WINDOWS[window]} GROUP BY k, window_start, window_end"
    batch = batch_of(f"INSERT INTO s {query}", source={**TIMES, "v": "INT"})
    rows = [(key, at * 1_000_000_000, at) for key in "ab" for at in (5, 6, 14, 15, 20, 29, 60)]
    (tables,) = batch.tables({"t": rows})
    statements = SparkStatements("w", batch._sources, batch._sinks, batch)
    assert not statements.reason
    schema = f"scenario_id BIGINT, {statements.record_schema}"
    values = [(7, *value) for own in statements.records_of({"t": rows}).values() for _, value in own]
    spark.createDataFrame(values, schema).createOrReplaceTempView("records")
    found = spark.sql(statements.oracle_sql).collect()
    assert sorted(map(tuple, found)) == sorted((7, *row) for row in statements.rows_of(tables))


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("SELECT k, AVG(v) FROM t GROUP BY k", {"k": "VARCHAR(9)", "v": "DOUBLE"}),
        ("SELECT k, v FROM t WHERE v IN (SELECT MAX(v) FROM t)", None),
        ("SELECT DATE_FORMAT(at, 'yyyy'), 1 FROM t", TIMES),
    ],
)
def test_what_spark_does_not_judge_has_a_reason(query, source):
    batch = batch_of(f"INSERT INTO s {query}", source=source)
    statements = SparkStatements("s", batch._sources, batch._sinks, batch)
    assert statements.reason.startswith("Spark SQL has no exact translation of ")
    assert (statements.oracle_sql, statements.record_schema, statements.row_schema) == ("", "", "")


def test_numbers_are_divided_to_integers_in_spark():
    assert spark_text("SELECT flink_divided(a, b), flink_average(c) FROM t") == (
        "SELECT ((a) DIV (b)), (SUM(c) DIV COUNT(c)) FROM t"
    )
    with pytest.raises(Untranslatable, match="STRFTIME"):
        spark_text("SELECT strftime(a, '%Y') FROM t")
