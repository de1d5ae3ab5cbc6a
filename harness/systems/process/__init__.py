"""What the systems of real processes share: job specification, fault board, test sources and sinks, the history."""
