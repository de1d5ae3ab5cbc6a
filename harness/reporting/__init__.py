"""Converts the results of a run to the model from which ``reports`` renders the HTML page."""
