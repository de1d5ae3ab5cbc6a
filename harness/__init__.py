"""What puts an engine on trial: random streams, faults, checkers, oracles, shrinking and explanation."""
