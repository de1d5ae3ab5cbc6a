"""Windows, their assigners, triggers, evictors and functions, under PyFlink's names.

``windows`` are the windows themselves, ``assigners`` assign records to windows, ``triggers`` decide when a
window fires, ``evictors`` remove records from it, ``functions`` are the user's window functions, ``merging``
tracks windows that merge. The operator is in ``onceproof.engine.operators.window``.
"""
