"""Scripts of Flink SQL: their plans, their rows, and what they should leave."""
