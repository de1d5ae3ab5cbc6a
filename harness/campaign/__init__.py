"""The nightly data pipeline on Spark."""
