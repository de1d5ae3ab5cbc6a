"""The deterministic simulation: the engine's own machines in a world that can fail at every step."""
