"""Random job graphs: drawn, written as parameters of a scenario, built, printed as a program, and judged."""
