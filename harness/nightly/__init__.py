"""The nightly run: its steps, the history of earlier nights, and the trend."""
