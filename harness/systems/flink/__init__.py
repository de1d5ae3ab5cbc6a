"""Apache Flink itself on trial: its own processes, its own Python, the family's job as it is."""
