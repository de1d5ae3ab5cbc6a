"""Writes the tables of harness/docs/system-guarantees.md: ``python -m tests.system_table``.

A cell says whether a property is asked on a system, or whether a kind of fault is carried out there, by the
capabilities and answers of the systems themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def property_lines() -> Iterator[str]:
    """Yield the table of properties by systems."""
    systems = system_names()
    yield f"| property | {' | '.join(f'`{name}`' for name in systems)} |"
    yield f"| --- |{' :-: |' * len(systems)}"
    for each in (*PROPERTIES, *CONTINUATIONS, DETERMINISM):
        cells = ["yes" if each in asked_on(name) else "–" for name in systems]
        yield f"| {each} | {' | '.join(cells)} |"


def fault_lines() -> Iterator[str]:
    """Yield the table of faults by systems: at how many of the points of its row a kind strikes."""
    systems = system_names()
    answers = {name: answers_of(name) for name in systems}
    yield f"| fault | {' | '.join(f'`{name}`' for name in systems)} |"
    yield f"| --- |{' :-: |' * len(systems)}"
    for kind, row in FAULTS.items():
        cells = []
        for name in systems:
            answer = answers[name][kind]
            if not isinstance(answer, CarriedOut):
                cells.append("–")
            elif len(answer.points) == len(row.points):
                cells.append("yes")
            else:
                cells.append(f"{len(answer.points)} of {len(row.points)}")
        yield f"| {kind} | {' | '.join(cells)} |"


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
