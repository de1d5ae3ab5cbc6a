"""Separates the records for side outputs from those of the main output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onceproof.engine.elements import Record
from onceproof.engine.operators.base import Emit
from onceproof.engine.operators.declared_output import declared_output
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import TypeInformation


def emit_side_outputs(results: list[Record], side_outputs: Mapping[str, Sequence[Emit]]) -> list[Record]:
    """Emit every ``(tag, value)`` to the readers of the tag, and return the other records.

    An operator calls this at the end of each buffer, before it emits anything else, so that side records keep
    their order among watermarks and barriers. It can skip the call while ``OutputTag.exist`` is false.

    Values of a tag with a declared type become values of it.

    Raises TypeError for a tuple that begins with a tag but is no pair, and UndeclaredValue.
    """
    tagged: dict[str, list[Record]] = {}
    types: dict[str, TypeInformation | None] = {}
    left: list[Record] = []
    for record in results:
        value = record[0]
        if type(value) is tuple and value and type(value[0]) is OutputTag:
            if len(value) != 2:
                raise TypeError(f"{value!r} is nothing for a side output: yield the tag and one value")
            tag_id = value[0].tag_id
            tagged.setdefault(tag_id, []).append((value[1], record[1]))
            types[tag_id] = value[0].type_info
        else:
            left.append(record)
    for tag, records in tagged.items():
        readers = side_outputs.get(tag, ())
        declared = declared_output("side output", tag, types[tag]) if readers else None
        if declared is not None:
            records = declared.apply(records)
        for emit in readers:
            # Each reader gets a new list, because a buffer belongs to the queue that holds it.
            emit(list(records))
    return left
