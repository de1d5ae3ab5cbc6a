"""From a seed to a scenario: generators, fault patterns, Hypothesis strategies and their profiles."""
