"""Checkpoints: what they consist of, which are kept, and how their state is dealt out on a restore."""
