"""Separates the records for side outputs from those of the main output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onceproof.engine.elements import Record
from onceproof.engine.operators.base import Emit
from onceproof.engine.output_tag import OutputTag


def emit_side_outputs(results: list[Record], side_outputs: Mapping[str, Sequence[Emit]]) -> list[Record]:
    """Emit every ``(tag, value)`` to the readers of the tag, and return the other records.

    An operator calls this at the end of each buffer, before it emits anything else, so that side records keep
    their order among watermarks and barriers. It can skip the call while ``OutputTag.exist`` is false.

    Raises TypeError for a tuple that begins with a tag but is no pair.
    """
    tagged: dict[str, list[Record]] = {}
    left: list[Record] = []
    for record in results:
        value = record[0]
        if type(value) is tuple and value and type(value[0]) is OutputTag:
            if len(value) != 2:
                raise TypeError(f"{value!r} is nothing for a side output: yield the tag and one value")
            tagged.setdefault(value[0].tag_id, []).append((value[1], record[1]))
        else:
            left.append(record)
    for tag, records in tagged.items():
        for emit in side_outputs.get(tag, ()):
            # Each reader gets a new list, because a buffer belongs to the queue that holds it.
            emit(list(records))
    return left
