"""Nexmark: an auction house in events, and the queries by which stream processors are compared.

``nexmark_q5`` is the module ``q5``: a family like any other. Shared are ``_generator`` (the events),
``_events`` (what a scenario draws of them, and how jobs and oracles read it) and ``_windows``.
"""
