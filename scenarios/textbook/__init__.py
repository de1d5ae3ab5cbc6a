"""The programs with which people learn stateful streams, as runnable files, and the families of their rules.

``README.md`` lists them. ``python scenarios/textbook/count_to_100.py`` runs one on its example input.
"""
