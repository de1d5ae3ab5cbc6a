"""The pytest plugin, and what it runs for a test; only ``harness.testing.plugin`` imports pytest."""
