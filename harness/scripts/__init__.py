"""Scripts: ordinary PyFlink programs, unedited, as families."""
