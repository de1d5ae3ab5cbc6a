"""Makes the class data archive of Spark (spark_class_archive) by running a small workload once.

The rules this module lives by:

- It takes most of a minute, and halves the time of every later start of Spark.
- The workload is a small version of what the engine, the campaign and its oracle do: jobs with workers in
  Python, queries over Parquet, compiled and interpreted, and a streaming query with state.
- The archive is written to a temporary file and renamed, so an interrupted run leaves none. Without an
  archive Spark works, only slower: if it cannot be made, set-up prints one line and continues.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from onceproof.engine.runtime.java import JavaInstallation
from onceproof.engine.runtime.spark_class_archive import BASE, archive_folder, archive_for, link_home
from onceproof.engine.runtime.spark_session import (
    SPARK_ERRORS,
    SparkFailed,
    one_line,
    start_spark,
    stop_spark,
)

SECONDS_TO_WRITE: Final = 300
KEYS: Final = 5
ROWS: Final = 100

_QUERY: Final = """
WITH flat AS (SELECT scenario, inline(records) FROM trials),
running AS (
  SELECT scenario, word, offset, count(*) OVER (PARTITION BY scenario, word ORDER BY offset) AS number
  FROM flat
)
SELECT scenario, slice(array_sort(collect_list(struct(row, balance))), 1, 5) AS sample
FROM (
  SELECT scenario, to_json(struct(word, number), map('ignoreNullFields', 'false')) AS row, sum(way) AS balance
  FROM (
    SELECT scenario, word, CAST(number AS BIGINT) AS number, 1 AS way FROM running
    UNION ALL
    SELECT one.scenario, one.word, other.offset, -1 FROM flat AS one
    JOIN flat AS other ON one.scenario = other.scenario AND one.offset = other.offset
  )
  GROUP BY scenario, word, number
  HAVING sum(way) <> 0
)
GROUP BY scenario
"""
_WAYS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"},
)


def make_archive(java: JavaInstallation) -> None:
    """Make the archive for a Java and the installed Spark, in place of older ones."""
    folder = archive_folder()
    shutil.rmtree(folder, ignore_errors=True)
    link_home(folder)
    options = ["-XX:+UseSerialGC"]
    if not list(java.home.glob("lib/server/classes.jsa")):
        base = folder / BASE
        command = [str(java.home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={base}", *options]
        subprocess.run(command, check=True, capture_output=True)
        options.append(f"-XX:SharedArchiveFile={base}")
    archive = archive_for(java)
    unfinished = archive.with_suffix(".new")
    options.append(f"-XX:ArchiveClassesAtExit={unfinished}")
    session = start_spark(
        name="onceproof set-up",
        configuration={"spark.driver.defaultJavaOptions": " ".join(options)},
        links=folder,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="onceproof-") as name:
            _jobs(session)
            _queries(session, Path(name))
            _stream(session, Path(name))
    except SPARK_ERRORS as error:
        raise SparkFailed(one_line(error)) from None
    finally:
        stop_spark(SECONDS_TO_WRITE)
    unfinished.rename(archive)


def _jobs(session: SparkSession) -> None:
    pairs = session.sparkContext.parallelize(range(ROWS), 2).map(lambda number: (number % KEYS, number))
    pairs.partitionBy(2).mapPartitions(lambda part: [sum(number for _, number in part)]).collect()


def _queries(session: SparkSession, folder: Path) -> None:
    schema = "scenario BIGINT, records ARRAY<STRUCT<word: STRING, offset: BIGINT>>"
    trials = session.range(0, ROWS, 1, 2).mapInArrow(_trials, schema)
    trials.write.parquet(str(folder / "trials"))
    for way in _WAYS:
        for name, value in way.items():
            session.conf.set(name, value)
        read = session.read.schema(schema).parquet(str(folder / "trials"))
        read.repartition(2, "scenario").createOrReplaceTempView("trials")
        session.sql(_QUERY).collect()
        for name in way:
            session.conf.unset(name)
    session.createDataFrame(pd.DataFrame({"word": ["a", "b"]})).groupBy("word").count().toArrow()


def _trials(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        records = [[{"word": str(at % KEYS), "offset": at} for at in range(KEYS)] for _ in range(len(batch))]
        yield pa.RecordBatch.from_pydict({"scenario": batch["id"], "records": records})


def _stream(session: SparkSession, folder: Path) -> None:
    """Count, once by Spark's own aggregation and once by state in Python."""
    numbers = session.range(0, ROWS, 1, 2).selectExpr(f"id % {KEYS} AS key", "timestamp_seconds(id) AS at")
    numbers.write.json(str(folder / "numbers"))
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    session.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    read = session.readStream.schema("key BIGINT, at TIMESTAMP").json(str(folder / "numbers"))
    counts = read.withWatermark("at", "1 second").groupBy("key").count()
    by_key = read.groupBy("key").applyInPandasWithState(
        _count, "key BIGINT, count BIGINT", "count BIGINT", "update", "NoTimeout"
    )
    for place, rows in enumerate((counts, by_key)):
        query = (
            rows.writeStream.outputMode("update")
            .foreachBatch(_collect)
            .option("checkpointLocation", str(folder / f"checkpoint-{place}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    files = read.writeStream.option("checkpointLocation", str(folder / "checkpoint-files"))
    files.trigger(availableNow=True).start(str(folder / "copied"), format="json").awaitTermination()


def _collect(rows: DataFrame, batch: int) -> None:
    rows.collect()


def _count(key: tuple[int], parts: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    before = state.get[0] if state.exists else 0
    state.update((before + sum(map(len, parts)),))
    yield pd.DataFrame({"key": [key[0]], "count": [state.get[0]]})


def train(java: JavaInstallation) -> None:
    """Make the archive for a Java and the installed Spark; print one line if that fails."""
    print("set-up: Java writes down Spark's classes, for quicker starts; it takes a minute", file=sys.stderr)
    try:
        make_archive(java)
    except (SparkFailed, OSError, subprocess.CalledProcessError) as error:
        print(f"set-up: not written down, starts of Spark take longer: {error}", file=sys.stderr)
