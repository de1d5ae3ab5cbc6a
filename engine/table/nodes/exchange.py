"""Exchanges: nothing is to be done, see ``translation.py``."""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.translation import TableStream, Translation, translator

_KNOWN = frozenset({"HASH", "SINGLETON", "ANY", "UNKNOWN", "KEEP_INPUT_AS_IS"})


@translator("exchange", 1)
def translate_exchange(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Pass the input on: the stateful node behind it sends rows to the owner of their key."""
    for each in node.distributions:
        if each.kind not in _KNOWN:
            raise UnsupportedPlan(f"an exchange by {each.kind}")
    return inputs[0]
