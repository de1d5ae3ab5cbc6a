"""The family of flights over a year of real data: the data, an oracle, and three plans of kills."""
