"""The two oracles of the family that ``onceproof init`` writes agree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import scenario_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "harness" / "docs" / "families.md"


@pytest.mark.spark
def test_spark_and_python_oracles_of_sales_agree(tmp_path: Path, spark: SparkSession) -> None:
    [sales, *_] = re.findall(r"```python\n(.*?)```\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "sales.py").write_text(sales, encoding="utf-8")
    family = load_family(str(tmp_path / "sales.py"))
    scenarios = [scenario_of(family, seed) for seed in range(20)]
    rows = [
        (number, split, offset, timestamp, *value)
        for number, scenario in enumerate(scenarios)
        for split, records in scenario.records.items()
        for offset, (timestamp, value) in enumerate(records)
    ]
    schema = f"scenario_id INT, split STRING, offset BIGINT, timestamp BIGINT, {family.record_schema}"
    spark.createDataFrame(rows, schema).createOrReplaceTempView("records")
    spark_rows = sorted(map(tuple, spark.sql(family.oracle_sql).collect()))
    expected = [
        (number, *row)
        for number, scenario in enumerate(scenarios)
        for row in family.expected(scenario.records, None)  # type: ignore[arg-type]
    ]
    assert spark_rows == sorted(expected)
