"""The family of the tutorial: short, and its oracles agree. What the page shows: tests/test_doc_output.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import scenario_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "harness" / "docs" / "tutorial.md"


@pytest.mark.spark
def test_spark_and_python_oracles_of_the_tutorial_family_agree(tmp_path: Path, spark: SparkSession) -> None:
    text = PAGE.read_text(encoding="utf-8")
    files = re.findall(r"`(\w+\.py)`[^`]*```python\n(.*?)```\n", text, re.DOTALL)[:2]
    for name, content in files:
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert 25 <= len([line for line in files[1][1].splitlines() if line.strip()]) <= 35
    family = load_family(str(tmp_path / "inside_family.py"))
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
