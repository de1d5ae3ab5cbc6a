"""Structured Streaming's program of the benchmark `peers`, in a process of its own.

    python -m tests.benchmarks.spark_structured_peer CASE INPUT OUTPUT STATE

It reads the files in batches, and writes with Spark's exactly-once file sink; every batch is a checkpoint. It
prints the seconds of the query as a JSON object, as peer_engine.py does. Windows that are open when the input
ends are given out by a line of each file's own behind it, far in the future.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from onceproof.engine.runtime.spark_session import spark_session
from tests.benchmarks.peer_cases import COUNT, PARTS, WINDOW_MS, WINDOWS
from tests.benchmarks.peer_clock import Stopwatch
from tests.benchmarks.spark_peers import PEERS, STREAMING

SCHEMAS = {
    COUNT: "key BIGINT",
    WINDOWS: "key BIGINT, moment BIGINT",
    "query": "is_bid INT, auction BIGINT, bidder BIGINT, price BIGINT, moment BIGINT",
}
END = {WINDOWS: "-1,{}", "query": "1,0,0,0,{}"}
"""A line that ends all windows before its own, which stays open. Spark applies filters before a watermark."""
FAR_MS = 10_000_000_000


def rows_of(case: str, lines: DataFrame) -> DataFrame:
    """Return the rows of a case."""
    if case == COUNT:
        return PEERS["apply_in_pandas_with_state"].counts(lines)
    timed = lines.withColumn("at", sql.timestamp_millis("moment")).withWatermark("at", "1 second")
    window = sql.window("at", f"{WINDOW_MS} milliseconds")
    start = (sql.unix_millis(sql.col("window.start"))).alias("start")
    if case == WINDOWS:
        counts = timed.groupBy(window, "key").count()
        return counts.select("key", start, "count")
    best = sql.max(sql.struct("price", "auction", "bidder")).alias("best")
    highest = timed.where("is_bid = 1").groupBy(window).agg(best)
    return highest.select(start, "best.price", "best.auction", "best.bidder")


def main(case: str, given: str, output: str, state: str) -> None:
    """Run a case, and print its seconds."""
    if case in END:
        for part in range(PARTS):
            # The files of the last batch but one hold the line, and those of the last see the windows end.
            Path(given, f"8-{part}.csv").write_text(END[case].format(FAR_MS) + "\n")
            Path(given, f"9-{part}.csv").write_text(END[case].format(FAR_MS) + "\n")
    with spark_session() as session:
        for option, value in STREAMING.items():
            session.conf.set(option, value)
        session.range(1).count()
        lines = session.readStream.schema(SCHEMAS[case]).option("maxFilesPerTrigger", PARTS).csv(given)
        stopwatch = Stopwatch()
        writer = rows_of(case, lines).writeStream.option("checkpointLocation", state)
        writer.format("csv").outputMode("append").trigger(availableNow=True).start(output).awaitTermination()
        taken = stopwatch.seconds()
    print(json.dumps(taken))


if __name__ == "__main__":
    main(*sys.argv[1:])
