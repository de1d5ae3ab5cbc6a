"""Barrier handlers: when a task with several inputs takes its snapshot."""
