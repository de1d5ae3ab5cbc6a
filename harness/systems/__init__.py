"""What stands trial: the engine in the simulation, in real processes, and other engines, behind one protocol.

Importing this package imports none of them: a child process that runs one must start in no time.
"""
