"""OBJECT_OF and OBJECT_UPDATE: values of structured types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceproof.engine.table.expressions.conditionals import as_type
from onceproof.engine.table.expressions.registry import Evaluate, Scope, builder
from onceproof.engine.table.expressions.rex import Call, Literal
from onceproof.engine.table.values import Row


def _changes(call: Call, operands: Sequence[Evaluate], scope: Scope) -> dict[int, Evaluate]:
    """Return the values of ``name, value, name, value`` by the place of the field."""
    names, types = call.type.names, call.type.types
    found: dict[int, Evaluate] = {}
    for at in range(1, len(operands), 2):
        name = call.operands[at]
        assert isinstance(name, Literal)
        place = names.index(name.value)
        found[place] = as_type(operands[at + 1], call.operands[at + 1].type, types[place], scope)
    return found


@builder("$OBJECT_OF$1")
def _object_of(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    changes = _changes(call, operands, scope)
    fields = [changes[place] for place in range(len(call.type.fields))]
    return lambda row: tuple([field(row) for field in fields])


@builder("$OBJECT_UPDATE$1")
def _object_update(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    given, changes = operands[0], _changes(call, operands, scope)

    def evaluate(row: Row) -> Any:
        value = given(row)
        if value is None:
            return None
        return tuple([changes[at](row) if at in changes else each for at, each in enumerate(value)])

    return evaluate
