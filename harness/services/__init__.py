"""Real servers on this machine, for tests and trials: each with its data below one folder."""
