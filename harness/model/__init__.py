"""The vocabulary of the harness: family, scenario, history, system, chance, faults, mutants."""
