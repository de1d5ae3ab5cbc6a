"""Stateful stream processing on Flink's model: the public API of onceproof, names as in PyFlink."""
