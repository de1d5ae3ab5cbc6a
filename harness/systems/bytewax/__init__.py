"""Bytewax as a system on trial."""
