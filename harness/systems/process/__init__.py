"""What every system of real processes shares: job specification, fault board, test sources and sinks."""
