"""Projections and group windows with the user's functions in Python.

The planner keeps these apart, because Flink runs them in a Python of their own; here they are functions like
others (``user_functions.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.engine.table.nodes.calc import translate_calc
from onceproof.engine.table.nodes.group_window import translate_group_window
from onceproof.engine.table.plans import Node
from onceproof.engine.table.translation import TableStream, Translation, translator


@translator("python-calc", 1)
def translate_python_calc(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator of a projection without a condition."""
    return translate_calc(node, inputs, translation)


@translator("python-group-window-aggregate", 1)
def translate_python_group_window(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator of a group window."""
    return translate_group_window(node, inputs, translation)
