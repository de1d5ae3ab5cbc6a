"""Operators: what a task's chain is made of."""
