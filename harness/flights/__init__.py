"""A year of real flights under real kills."""
