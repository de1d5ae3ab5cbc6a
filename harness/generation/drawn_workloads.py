"""What a family draws for a scenario, checked: a file is Python without types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from onceproof.harness.model.family import Family, FamilyError, Workload, source_file

LONGEST_VALUE: Final = 60
"""The most characters of a wrong value that an error shows."""


def workload_of(family: Family, random: Random) -> Workload:
    """Return what a family generates.

    Raises:
        FamilyError: it is no Workload, or its parts have other types than those of a Workload.
    """
    drawn: Any = family.generate(random)  # A file is Python without types.
    place = source_file(family) or family.name
    if not isinstance(drawn, Workload):
        raise FamilyError(f"{place}: generate() returns {_in_short(drawn)}, but it must return a Workload")
    parts: tuple[tuple[str, Any], ...] = (("records", drawn.records), ("parameters", drawn.parameters))
    for name, part in parts:
        if not isinstance(part, Mapping):
            raise FamilyError(
                f"{place}: the {name} that generate() returns are a mapping, not {_in_short(part)}"
            )
    for split, records in parts[0][1].items():
        if not isinstance(records, Sequence) or isinstance(records, str | bytes):
            raise FamilyError(
                f"{place}: generate() returns {_in_short(records)} for split {split!r}, but the records of a"
                " split are a list of (timestamp, value)"
            )
    return drawn


def _in_short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."
