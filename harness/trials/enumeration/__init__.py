"""Every fault, and every pair of faults, of the smallest jobs: what chance does not have to find."""
