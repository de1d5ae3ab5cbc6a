"""Which parameters of a scenario drive what recovery costs: a designed experiment, run and told in words."""
