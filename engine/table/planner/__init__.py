"""Flink's planner as a service: statements go in, compiled plans come out."""
