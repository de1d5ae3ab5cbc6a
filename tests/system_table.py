"""Writes the tables of harness/docs/system-guarantees.md: ``python -m tests.system_table``.

A row names the systems on which a property is checked or a kind of fault is carried out, by the
capabilities and answers of the systems themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from onceproof.harness.checkers import CONTINUATIONS, PROPERTIES, properties_asked_of
from onceproof.harness.checkers.determinism import PROPERTY as DETERMINISM
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_answers import CarriedOut
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.system import answers_of, capabilities_of
from onceproof.harness.model.system_homes import system_names

PAGE: Final = Path(__file__).parents[1] / "harness" / "docs" / "system-guarantees.md"
BEGIN, END = "<!-- table: {} -->", "<!-- end of the table -->"


def asked_on(system: str) -> set[str]:
    """Return the properties that are asked of the runs of a system."""
    capabilities = capabilities_of(system)
    asked = set(properties_asked_of(capabilities))
    if Capability.CONTINUATIONS in capabilities:
        asked |= set(CONTINUATIONS)
    if Capability.DETERMINISM in capabilities:
        asked.add(DETERMINISM)
    return asked


def labels() -> Mapping[str, str]:
    """Return how the tables name each system: those of one family with equal answers share `NAME*`."""
    found = {name: f"`{name}`" for name in system_names()}
    for stem in ("simulated", "spark"):
        alike = [name for name in found if name == stem or name.startswith(f"{stem}-")]
        if len({str((asked_on(name), _points_of(name))) for name in alike}) == 1:
            found |= dict.fromkeys(alike, f"`{stem}*`")
    return found


def property_lines() -> Iterator[str]:
    """Yield the table of properties with the systems on which they are checked."""
    yield "| property | systems |"
    yield "| --- | --- |"
    for each in (*PROPERTIES, *CONTINUATIONS, DETERMINISM):
        yield f"| {each} | {_systems({name: '' for name in system_names() if each in asked_on(name)})} |"


def fault_lines() -> Iterator[str]:
    """Yield the table of faults with the systems that carry them out, and at how many of their points."""
    yield "| fault | points | systems |"
    yield "| --- | --: | --- |"
    points = {name: _points_of(name) for name in system_names()}
    for kind, row in FAULTS.items():
        whole = len(row.points)
        counts = {name: points[name][kind] for name in system_names() if kind in points[name]}
        notes = {name: "" if count == whole else f" ({count})" for name, count in counts.items()}
        yield f"| {kind} | {whole} | {_systems(notes)} |"


def _points_of(system: str) -> dict[str, int]:
    """Return by kind of fault at how many of its points a system carries it out."""
    answers = answers_of(system)
    return {kind: len(each.points) for kind, each in answers.items() if isinstance(each, CarriedOut)}


def _systems(notes: Mapping[str, str]) -> str:
    """Return the cell of some systems, each with its note."""
    if len(notes) == len(system_names()) and not any(notes.values()):
        return "all"
    named = labels()
    if not any(notes.values()):
        missing = [named[name] for name in system_names() if name not in notes]
        if len(missing) == 1:
            return f"all but {missing[0]}"
    return ", ".join(dict.fromkeys(named[name] + note for name, note in notes.items()))


TABLES: Final = {"properties": property_lines, "faults": fault_lines}


def with_tables(text: str) -> str:
    """Return the text of the page with its tables as they are now."""
    for name, lines in TABLES.items():
        before, begin, rest = text.partition(BEGIN.format(name))
        _, end, after = rest.partition(END)
        assert begin, name
        assert end, name
        text = f"{before}{begin}\n" + "\n".join(lines()) + f"\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
