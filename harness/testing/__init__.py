"""What the pytest plugin does for a test that asks for it; only ``harness.testing.plugin`` imports pytest."""
