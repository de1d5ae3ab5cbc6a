"""The drivers that carry the effects of the machines out: one process, Spark, storage, clocks."""
