"""Kafka at both ends of a job: source, sink, and what both need."""
