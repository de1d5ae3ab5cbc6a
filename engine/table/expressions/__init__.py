"""Expressions of plans, compiled to Python; ``registry.FUNCTION_MODULES`` lists the modules of functions."""
