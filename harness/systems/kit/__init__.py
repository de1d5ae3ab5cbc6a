"""What systems under test have in common: drivers, incarnations, points of faults, histories."""
