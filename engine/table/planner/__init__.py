"""Flink's planner as a service: statements go in, compiled plans come out.

A plan has what the text of a statement does not: types and nullability of every expression, implicit casts,
pruned columns, changelog modes, upsert keys, rank strategies, time attributes, and errors in Flink's words. A
parser of our own (sqlglot parses 325 to 354 of 442 recorded queries, by the dialect) would need Flink's
validator and optimiser rebuilt. Plans cost three seconds for a start and tenths of a second for a statement.
They cannot hold tables made from streams, the type VARIANT, and table aggregates in Python.
"""
