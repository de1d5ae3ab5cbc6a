"""Postings in a table: a mistake, because a batch that is run again is appended again."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()


def store(batch, batch_id):
    batch.write.mode("append").parquet("/data/ledger")


postings = spark.readStream.schema("account STRING, cents BIGINT").json("/data/postings")
postings.writeStream.foreachBatch(store).start().awaitTermination()
