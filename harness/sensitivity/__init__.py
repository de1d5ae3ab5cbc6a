"""Designed experiments that measure which parameters of a scenario drive the cost of recovery."""
