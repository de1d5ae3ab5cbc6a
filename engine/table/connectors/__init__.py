"""The connectors that tables name in WITH, on the engine's sources and sinks."""
