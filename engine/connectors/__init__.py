"""Connectors: where records come from and where they go."""
