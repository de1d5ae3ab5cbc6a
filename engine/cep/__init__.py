"""Patterns of events: the automaton of MATCH_RECOGNIZE and of Flink's Pattern API."""
