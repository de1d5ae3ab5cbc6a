"""Explanations of a failed scenario: what is wrong, the cause, and the events that led to it."""
