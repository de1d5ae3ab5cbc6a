"""Running totals in a dict: a mistake, because each task begins with an empty one."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

totals = {}


@udf("bigint")
def add(account, cents):
    totals[account] = totals.get(account, 0) + cents
    return totals[account]


spark = SparkSession.builder.getOrCreate()
postings = spark.readStream.schema("account STRING, cents BIGINT").json("/data/postings")
postings.select("account", add("account", "cents").alias("total")).writeStream.format("json").start(
    "/x"
).awaitTermination()
