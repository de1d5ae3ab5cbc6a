"""Constant rows."""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.engine.table.expressions.registry import compile_projection
from onceproof.engine.table.operators import Moment
from onceproof.engine.table.plans import Node
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import INSERT


@translator("values", 1)
def translate_values(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Read the rows from a collection."""
    scope = translation.settings.scope(Moment())
    changes = [
        (INSERT, compile_projection(expressions, scope)(())) for expressions in node.attributes["tuples"]
    ]
    stream = translation.environment.from_collection(changes)
    stream.name("values").uid(f"{node.id}_values")
    return TableStream(stream, node.output)
