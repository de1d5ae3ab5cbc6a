"""Scenarios run and judged: one, many on a pool, all of a small scope, and planted bugs."""
