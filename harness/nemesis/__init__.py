"""What goes wrong in a scenario: fault kinds at protocol points, drawn as plots that hurt."""
