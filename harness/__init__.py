"""What puts an engine on trial: random streams, faults, checkers, oracles, shrinking and explanation.

PYTEST_DONT_REWRITE: whoever starts pytest in a program that has imported this need not be warned that its
assertions are too late to be rewritten. None of them is a test's.
"""
