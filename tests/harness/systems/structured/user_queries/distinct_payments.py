"""Payments, each of them once although tills repeat what was not acknowledged."""

from pyspark.sql import DataFrame


def distinct(payments: DataFrame) -> DataFrame:
    return payments.withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["payment"])
