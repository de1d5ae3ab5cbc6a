"""Impressions of an advertisement, with the click that came within an hour if there was one."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import expr


def main():
    spark = SparkSession.builder.getOrCreate()
    impressions = spark.readStream.schema("ad STRING, shown TIMESTAMP").json("/data/impressions")
    clicks = spark.readStream.schema("clicked_ad STRING, clicked TIMESTAMP").json("/data/clicks")
    matched = impressions.withWatermark("shown", "2 hours").join(
        clicks.withWatermark("clicked", "3 hours"),
        expr("clicked_ad = ad AND clicked >= shown AND clicked <= shown + interval 1 hour"),
        "leftOuter",
    )
    matched.writeStream.format("parquet").option("checkpointLocation", "/data/checkpoints").start(
        "/data/matched"
    ).awaitTermination()


if __name__ == "__main__":
    main()
