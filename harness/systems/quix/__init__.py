"""Quix Streams as a system on trial."""
