"""The Table API under PyFlink's names: programs describe tables, Flink's planner makes plans of them."""
