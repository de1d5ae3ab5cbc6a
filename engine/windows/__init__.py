"""Windows: which there are, which records they hold, when they fire, and what is thrown out of them.

``windows`` are the windows themselves, ``assigners`` give a record its windows, ``triggers`` say when a
window is worked out, ``evictors`` what is left out of it, ``functions`` what a user makes of it, ``merging``
how windows become one. The operator that puts them together is in ``onceproof.engine.operators.window``.
"""
