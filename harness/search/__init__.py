"""Strategies that choose the next scenario of a search: drawn, or mutated from what reached something new."""
