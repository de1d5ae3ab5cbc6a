"""The balance of each account, upserted into a table by foreachBatch."""

import sqlite3
from contextlib import closing

from pyspark.sql import SparkSession
from pyspark.sql.functions import sum as total_of

UPSERT = """
    INSERT INTO balances VALUES (?, ?)
    ON CONFLICT (account) DO UPDATE SET cents = excluded.cents
"""


def upsert(balances, batch_id):
    with closing(sqlite3.connect("balances.db")) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, cents INTEGER)")
        database.executemany(UPSERT, [tuple(row) for row in balances.collect()])


spark = SparkSession.builder.getOrCreate()
postings = spark.readStream.schema("account STRING, cents BIGINT").json("/data/postings")
balances = postings.groupBy("account").agg(total_of("cents"))
balances.writeStream.outputMode("update").foreachBatch(upsert).start().awaitTermination()
