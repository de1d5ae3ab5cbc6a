"""`onceproof families` and `faults`: print tables, or with --json one document.

The rules this module lives by:

- A table is plain text in columns with one line per item, so that `grep` and `cut` work on it.
- The JSON documents have fixed fields and the same numbers as the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from onceproof.harness.model.exit_codes import PASSED
from onceproof.harness.model.family_places import family_names, load_family


def families_command(as_json: bool) -> int:
    """Print the built-in families with their tasks and schemas."""
    families = [load_family(name) for name in family_names()]
    if as_json:
        _print_json(
            [
                {
                    "name": family.name,
                    "generator_version": family.generator_version,
                    "summary": _summary(family),
                    "tasks": dict(family.tasks),
                    "record_schema": family.record_schema,
                    "row_schema": family.row_schema,
                }
                for family in families
            ]
        )
        return PASSED
    width = max(len(family.name) for family in families)
    for family in families:
        print(f"{family.name:<{width}}  {_summary(family)}")
        print(f"{'':<{width}}  tasks {', '.join(family.tasks)}; rows {family.row_schema}")
    return PASSED


def faults_command(systems: Sequence[str], as_json: bool) -> int:
    """Print the fault table with the answer of each named system, or of all systems, to each row."""
    from onceproof.harness.model.fault_answers import CarriedOut
    from onceproof.harness.model.faults import FAULTS
    from onceproof.harness.model.system import answers_of
    from onceproof.harness.model.system_homes import system_names

    answers = {name: answers_of(name) for name in systems or system_names()}
    if as_json:
        _print_json(
            [
                {
                    "kind": kind,
                    "strikes": row.strikes,
                    "verb": row.verb,
                    "points": row.points,
                    "systems": {
                        name: {
                            "carried_out": isinstance(answer := of_system[kind], CarriedOut),
                            "points": answer.points if isinstance(answer, CarriedOut) else (),
                            "answer": str(answer),
                        }
                        for name, of_system in answers.items()
                    },
                }
                for kind, row in FAULTS.items()
            ]
        )
        return PASSED
    width = max(map(len, answers))
    for kind, row in FAULTS.items():
        print(f"{kind}  at {', '.join(row.points)}")
        for name, of_system in answers.items():
            answer = of_system[kind]
            print(f"  {name:<{width}}  {'yes' if isinstance(answer, CarriedOut) else 'no ':<3}  {answer}")
    return PASSED


def _summary(family: Any) -> str:
    """Return the first sentence of the family's own description."""
    text = " ".join((family.__doc__ or "").split())
    return text.partition(". ")[0].rstrip(".")


def _print_json(document: Any) -> None:
    print(msgspec.json.encode(document).decode())
