"""Spark Structured Streaming as a system on trial."""
