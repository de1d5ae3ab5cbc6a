"""The campaign: scenarios simulated and judged by a data pipeline on Spark."""
