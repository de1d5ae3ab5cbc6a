"""What puts an engine on trial: random streams, faults, checkers, oracles, shrinking and explanation.

PYTEST_DONT_REWRITE: no assertion of this package is a test's, so pytest need not rewrite them. It does not
warn then when it starts in a program that has imported the package already.
"""
