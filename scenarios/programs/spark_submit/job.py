"""Records of new files into other files, in Structured Streaming: job.py INPUT OUTPUT CHECKPOINT."""

import sys

from pyspark.sql import SparkSession

given, written, checkpoint = sys.argv[1:]
spark = SparkSession.builder.appName("copy").getOrCreate()
records = spark.readStream.schema("id BIGINT, key STRING").option("maxFilesPerTrigger", 2).json(given)
files = records.select("id").writeStream.format("json").option("checkpointLocation", checkpoint)
query = files.trigger(processingTime="100 milliseconds").start(written)
print("the query runs", flush=True)
query.awaitTermination()
