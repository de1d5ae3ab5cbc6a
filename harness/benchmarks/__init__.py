"""Benchmarks: figures beside a floor or a peer of the same run."""
