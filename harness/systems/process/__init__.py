"""What the systems of real processes share, from the job specification and the fault board to the history."""
