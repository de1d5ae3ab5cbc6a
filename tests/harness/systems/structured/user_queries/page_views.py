"""Views of each page in windows of five minutes: from one topic into another."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, from_json, struct, to_json, window

spark = SparkSession.builder.appName("page views").config("spark.sql.shuffle.partitions", 8).getOrCreate()

views = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", "broker:9092")
    .option("subscribe", "views")
    .load()
    .select(from_json(col("value").cast("string"), "page STRING, user STRING, at TIMESTAMP").alias("view"))
    .select("view.*")
)
counts = (
    views.withWatermark("at", "10 minutes")
    .groupBy(window("at", "5 minutes"), "page")
    .agg(count("*").alias("views"))
)
query = (
    counts.select(to_json(struct("window.start", "page", "views")).alias("value"))
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", "broker:9092")
    .option("topic", "views-by-page")
    .option("checkpointLocation", "/tmp/checkpoints/views")
    .outputMode("append")
    .start()
)
query.awaitTermination()
