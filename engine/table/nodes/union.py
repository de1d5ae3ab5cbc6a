"""Unions of streams of one type."""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.engine.table.plans import Node
from onceproof.engine.table.translation import TableStream, Translation, translator


@translator("union", 1)
def translate_union(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Unite the inputs."""
    first, *others = inputs
    return TableStream(first.stream.union(*[each.stream for each in others]), node.output)
