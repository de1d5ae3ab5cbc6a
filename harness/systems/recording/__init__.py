"""Event logs of real processes, and the history that is built from them."""
