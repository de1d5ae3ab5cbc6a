"""The total of each account after each posting, in state of its own."""

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout


def total(key, frames, state):
    sum_so_far = state.get[0] if state.exists else 0
    for frame in frames:
        sum_so_far += int(frame.cents.sum())
    state.update((sum_so_far,))
    yield pd.DataFrame({"account": [key[0]], "total": [sum_so_far]})


spark = SparkSession.builder.getOrCreate()
postings = spark.readStream.schema("account STRING, cents BIGINT").json("/data/postings")
totals = postings.groupBy("account").applyInPandasWithState(
    total, "account STRING, total BIGINT", "total BIGINT", "update", GroupStateTimeout.NoTimeout
)
totals.writeStream.outputMode("update").format("console").start().awaitTermination()
