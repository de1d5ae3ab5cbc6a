"""SQL and the Table API: Flink's compiled plans on the engine's operators, state and watermarks."""
