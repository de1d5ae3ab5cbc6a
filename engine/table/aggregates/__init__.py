"""Aggregate functions of SQL; ``registry.AGGREGATE_MODULES`` lists their modules."""
