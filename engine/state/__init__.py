"""State: keyed tables, operator lists, and their snapshots."""
