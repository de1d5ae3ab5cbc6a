"""Sorts the records that a function gives to side outputs out of those for the main one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onceproof.engine.elements import Record
from onceproof.engine.operators.base import Emit
from onceproof.engine.output_tag import OutputTag


def sort_out(results: list[Record], side_outputs: Mapping[str, Sequence[Emit]]) -> list[Record]:
    """Send every ``(tag, value)`` to those who read the tag; give what is left.

    Whoever calls this does so at the end of a buffer and before anything else is sent on, so side records
    keep their place among watermarks and barriers. He need not while ``OutputTag.exist`` is false.
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
            # Each reader a list of its own: a buffer belongs to the queue that it was put into.
            emit(list(records))
    return left
