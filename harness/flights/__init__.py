"""The family of flights on a year of real data: the data, its oracle, and three plans to run it under kills."""
