"""From the results of a run to the values that the HTML report is rendered from."""
